"""Our client beside RocketMQ's Java client, with the same work on the same broker.

    python -m benchmarks.peers.client [--seconds N] [--rounds N] [--only NAME …] [--out FILE]
                                      [--brokers ours 5.3.3 …]

Each client is one process that stays up, so the JVM is warm: every workload is done once before
any counts.  Then the clients take turns, round by round.  CPU is what each process says of itself;
for consumption it counts from the first message to the last.  On a shared machine the median of
the ratios counts, and the spread is shown with it.  The goals are those of the design.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.__main__ import RESULTS
from benchmarks.peers.sides import (
    BACKLOG,
    CLIENT_VERSION,
    Load,
    Row,
    Running,
    fill,
    median,
    our_side,
    ratio,
    real_side,
)
from benchmarks.report.results import Measured, save
from support.interop.jvm import missing_tools

OURS, JAVA = "flintmq", f"Java {CLIENT_VERSION}"
BROKERS = ("5.3.3",)
SIZES = {"128 B": 128, "1 KiB": 1024}
UNDER_WAY = 1_000
HEAD = ("workload", "client", "a second", "CPU µs", "ours / Java's", "goal")


@dataclass
class Workload:
    """What both clients are told; ``{ns}`` and ``{s}`` are name server and seconds."""

    name: str
    command: str
    goal_cpu: float | None = None
    rows: dict[str, list[Row]] = field(default_factory=lambda: {OURS: [], JAVA: []})


def workloads() -> list[Workload]:
    found = []
    for text, size in SIZES.items():
        topic = f"backlog_{size}"
        for batch in (1, 32):
            name = f"push of a backlog, {text}, {batch} a call"
            found.append(Workload(name, f"push {{ns}} {topic} {BACKLOG} {batch}", 1.2))
        found.append(Workload(f"lite pull of a backlog, {text}", f"lite {{ns}} {topic} {BACKLOG}"))
        found.append(Workload(f"pull, {text}, 32 a pull", f"pull {{ns}} {topic} {BACKLOG}"))
    for threads in (1, 16):
        name = f"sync send 128 B, {threads} thread{'s' * (threads > 1)}"
        goal = 1.2 if threads == 16 else None
        found.append(Workload(name, f"send {{ns}} bench_128 128 {threads} {{s}}", goal))
    found.append(Workload("sync send 1 KiB, 16 threads", "send {ns} bench_1024 1024 16 {s}"))
    many = f"async {{ns}} bench_128 128 {{s}} {UNDER_WAY}"
    found.append(Workload("async send 128 B", many, 1.5))
    found.append(Workload("batch send 32 x 128 B, 1 thread", "batch {ns} bench_128 128 1 {s} 32"))
    return found


def measure(load: Load, broker: Running, workload: Workload, seconds: int) -> Row:
    before_s = broker.cpu_s()
    result = load.run(workload.command.format(ns=broker.namesrv, s=seconds))
    count = max(1, result["count"])
    return {
        "rate": count / result["seconds"],
        "client_us": result["cpu_s"] * 1e6 / count,
        "server_us": (broker.cpu_s() - before_s) * 1e6 / count,
    }


def lines(broker: Running, chosen: list[Workload]) -> list[tuple[str, ...]]:
    """The table, two lines for each workload."""
    found: list[tuple[str, ...]] = []
    for workload in chosen:
        ours, java = workload.rows[OURS], workload.rows[JAVA]
        cpu, low, high = ratio(ours, java, "client_us")
        rate, _, _ = ratio(ours, java, "rate")
        compared = f"CPU {cpu:.2f} ({low:.2f} to {high:.2f}), rate {rate:.2f}"
        goal = ""
        if workload.goal_cpu is not None:
            verdict = "met" if cpu <= workload.goal_cpu else "missed"
            goal = f"CPU <= {workload.goal_cpu}: {verdict}"
        name = f"{workload.name} ({broker.name})"
        found.append((name, OURS, *figures(ours), compared, goal))
        found.append(("", JAVA, *figures(java), "", ""))
    return found


def figures(rows: list[Row]) -> tuple[str, str]:
    return f"{median(rows, 'rate'):,.0f}", f"{median(rows, 'client_us'):.1f}"


def run_on(broker: Running, chosen: list[Workload], seconds: int, rounds: int, work: Path) -> None:
    with ExitStack() as stack:
        clients = {OURS: Load.ours(), JAVA: Load.java(work)}
        for load in clients.values():
            stack.callback(load.close)
        for size in SIZES.values():
            if any(f"backlog_{size}" in w.command for w in chosen):
                fill(clients[JAVA], broker, size)
        for workload in chosen:
            print(f"… {workload.name}", file=sys.stderr, flush=True)
            for load in clients.values():
                measure(load, broker, workload, seconds)
            for number in range(rounds):
                names = list(clients) if number % 2 == 0 else list(reversed(clients))
                for name in names:
                    row = measure(clients[name], broker, workload, seconds)
                    workload.rows[name].append(row)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=int, default=4, help="length of one round of sending")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], help="workloads whose name contains this")
    parser.add_argument("--brokers", nargs="*", default=list(BROKERS), help="ours, or releases")
    parser.add_argument("--out", type=Path, default=RESULTS / "peers_client.json")
    given = parser.parse_args()
    if reason := missing_tools("java", "mvn"):
        print(f"skipped: {reason}")
        return 0
    table = Table(*HEAD)
    told: list[tuple[str, ...]] = []
    found: list[Measured] = []
    for name in given.brokers:
        chosen = [
            w for w in workloads() if not given.only or any(part in w.name for part in given.only)
        ]
        with tempfile.TemporaryDirectory() as scratch:
            work = Path(scratch)
            side = our_side(work / "b") if name == "ours" else real_side(name, work / "b")
            with side as broker:
                run_on(broker, chosen, given.seconds, given.rounds, work)
        told += lines(broker, chosen)
        found += [Measured(f"{w.name}, on {broker.name}", w.rows) for w in chosen]
    for line in told:
        table.add_row(*line)
    Console(width=160).print(table)
    settings = {"seconds": given.seconds, "rounds": given.rounds}
    versions = {"Java client": CLIENT_VERSION}
    save(given.out, found, versions=versions, settings=settings, adds=bool(given.only))
    return 0


if __name__ == "__main__":
    sys.exit(main())
