"""Our broker beside Apache RocketMQ's, under the same load of the same Java client.

    python -m benchmarks.peers.broker [--seconds N] [--rounds N] [--only NAME …] [--out FILE]

First every broker is started and stopped a few times.  Then all of them are up the whole time, and
each is given a million messages, after which its memory is taken.  The workloads go to one of them
after the other, round by round, from one Java process; the first round is not counted.  CPU is the
account of the broker's process and, apart, of the client's.  On a shared machine the median of the
ratios counts, and the spread is shown with it.  Flushing is asynchronous on all sides,
RocketMQ's default.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.__main__ import RESULTS
from benchmarks.peers.sides import (
    BACKLOG,
    CLIENT_VERSION,
    Load,
    Row,
    Running,
    fill,
    our_side,
    real_side,
    show,
)
from benchmarks.report.goals import PLAIN
from benchmarks.report.results import Measured, save
from flintmq.kernel.choice import NATIVE, kernel
from support.interop.jvm import missing_tools

OURS, TWO = "flintmq", "flintmq, 2 brokers"
PEERS = ("4.9.7", "5.3.3")
WARM_UP_SECONDS = 12  # at most: three rounds
STARTS = 3
STORED = 1_000_000
"""Messages in a broker when its memory is taken."""

START = "start to ready, name server and broker"
MEMORY = "private memory after a million messages"

METRICS = {
    "rate": "a second",
    "server_us": "server µs",
    "client_us": "client µs",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "ready_s": "ready s",
    "private_mib": "MiB",
}


@dataclass(frozen=True)
class Workload:
    """What the load generator is told, by name server, seconds and round."""

    name: str
    command: Callable[[str, int, int], str]
    before: Callable[[str, int], str] | None = None  # by name server and round; not measured
    with_two: bool = False  # two broker processes beside one, in place of RocketMQ


def send(size: int, threads: int) -> Callable[[str, int, int], str]:
    return lambda ns, seconds, _: f"send {ns} bench_{size} {size} {threads} {seconds}"


WORKLOADS = [
    Workload("sync send 128 B, 1 thread", send(128, 1)),
    Workload("sync send 128 B, 16 threads", send(128, 16)),
    Workload("sync send 128 B, 64 threads", send(128, 64)),
    Workload("sync send 128 B, 64 threads, two brokers", send(128, 64), with_two=True),
    Workload("sync send 1 KiB, 64 threads", send(1024, 64)),
    Workload(
        "batch send 32 x 128 B, 4 threads",
        lambda ns, seconds, _: f"batch {ns} bench_batch 128 4 {seconds} 32",
    ),
    Workload("pull 128 B, 32 a pull", lambda ns, _s, _r: f"pull {ns} backlog_128 {BACKLOG}"),
    Workload("pull 1 KiB, 32 a pull", lambda ns, _s, _r: f"pull {ns} backlog_1024 {BACKLOG}"),
    Workload(
        "end to end at 1,000 a second",
        lambda ns, seconds, r: f"latency {ns} latency_{r} 1000 {seconds}",
        # A consumer of a topic that is not there yet would look for it only now and then.
        lambda ns, r: f"send {ns} latency_{r} 128 1 1",
    ),
]


def open_side(name: str, directory: Path) -> AbstractContextManager[Running]:
    if name == PLAIN:
        return our_side(directory, kernel="python")
    if name == TWO:
        return our_side(directory, brokers=2)
    return our_side(directory) if name == OURS else real_side(name, directory)


def measure(load: Load, side: Running, workload: Workload, seconds: int, number: int) -> Row:
    if workload.before is not None:
        load.run(workload.before(side.namesrv, number))
    before_s = side.cpu_s()
    result = load.run(workload.command(side.namesrv, seconds, number))
    server_s, count = side.cpu_s() - before_s, max(1, result["count"])
    row = {
        "rate": result["count"] / result["seconds"],
        "server_us": server_s * 1e6 / count,
        "client_us": result["cpu_s"] * 1e6 / count,
    }
    # A quantile that was not taken is below 0.
    quantiles = {name: result.get(name, -1.0) for name in ("p50_ms", "p99_ms")}
    return row | {name: value for name, value in quantiles.items() if value >= 0}


def start_and_stop(names: Sequence[str], times: int, work: Path) -> Measured:
    """How long each takes until it can be used, with an empty directory."""
    found = Measured(START)
    for number in range(times):
        for name in names if number % 2 == 0 else reversed(names):
            with open_side(name, work / f"start-{number}-{name}") as side:
                found.add(side.name, {"ready_s": side.ready_s})
    return found


def fill_up(load: Load, sides: Sequence[Running], stored: int, warm_up_s: int) -> Measured:
    """So many messages in every broker, and its memory then."""
    found = Measured(MEMORY)
    for side in sides:
        print(f"… warming up and filling {side.name}", file=sys.stderr, flush=True)
        load.run(f"send {side.namesrv} bench_128 128 16 {warm_up_s}")
        count = sum(fill(load, side, size, min(BACKLOG, stored)) for size in (128, 1024))
        if count < stored:
            fill(load, side, 128, int(stored - count))
        found.add(side.name, {"private_mib": side.private_mib()})
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=int, default=5, help="length of one round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--starts", type=int, default=STARTS, help="how often each is started")
    parser.add_argument(
        "--stored", type=int, default=STORED, help="messages before memory is taken"
    )
    parser.add_argument("--only", nargs="*", default=[], help="workloads whose name contains this")
    parser.add_argument(
        "--add", action="store_true", help="keep the published figures of other workloads"
    )
    parser.add_argument("--peers", nargs="*", default=list(PEERS))
    parser.add_argument("--out", type=Path, default=RESULTS / "peers_broker.json")
    chosen = parser.parse_args()
    if reason := missing_tools("java", "mvn"):
        print(f"skipped: {reason}")
        return 0
    only = [w for w in WORKLOADS if not chosen.only or any(part in w.name for part in chosen.only)]
    found = {workload.name: Measured(workload.name) for workload in only}
    is_native = kernel.name == NATIVE
    names = [OURS, *([PLAIN] if is_native else []), *chosen.peers]
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        starts = start_and_stop(names, chosen.starts, work)
        sides = [stack.enter_context(open_side(name, work / name)) for name in names]
        load = Load.java(work)
        stack.callback(load.close)
        warm_up_s = min(WARM_UP_SECONDS, 3 * chosen.seconds)
        memory = fill_up(load, sides, chosen.stored, warm_up_s)
        two = stack.enter_context(open_side(TWO, work / "two"))
        load.run(f"send {two.namesrv} bench_128 128 16 {warm_up_s}")
        for number in range(chosen.rounds + 1):
            print(f"… round {number} of {chosen.rounds}", file=sys.stderr, flush=True)
            for workload in only:
                asked = [sides[0], two] if workload.with_two else sides
                for side in asked if number % 2 == 0 else reversed(asked):
                    row = measure(load, side, workload, chosen.seconds, number)
                    if number:  # the first time warms up
                        found[workload.name].add(side.name, row)
    rows = [*found.values(), starts, memory]
    show(rows, METRICS, OURS, ("p50_ms",))
    if chosen.add:  # starts and memory are measured with everything
        rows = [*found.values()]
    versions = {
        "kernel": kernel.name,
        "RocketMQ": ", ".join(chosen.peers),
        "Java client": CLIENT_VERSION,
    }
    settings = {name: getattr(chosen, name) for name in ("seconds", "rounds", "starts", "stored")}
    save(chosen.out, rows, versions=versions, settings=settings, adds=chosen.add)
    return 0


if __name__ == "__main__":
    sys.exit(main())
