"""Our broker beside Apache RocketMQ's, under the same load of the same Java client.

    python -m benchmarks.peers.broker [--seconds N] [--rounds N] [--only NAME …] [--out FILE]

All brokers are up the whole time; the workloads go to one of them after the other, round by
round, from one Java process that has been warmed up on each.  CPU is the broker process's own
account.  A round is a few seconds: on a shared machine the median of the ratios counts, and
the spread is shown with it.  Flushing is asynchronous on all sides, RocketMQ's default.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.__main__ import RESULTS, machine
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
from interop.jvm import missing_tools

PEERS = ("4.9.7", "5.3.3")
WARM_UP_SECONDS = 12


@dataclass
class Workload:
    """What the load generator is told, and what the goals of the design say about it."""

    name: str
    command: Callable[[str, int, int], str]  # name server, seconds, round
    goal_cpu: float | None = None
    goal_rate: float | None = None
    goal_p99: float | None = None
    rows: dict[str, list[Row]] = field(default_factory=dict)


def send(size: int, threads: int) -> Callable[[str, int, int], str]:
    return lambda ns, seconds, _: f"send {ns} bench_{size} {size} {threads} {seconds}"


WORKLOADS = [
    Workload("sync send 128 B, 1 thread", send(128, 1), 0.30, 1.2),
    Workload("sync send 128 B, 16 threads", send(128, 16), 0.30, 1.4),
    Workload("sync send 128 B, 64 threads", send(128, 64), 0.33, 1.5, 1.0),
    Workload("sync send 1 KiB, 64 threads", send(1024, 64), 0.40),
    Workload(
        "batch send 32 x 128 B, 4 threads",
        lambda ns, seconds, _: f"batch {ns} bench_batch 128 4 {seconds} 32",
        0.7,
    ),
    Workload("pull 128 B, 32 a pull", lambda ns, _s, _r: f"pull {ns} backlog_128 {BACKLOG}", 0.5),
    Workload("pull 1 KiB, 32 a pull", lambda ns, _s, _r: f"pull {ns} backlog_1024 {BACKLOG}", 0.5),
    Workload(
        "end to end at 1,000 a second",
        lambda ns, seconds, r: f"latency {ns} latency_{r} 1000 {seconds}",
        goal_p99=1.0,
    ),
]


def measure(load: Load, side: Running, workload: Workload, seconds: int, number: int) -> None:
    before = side.cpu_s()
    result = load.run(workload.command(side.namesrv, seconds, number))
    cpu_s = side.cpu_s() - before
    row = {
        "rate": result["count"] / result["seconds"],
        "cpu_us": cpu_s * 1e6 / max(1, result["count"]),
        "p50_ms": result.get("p50_ms", -1.0),
        "p99_ms": result.get("p99_ms", -1.0),
    }
    workload.rows.setdefault(side.name, []).append(row)


def show(sides: list[Running], workloads: list[Workload], console: Console) -> None:
    table = Table("workload", "side", "a second", "CPU us", "p50 ms", "p99 ms", "ours / theirs")
    ours = sides[0].name
    for workload in workloads:
        for side in sides:
            compared = ""
            if side.name != ours:
                mine, theirs = workload.rows[ours], workload.rows[side.name]
                cpu, low, high = ratio(mine, theirs, "cpu_us")
                rate = ratio(mine, theirs, "rate")[0]
                compared = f"CPU {cpu:.2f} ({low:.2f} to {high:.2f}), rate {rate:.2f}"
                if workload.rows[ours][0]["p99_ms"] >= 0:
                    compared += f", p99 {ratio(mine, theirs, 'p99_ms')[0]:.2f}"
            rows = workload.rows[side.name]
            p50, p99 = (median(rows, key) for key in ("p50_ms", "p99_ms"))
            table.add_row(
                workload.name if side.name == ours else "",
                side.name,
                f"{median(rows, 'rate'):,.0f}",
                f"{median(rows, 'cpu_us'):.1f}",
                f"{p50:.2f}" if p50 >= 0 else "",
                f"{p99:.2f}" if p99 >= 0 else "",
                compared,
            )
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=int, default=5, help="length of one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[], help="workloads whose name contains this")
    parser.add_argument("--peers", nargs="*", default=list(PEERS))
    parser.add_argument("--out", type=Path, default=RESULTS / "peers_broker.json")
    chosen = parser.parse_args()
    if reason := missing_tools("java", "mvn"):
        print(f"skipped: {reason}")
        return 0
    workloads = [
        w for w in WORKLOADS if not chosen.only or any(part in w.name for part in chosen.only)
    ]
    console = Console(width=160)
    with ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sides = [stack.enter_context(our_side(work / "ours"))]
        sides += [
            stack.enter_context(real_side(version, work / version)) for version in chosen.peers
        ]
        load = Load.java(work)
        stack.callback(load.close)
        for side in sides:
            console.print(f"{side.name} ready after {side.ready_s:.1f} s; warming up …")
            load.run(f"send {side.namesrv} bench_128 128 16 {WARM_UP_SECONDS}")
            for size in (128, 1024):
                if any("pull" in w.name for w in workloads):
                    fill(load, side, size)
        for number in range(chosen.rounds):
            for workload in workloads:
                for side in sides if number % 2 == 0 else reversed(sides):
                    measure(load, side, workload, chosen.seconds, number)
        show(sides, workloads, console)
        memory = {side.name: round(side.private_mib(), 1) for side in sides}
        console.print("private memory, MiB:", memory)
        write(chosen.out, sides, workloads, memory)
    return 0


def write(
    out: Path, sides: list[Running], workloads: list[Workload], memory: dict[str, float]
) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {"workload": w.name, "goal_cpu": w.goal_cpu, "goal_rate": w.goal_rate, "rows": w.rows}
        for w in workloads
    ]
    found = {
        "machine": machine(),
        "client": CLIENT_VERSION,
        "ready_s": {side.name: side.ready_s for side in sides},
        "private_mib": memory,
        "workloads": rows,
    }
    out.write_text(json.dumps(found, indent=1) + "\n")
    print(f"written to {os.path.relpath(out)}")


if __name__ == "__main__":
    sys.exit(main())
