"""Pops and gRPC beside RocketMQ 5.3.3 and its proxy, under the same load of the same Java clients.

    python -m benchmarks.peers.pop [--seconds N] [--rounds N] [--only NAME …] [--out FILE]

Ours is one process, `flintmq serve --grpc`; theirs are a broker and a proxy in cluster mode.  Both
are up the whole time, and the workloads go to one after the other, round by round; the first round
is not counted.  CPU of the servers is that of broker and proxy together, of pops through
remoting that of the broker alone; ours has its name server in it too.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.__main__ import RESULTS
from benchmarks.peers.broker import METRICS, OURS
from benchmarks.peers.sides import (
    CLIENT_VERSION,
    ROOT,
    Load,
    Row,
    Running,
    fill,
    our_side,
    process_cpu_s,
    real_side,
    show,
)
from benchmarks.report.results import Measured, save
from flintmq.client.admin import Admin
from flintmq.core.admin.spans import START
from support.interop.javaproxy import JavaProxy
from support.interop.jvm import compile_java, jars, missing_tools, start_java

PEER = "5.3.3"
GRPC_CLIENT = "5.2.0"
TOPIC = "backlog_128"
STORED = 60_000
"""Messages that every group reads from."""
POPPED = 30_000
RECEIVED = 6_000


@dataclass(frozen=True)
class PopSide:
    """A broker, and where gRPC clients connect."""

    broker: Running
    grpc: str
    proxy_pid: int | None = None
    """Of a proxy that is a process of its own."""

    @property
    def name(self) -> str:
        return self.broker.name

    def cpu_s(self, *, with_proxy: bool) -> float:
        spent = self.broker.cpu_s()
        if with_proxy and self.proxy_pid is not None:
            spent += process_cpu_s(self.proxy_pid)
        return spent


@dataclass(frozen=True)
class PopWork:
    """What a load generator is told, by side, group and seconds."""

    name: str
    command: Callable[[PopSide, str, int], str]
    is_grpc: bool


WORKS = [
    PopWork(
        "gRPC send 128 B, 16 threads",
        lambda side, _, seconds: f"send {side.grpc} grpc_128 128 16 {seconds}",
        is_grpc=True,
    ),
    PopWork(
        "gRPC receive and acknowledge 128 B, 4 threads",
        lambda side, group, _: f"receive {side.grpc} {TOPIC} {group} {RECEIVED} 4",
        is_grpc=True,
    ),
    PopWork(
        "pop 128 B through remoting",
        lambda side, group, _: f"pop {side.broker.namesrv} {TOPIC} {POPPED} {group}",
        is_grpc=False,
    ),
]


@contextmanager
def our_pops(directory: Path) -> Iterator[PopSide]:
    with our_side(directory, "--grpc", "127.0.0.1:0") as up:
        yield PopSide(up, up.said["grpc"])


@contextmanager
def real_pops(directory: Path) -> Iterator[PopSide]:
    with real_side(PEER, directory) as up, JavaProxy(directory, up.namesrv) as proxy:
        assert proxy.process is not None
        yield PopSide(up, proxy.grpc, proxy.process.pid)


def grpc_load(directory: Path) -> Load:
    lib = jars(["client-java"], GRPC_CLIENT)
    classes = compile_java([ROOT / "benchmarks" / "java" / "grpc" / "GrpcLoad.java"], lib)
    flags = ("-Xms512m", "-Xmx512m")
    directory.mkdir()
    started = start_java(
        "GrpcLoad", [], [lib, classes], jvm_flags=flags, reads_input=True, talks_in=directory
    )
    return Load(started)


def prepare(side: PopSide, load: Load) -> None:
    """Topics, and what every group reads."""
    with Admin(namesrv=side.broker.namesrv) as admin:
        for topic in ("grpc_128", TOPIC):
            admin.create_topic(topic, queues=4)
    fill(load, side.broker, 128, STORED)


def new_group(side: PopSide, number: int, work: PopWork) -> str:
    """A group that stands at the beginning and pops."""
    group = f"round_{number}_{'grpc' if work.is_grpc else 'pop'}"
    with Admin(namesrv=side.broker.namesrv) as admin:
        admin.create_group(group)
        admin.apply_reset(admin.plan_reset(group, TOPIC, START))
        admin.set_consume_mode(group, TOPIC, "pop")
    return group


def measure(load: Load, side: PopSide, work: PopWork, seconds: int, number: int) -> Row:
    group = new_group(side, number, work)
    before_s = side.cpu_s(with_proxy=work.is_grpc)
    result = load.run(work.command(side, group, seconds))
    spent_s = side.cpu_s(with_proxy=work.is_grpc) - before_s
    count = max(1, result["count"])
    return {
        "rate": result["count"] / result["seconds"],
        "server_us": spent_s * 1e6 / count,
        "client_us": result["cpu_s"] * 1e6 / count,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=int, default=5, help="length of a round of sends")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], help="workloads whose name contains this")
    parser.add_argument("--out", type=Path, default=RESULTS / "peers_pop.json")
    chosen = parser.parse_args()
    if reason := missing_tools("java", "mvn"):
        print(f"skipped: {reason}")
        return 0
    only = [w for w in WORKS if not chosen.only or any(part in w.name for part in chosen.only)]
    found = {work.name: Measured(work.name) for work in only}
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sides = [
            stack.enter_context(our_pops(place / "ours")),
            stack.enter_context(real_pops(place / "real")),
        ]
        remoting, grpc = Load.java(place), grpc_load(place / "grpc")
        for load in (remoting, grpc):
            stack.callback(load.close)
        for side in sides:
            prepare(side, remoting)
        for number in range(chosen.rounds + 1):
            print(f"… round {number} of {chosen.rounds}", file=sys.stderr, flush=True)
            for work in only:
                for side in sides if number % 2 == 0 else reversed(sides):
                    load = grpc if work.is_grpc else remoting
                    row = measure(load, side, work, chosen.seconds, number)
                    if number:  # the first time warms up
                        found[work.name].add(side.name, row)
    rows = list(found.values())
    show(rows, METRICS, OURS, ("p50_ms",))
    versions = {"RocketMQ": PEER, "Java client": CLIENT_VERSION, "gRPC client": GRPC_CLIENT}
    settings = {name: getattr(chosen, name) for name in ("seconds", "rounds")}
    save(chosen.out, rows, versions=versions, settings=settings, adds=bool(chosen.only))
    return 0


if __name__ == "__main__":
    sys.exit(main())
