"""The five most telling ratios in under three minutes, to try a change.

    python -m benchmarks.quick [--seconds N] [--rounds N]

    broker CPU beside RocketMQ 4.9.7, under the Java client   64 threads that send, batches, pulls
    client CPU beside the Java client, on our broker          a backlog pushed, 16 threads that send

Rounds are short and few, so a ratio is good to a tenth or so: run it before and after a change, on
an idle machine.  What counts is `make bench-peers`.  Nothing is written down.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.peers import broker, client
from benchmarks.peers.sides import Load, Row, fill, our_side, real_side
from benchmarks.report.results import Measured
from support.interop.jvm import missing_tools

THEIRS = "4.9.7"
BACKLOG = 60_000
"""Messages to pull and to push: a second or two of work."""

BROKER_WORK = (
    broker.Workload("broker: sync send 128 B, 64 threads", broker.send(128, 64)),
    broker.Workload(
        "broker: batch send 32 x 128 B, 4 threads",
        lambda ns, seconds, _: f"batch {ns} bench_batch 128 4 {seconds} 32",
    ),
    broker.Workload(
        "broker: pull 128 B, 32 a pull", lambda ns, _s, _r: f"pull {ns} backlog_128 {BACKLOG}"
    ),
)
CLIENT_WORK = (
    client.Workload(
        "client: push of a backlog, 32 a call", f"push {{ns}} backlog_128 {BACKLOG} 32"
    ),
    client.Workload("client: sync send 128 B, 16 threads", "send {ns} bench_128 128 16 {s}"),
)


def compare_brokers(load: Load, work: Path, seconds: int, rounds: int) -> list[Measured]:
    found = [Measured(each.name) for each in BROKER_WORK]
    with our_side(work / "ours") as ours, real_side(THEIRS, work / "theirs") as theirs:
        for side in (ours, theirs):
            fill(load, side, 128, BACKLOG)
        for number in range(rounds + 1):
            for each, rows in zip(BROKER_WORK, found, strict=True):
                for side in (ours, theirs) if number % 2 == 0 else (theirs, ours):
                    row = broker.measure(load, side, each, seconds, number)
                    if number:  # the first time warms up
                        rows.add("ours" if side is ours else "theirs", row)
    return found


def compare_clients(java: Load, work: Path, seconds: int, rounds: int) -> list[Measured]:
    found = [Measured(each.name) for each in CLIENT_WORK]
    with ExitStack() as stack:
        side = stack.enter_context(our_side(work / "shared"))
        ours = Load.ours()
        stack.callback(ours.close)
        fill(java, side, 128, BACKLOG)
        for number in range(rounds + 1):
            for each, rows in zip(CLIENT_WORK, found, strict=True):
                for load in (ours, java) if number % 2 == 0 else (java, ours):
                    row: Row = client.measure(load, side, each, seconds)
                    if number:
                        rows.add("ours" if load is ours else "theirs", row)
    return found


def show(found: list[Measured]) -> None:
    table = Table("work", "rate, ours / theirs", "CPU, ours / theirs", "ours: CPU µs")
    for each in found:
        cpu = "server_us" if each.name.startswith("broker") else "client_us"
        ratios = [each.ratio("ours", "theirs", metric) for metric in ("rate", cpu)]
        texts = [f"{it.median:.2f} ({it.low:.2f} to {it.high:.2f})" for it in ratios if it]
        table.add_row(each.name, *texts, f"{each.median('ours', cpu) or 0:.1f}")
    Console(width=120).print(table)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=int, default=3, help="length of one round of sending")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if reason := missing_tools("java", "mvn"):
        print(f"skipped: {reason}")
        return 0
    with tempfile.TemporaryDirectory(prefix="flintmq-bench-") as scratch, ExitStack() as stack:
        work = Path(scratch)
        java = Load.java(work)
        stack.callback(java.close)
        found = compare_brokers(java, work, given.seconds, given.rounds)
        found += compare_clients(java, work, given.seconds, given.rounds)
    show(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
