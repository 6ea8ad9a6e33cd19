"""Pairs of master and slave, ours beside RocketMQ's, under the same load of the same Java client.

    python -m benchmarks.peers.replication [--seconds N] [--rounds N] [--peers …] [--out FILE]

All pairs are up at the same time, first as SYNC_MASTER, where a send is answered when the slave has
it, then as ASYNC_MASTER, where the slave follows as fast as it can.  The workloads go to one
pair after the other, round by round; the first round is not counted.  CPU is the account of each
process.  The lag is the longest time that the slave needed, while messages came at full speed, to
have what the master had; it is looked at twenty times a second.  Flushing is asynchronous
everywhere, RocketMQ's default.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from benchmarks.__main__ import RESULTS
from benchmarks.peers.sides import CLIENT_VERSION, Load, Row, process_cpu_s, show
from benchmarks.report.results import Measured, save
from flintmq import Admin
from support.interop.ask import ask
from support.interop.cluster import wait_until
from support.interop.jvm import missing_tools
from support.interop.replicas import (
    MASTER,
    SLAVE,
    OurReplica,
    RealReplica,
    Replica,
    ending,
    our_name_server,
    replica,
)

OURS = "flintmq"
PEERS = ("4.9.7", "5.3.3")
GET_BROKER_RUNTIME_INFO = 28
WARM_UP_SECONDS = 12
PATIENCE_S = 120.0
LOOK_S = 0.05
SETTINGS: dict[str, Any] = {
    "mappedFileSizeCommitLog": 256 * 1024 * 1024,
    "mappedFileSizeConsumeQueue": 6_000_000,
    "maxHashSlotNum": 5_000_000,
    "maxIndexNum": 20_000_000,
}
SYNC, ASYNC = "SYNC_MASTER", "ASYNC_MASTER"
WORKLOADS = {
    SYNC: {
        "SYNC_MASTER, sync send 128 B, 1 thread": "send {ns} one 128 1 {seconds}",
        "SYNC_MASTER, sync send 128 B, 16 threads": "send {ns} some 128 16 {seconds}",
        "SYNC_MASTER, sync send 128 B, 64 threads": "send {ns} many 128 64 {seconds}",
        "SYNC_MASTER, batch send 32 x 128 B, 4 threads": "batch {ns} batch 128 4 {seconds} 32",
    },
    ASYNC: {
        "ASYNC_MASTER, sync send 128 B, 64 threads": "send {ns} many 128 64 {seconds}",
        "ASYNC_MASTER, batch send 32 x 128 B, 4 threads": "batch {ns} batch 128 4 {seconds} 32",
    },
}
METRICS = {
    "rate": "a second",
    "server_us": "master µs",
    "slave_us": "slave µs",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "lag_ms": "lag ms",
}


@dataclass(frozen=True)
class Pair:
    """A master and its slave that are up."""

    name: str
    namesrv: str
    master: Replica
    slave: Replica

    def cpu_s(self) -> tuple[float, float]:
        """What both processes have used."""
        return process_cpu_s(_pid(self.master)), process_cpu_s(_pid(self.slave))

    def ends(self) -> tuple[int, int]:
        """How long both logs are."""
        return log_end(address(self.master)), log_end(address(self.slave))


def _pid(one: Replica) -> int:
    if isinstance(one, RealReplica):
        return one.real.broker_pid
    assert isinstance(one, OurReplica)
    assert one.server.process is not None
    return one.server.process.pid


def address(one: Replica) -> str:
    if isinstance(one, RealReplica):
        return one.real.broker
    assert isinstance(one, OurReplica)
    return one.server.address


def log_end(broker: str) -> int:
    _, body = ask(broker, GET_BROKER_RUNTIME_INFO)
    return int(json.loads(body)["table"]["commitLogMaxOffset"])


@contextmanager
def running(name: str, role: str, directory: Path) -> Iterator[Pair]:
    """A pair of ours or of a release, once its slave follows."""
    directory.mkdir(parents=True)
    release = "ours" if name == OURS else name
    with our_name_server(directory) as namesrv:
        as_master = {**MASTER, "brokerRole": role}
        if release == "ours":
            as_master["haListenPort"] = 0  # an ASYNC_MASTER has slaves where this is set
        master = replica(release, as_master, directory / "master", namesrv, **SETTINGS)
        slave = replica(release, SLAVE, directory / "slave", namesrv, **SETTINGS)
        with ending([master, slave]):
            master.start()
            slave.start()
            wait_until("both to register", lambda: _registered(namesrv) == 2, PATIENCE_S)
            title = OURS if name == OURS else f"RocketMQ {name}"
            yield Pair(title, namesrv, master, slave)


def _registered(namesrv: str) -> int:
    with Admin(namesrv=namesrv) as admin:
        return sum(len(each.addresses) for each in admin.cluster().brokers)


@dataclass
class Lag:
    """Looks at both logs until it is stopped; how long the slave was behind at most."""

    pair: Pair
    longest_s: float = 0.0
    _open: list[tuple[float, int]] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(LOOK_S) or self._open:
            asked = time.monotonic()
            master, slave = self.pair.ends()
            self._open.append((asked, master))
            now = time.monotonic()
            for began, _ in [each for each in self._open if each[1] <= slave]:
                self.longest_s = max(self.longest_s, now - began)
            self._open = [each for each in self._open if each[1] > slave]


def measure(load: Load, pair: Pair, command: str, seconds: int) -> Row:
    before = pair.cpu_s()
    with Lag(pair) as lag:
        result = load.run(command.format(ns=pair.namesrv, seconds=seconds))
    after, count = pair.cpu_s(), max(1.0, result["count"])
    return {
        "rate": result["count"] / result["seconds"],
        "server_us": (after[0] - before[0]) * 1e6 / count,
        "slave_us": (after[1] - before[1]) * 1e6 / count,
        "p50_ms": result["p50_ms"],
        "p99_ms": result["p99_ms"],
        "lag_ms": lag.longest_s * 1000,
    }


def warm_up(load: Load, pair: Pair) -> None:
    """Send until a slave acknowledges, and then for a while."""
    command = f"send {pair.namesrv} warm 128 16"
    deadline = time.monotonic() + PATIENCE_S
    while load.run(f"{command} 1")["failed"]:
        if time.monotonic() > deadline:
            raise SystemExit(f"the slave of {pair.name} does not follow")
    load.run(f"{command} {WARM_UP_SECONDS}")


def run(role: str, names: Sequence[str], chosen: argparse.Namespace) -> list[Measured]:
    found = {name: Measured(name) for name in WORKLOADS[role]}
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        pairs = [stack.enter_context(running(name, role, work / name)) for name in names]
        load = Load.java(work)
        stack.callback(load.close)
        for pair in pairs:
            print(f"… warming up {pair.name} as {role}", file=sys.stderr, flush=True)
            warm_up(load, pair)
        for number in range(chosen.rounds + 1):
            print(f"… {role}, round {number} of {chosen.rounds}", file=sys.stderr, flush=True)
            for name, command in WORKLOADS[role].items():
                for pair in pairs if number % 2 == 0 else reversed(pairs):
                    row = measure(load, pair, command, chosen.seconds)
                    if number:  # the first time warms up
                        found[name].add(pair.name, row)
    return list(found.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=int, default=5, help="length of one round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", nargs="*", default=list(PEERS))
    parser.add_argument("--roles", nargs="*", default=list(WORKLOADS), choices=list(WORKLOADS))
    parser.add_argument("--out", type=Path, default=RESULTS / "peers_replication.json")
    chosen = parser.parse_args()
    if reason := missing_tools("java", "mvn"):
        print(f"skipped: {reason}")
        return 0
    names = [OURS, *chosen.peers]
    rows = [each for role in chosen.roles for each in run(role, names, chosen)]
    show(rows, METRICS, OURS, ("p50_ms", "lag_ms"))
    versions = {"RocketMQ": ", ".join(chosen.peers), "Java client": CLIENT_VERSION}
    settings = {name: getattr(chosen, name) for name in ("seconds", "rounds")}
    save(chosen.out, rows, versions=versions, settings=settings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
