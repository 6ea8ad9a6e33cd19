"""A long run at a modest rate: does memory stay, and do descriptors and threads?

    python -m benchmarks.soak [--minutes N] [--rate N] [--every SECONDS] [--out FILE]

`flintmq serve` and a program with clients are a process each.  The program sends so many messages
a second, some with a delay level; a push group of two members consumes them and fails at some,
which come again; a lite pull consumer reads the same topic, and every minute another one comes
and goes.  Both processes are looked at every few seconds.

The first half may grow: pools fill, caches fill, and so does the event log of each member, with an
entry for every message that failed, up to 1,000 of about 400 bytes.  A trend is the median slope
between any two samples of the second half, taken on to an hour.  It is flat when that hour would
add less than a tenth of what is there; of memory also when it would add less than 10 MiB.  An
object left behind by every message would add three times that, and less cannot be told from an
allocator at work.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.__main__ import RESULTS
from benchmarks.at_rest import private_mib
from benchmarks.peers.sides import ROOT, our_side, process_cpu_s
from benchmarks.report.results import save
from flintmq import (
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    Retry,
)
from flintmq.core.group.listener_results import ListenerResult

TOPIC = "soaked"
BODY = bytes(128)
DELAYED_EVERY = 20
DELAY_LEVEL = 3  # ten seconds
FAILED_EVERY = 25  # so that the event logs of both members are full after 250 s
GUEST_EVERY_S = 60
GUEST_STAYS_S = 20
FLAT = 0.1
FLAT_MIB = 10.0
METRICS = (
    ("private_mib", "private memory, MiB"),
    ("descriptors", "open descriptors"),
    ("threads", "threads"),
    ("cpu_percent", "CPU, % of a core"),
)
GROWING = ("private_mib", "descriptors", "threads")

Sample = dict[str, float]


# The program with the clients


class Consumed:
    """What arrived; every twenty-fifth message fails the first time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first = 0
        self.count = 0
        self.retried = 0

    def push(self, messages: tuple[ReceivedMessage, ...]) -> ListenerResult:
        with self._lock:
            if messages[0].reconsume_times:
                self.retried += 1
            else:
                self._first += 1
                if self._first % FAILED_EVERY == 0:
                    return Retry()
            self.count += 1
        return None


def read_until(stop: threading.Event, namesrv: str, group: str, stays_s: float) -> None:
    deadline = time.monotonic() + stays_s
    with LitePullConsumer(group, namesrv=namesrv) as consumer:
        consumer.subscribe(TOPIC)
        while not stop.is_set() and time.monotonic() < deadline:
            consumer.poll(1_000)


def invite(stop: threading.Event, namesrv: str) -> None:
    """A reader that comes and goes."""
    while not stop.wait(GUEST_EVERY_S - GUEST_STAYS_S):
        read_until(stop, namesrv, "guests", GUEST_STAYS_S)


def live(namesrv: str, rate: int, seconds: float) -> None:
    """The whole program: it ends by itself, and says how much it did."""
    stop, consumed = threading.Event(), Consumed()
    readers = [
        threading.Thread(target=read_until, args=(stop, namesrv, "readers", seconds + 60)),
        threading.Thread(target=invite, args=(stop, namesrv)),
    ]
    with Producer("soakers", namesrv=namesrv) as producer:
        producer.send(Message(TOPIC, BODY))
        members = [PushConsumer("soaked", consumed.push, namesrv=namesrv) for _ in range(2)]
        for member in members:
            member.subscribe(TOPIC).start()
        for reader in readers:
            reader.start()
        sent, start_s = 0, time.monotonic()
        while (passed_s := time.monotonic() - start_s) < seconds:
            while sent < passed_s * rate:
                sent += 1
                level = DELAY_LEVEL if sent % DELAYED_EVERY == 0 else 0
                producer.send_async(Message(TOPIC, BODY, delay_level=level))
            time.sleep(0.01)
        producer.flush()
        stop.set()
        for reader in readers:
            reader.join()
        for member in members:
            member.stop()
    print(f"DONE sent={sent} consumed={consumed.count} retried={consumed.retried}", flush=True)


# Who watches


def sample(pid: int, at_s: float, cpu_before_s: float, passed_s: float) -> Sample:
    cpu_s = process_cpu_s(pid)
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    threads = next(int(line.split()[1]) for line in status if line.startswith("Threads:"))
    return {
        "at_s": at_s,
        "private_mib": private_mib(pid),
        "descriptors": len(os.listdir(f"/proc/{pid}/fd")),  # noqa: PTH208
        "threads": threads,
        "cpu_percent": (cpu_s - cpu_before_s) / passed_s * 100,
        "cpu_s": cpu_s,
    }


def watch(pids: dict[str, int], seconds: float, every_s: float) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = {name: [] for name in pids}
    before_s = {name: process_cpu_s(pid) for name, pid in pids.items()}
    start_s = last_s = time.monotonic()
    while (now_s := last_s + every_s) <= start_s + seconds:
        time.sleep(max(0.0, now_s - time.monotonic()))
        for name, pid in pids.items():
            row = sample(pid, now_s - start_s, before_s[name], every_s)
            before_s[name] = row.pop("cpu_s")
            found[name].append(row)
        last_s = now_s
    return found


def slope(rows: Sequence[Sample], metric: str) -> float:
    """The median slope between any two samples, a second; a few odd ones do not move it."""
    pairs = itertools.combinations(rows, 2)
    slopes = [(b[metric] - a[metric]) / (b["at_s"] - a["at_s"]) for a, b in pairs]
    return statistics.median(slopes) if slopes else 0.0


def trends(samples: dict[str, list[Sample]]) -> list[dict[str, Any]]:
    found = []
    for name, rows in samples.items():
        later = rows[len(rows) // 2 :]
        quarter = max(1, len(later) // 4)
        for metric, title in METRICS:
            if metric not in GROWING:
                continue
            an_hour = slope(later, metric) * 3_600
            middle = statistics.median(row[metric] for row in later)
            bound = max(middle * FLAT, FLAT_MIB if metric == "private_mib" else 0.0)
            found.append(
                {
                    "what": f"{name}: {title}",
                    "first": statistics.median(row[metric] for row in later[:quarter]),
                    "last": statistics.median(row[metric] for row in later[-quarter:]),
                    "an_hour": an_hour,
                    "verdict": "flat" if an_hour <= bound else "**grows**",
                }
            )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=int, default=200, help="messages a second")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two samples")
    parser.add_argument("--out", type=Path, default=RESULTS / "soak.json")
    parser.add_argument("--live", help=argparse.SUPPRESS)  # the name server: be the program
    given = parser.parse_args()
    seconds = given.minutes * 60
    if given.live:
        live(given.live, given.rate, seconds)
        return 0
    with (
        tempfile.TemporaryDirectory(prefix="flintmq-bench-") as work,
        our_side(Path(work) / "data") as broker,
    ):
        arguments = ["--live", broker.namesrv, "--rate", str(given.rate)]
        clients = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.soak", *arguments, "--minutes", str(given.minutes)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        pids = {"broker": broker.pid, "clients": clients.pid}
        samples = watch(pids, seconds, given.every)
        done, _ = clients.communicate(timeout=120)
    if clients.returncode or not done.startswith("DONE "):
        raise SystemExit(f"the clients ended with {clients.returncode}: {done}")
    counts = dict(word.split("=") for word in done.split()[1:])
    found = trends(samples)
    for each in found:
        trend = f"{each['last']:9.1f} {each['an_hour']:+9.2f} an hour"
        print(f"{each['what']:36} {trend}  {each['verdict']}")
    settings = {"minutes": given.minutes, "rate": given.rate, **counts}
    save(
        given.out,
        [],
        versions={},
        settings=settings,
        metrics=METRICS,
        samples=samples,
        trends=found,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
