"""Our Spark source and sink beside Spark's own for Kafka, in one session of one Spark.

    python -m benchmarks.peers.spark [--rounds N] [--quick | --full] [--only NAME …] [--out FILE]

`flintmq serve` and a real Kafka are up the whole time and hold the same rows; all share the cores.
Every workload is done before any counts, so that the JVM is warm; then the sides take turns,
round by round.  CPU is what the processes have used by the kernel's account: Spark is the driver,
its JVM and all its Python workers, the broker is apart.  On a shared machine the median of the
ratios counts, and the spread is shown with it.

What grows is looked at on our side alone.  A job costs something whatever it reads, which is
measured with one row in each queue and taken off.  The file is written after every part anew.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.__main__ import RESULTS
from benchmarks.peers.kafka import (
    KAFKA_VERSION,
    SPARK_VERSION,
    kafka_jars,
    kafka_side,
    load_environment,
    source_jars,
    spark_python,
)
from benchmarks.peers.sides import ROOT, Load, Row, Running, median, our_side, ratio
from benchmarks.peers.spark_workloads import (
    BATCH_PARTS,
    FULL,
    KAFKA,
    OURS,
    QUEUES,
    QUICK,
    SIZES,
    USUAL,
    Sizes,
    Topic,
    Workload,
    batches,
    full_speed,
    growth_topics,
    queues_of_work,
    reads,
    sinks,
    small_rows,
    works,
)
from benchmarks.report.results import Measured, save
from support.interop.jvm import missing_tools

TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")

READ_AT_LEAST = 100_000
"""Rows of one measurement of growth: small topics are read several times."""

SINK_WARM_UPS = 2
"""Every write stays on the disks of both brokers."""

WORK_WARM_UPS = 2
"""Their sources are warm by then, and each takes seconds."""

EMPTY_READS = 3
"""How often a topic with one row in each queue is read for one measurement."""

HEAD = ("workload", "side", "rows a second", "CPU µs a row", "of Spark", "of the broker", "ratios")

GROWTH_HEAD = ("queues", "rows", "rows a second", "CPU µs a row", "without the job's own")


class Bench:
    """The load process, the brokers, and the account of both."""

    def __init__(self, load: Load, pid: int, brokers: dict[str, Running]) -> None:
        self._load = load
        self.pid = pid
        self.brokers = brokers

    def fill(self, topic: Topic) -> None:
        what = asdict(topic)
        del what["sides"]
        what["topic"] = what.pop("name")
        for side in topic.sides:
            filled = self._tell({"do": "fill", "side": side, **what})
            checked = {name: what[name] for name in ("topic", "rows", "size")}
            self._tell({"do": "check", "side": side, **checked})
            say(f"  {topic.name}: {topic.rows:,} rows in {filled['seconds']:.0f} s ({side})")

    def measure(self, command: dict[str, Any], times: int = 1) -> Row:
        broker = self.brokers[command.get("side", OURS)]
        spark_s, broker_s = tree_cpu_s(self.pid), broker.cpu_s()
        results = [self._tell(command) for _ in range(times)]
        count = sum(result["count"] for result in results)
        seconds = sum(result["seconds"] for result in results)
        spark_us = (tree_cpu_s(self.pid) - spark_s) * 1e6 / count
        broker_us = (broker.cpu_s() - broker_s) * 1e6 / count
        row = {
            "rate": count / seconds,
            "cpu_us": spark_us + broker_us,
            "spark_us": spark_us,
            "broker_us": broker_us,
        }
        if "median_ms" in results[0]:
            row["median_ms"] = statistics.median(result["median_ms"] for result in results)
            for part in results[0]["parts_ms"]:
                row[f"{part}_ms"] = statistics.median(each["parts_ms"][part] for each in results)
        return row

    def alternate(self, workload: Workload, rounds: int, warm_ups: int) -> None:
        say(f"… {workload.name}")
        for command in workload.sides.values():
            for _ in range(warm_ups):
                self.measure(command)
        for number in range(rounds):
            names = list(workload.sides)
            for name in names if number % 2 == 0 else reversed(names):
                row = self.measure(workload.sides[name])
                workload.rows.setdefault(name, []).append(row)

    def grow(self, topics: Sequence[Topic], rounds: int) -> dict[str, list[Row]]:
        """Every topic in turn, several times."""
        found: dict[str, list[Row]] = {topic.name: [] for topic in topics}
        for number in range(rounds + 1):
            for topic in topics:
                is_empty = topic.rows == topic.queues
                times = EMPTY_READS if is_empty else max(1, READ_AT_LEAST // topic.rows)
                read = {"do": "read", "side": OURS, "topic": topic.name, "rows": topic.rows}
                row = self.measure(read, times)
                if number:  # the first time warms up
                    found[topic.name].append(row)
        return found

    def _tell(self, command: dict[str, Any]) -> dict[str, Any]:
        return dict(self._load.run(json.dumps(command)))


class Used(NamedTuple):
    """What a process has used, in seconds, and what its children have that have ended."""

    program: str
    user_s: float
    kernel_s: float
    user_ended_s: float
    kernel_ended_s: float


def tree_used(pid: int) -> list[Used]:
    """A process and all below it."""
    children: dict[int, list[int]] = {}
    used: dict[int, Used] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:  # it has just ended
            continue
        head, _, rest = text.rpartition(")")
        fields = rest.split()
        number = int(path.parent.name)
        children.setdefault(int(fields[1]), []).append(number)
        times = (int(ticks) / TICKS_A_SECOND for ticks in fields[11:15])
        used[number] = Used(head.partition("(")[2], *times)
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        waiting += children.get(one, [])
        if one in used:
            found.append(used[one])
    return found


def tree_cpu_s(pid: int) -> float:
    """What a process, all below it, and all of them that have ended have used."""
    return sum(sum(each[1:]) for each in tree_used(pid))


def lines(workloads: Sequence[Workload]) -> Iterator[tuple[str, ...]]:
    """The main table: a line for each side, ratios in that of the first."""
    for workload in workloads:
        names = list(workload.sides)
        for name in names:
            rows = workload.rows[name]
            yield (
                workload.name if name == names[0] else "",
                name,
                f"{median(rows, 'rate'):,.0f}",
                *(f"{median(rows, key):.2f}" for key in ("cpu_us", "spark_us", "broker_us")),
                "" if name == names[-1] else compared(workload, name, names[-1]),
            )


def compared(workload: Workload, name: str, other: str) -> str:
    ours, theirs = workload.rows[name], workload.rows[other]
    rate, rate_low, rate_high = ratio(ours, theirs, "rate")
    cpu, low, high = ratio(ours, theirs, "cpu_us")
    rate_goal = verdict(rate >= workload.goal_rate) if workload.goal_rate else ""
    cpu_goal = verdict(cpu <= workload.goal_cpu) if workload.goal_cpu else ""
    return (
        f"rate {rate:.2f} ({rate_low:.2f} to {rate_high:.2f}){rate_goal}, "
        f"CPU {cpu:.2f} ({low:.2f} to {high:.2f}){cpu_goal}"
    )


def verdict(met: bool) -> str:
    return " met" if met else " missed"


def batch_lines(workload: Workload) -> Iterator[tuple[str, ...]]:
    for name, rows in workload.rows.items():
        times_ms = [row["median_ms"] for row in rows]
        spread = f"{min(times_ms):.0f} to {max(times_ms):.0f}"
        parts = (f"{median(rows, f'{part}_ms'):.0f}" for part in BATCH_PARTS)
        yield name, f"{statistics.median(times_ms):.0f}", spread, *parts


def growth_lines(topics: Sequence[Topic], found: dict[str, list[Row]]) -> Iterator[tuple[str, ...]]:
    """CPU of a row, as it is and without what a job costs anyway."""
    job_us = {
        topic.queues: median(found[topic.name], "cpu_us") * topic.rows
        for topic in topics
        if topic.rows == topic.queues
    }
    for topic in topics:
        rows = found[topic.name]
        cpu_us = median(rows, "cpu_us")
        if topic.rows == topic.queues:
            yield (
                f"{topic.queues}",
                f"{topic.rows}",
                "",
                f"{job_us[topic.queues] / 1000:.0f} ms",
                "",
            )
            continue
        net_us = cpu_us - job_us[topic.queues] / topic.rows
        rate = f"{median(rows, 'rate'):,.0f}"
        yield f"{topic.queues}", f"{topic.rows:,}", rate, f"{cpu_us:.2f}", f"{net_us:.2f}"


def table(head: Sequence[str], body: Iterator[tuple[str, ...]]) -> str:
    """In Markdown."""
    rows = [tuple(head), ("---",) * len(head), *body]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def missing() -> str | None:
    """Why it cannot run here, if it cannot; else everything is fetched."""
    if reason := missing_tools("java", "mvn"):
        return reason
    try:
        _ = source_jars(), kafka_jars(), spark_python()
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        return f"cannot be fetched: {error}"
    return None


@contextmanager
def prepared(work: Path) -> Iterator[Bench]:
    """Both brokers and the Spark that reads from them, up and empty."""
    with ExitStack() as stack:
        ours = stack.enter_context(our_side(work / "ours"))
        kafka = stack.enter_context(kafka_side(work / "kafka"))
        program = [str(spark_python()), "-m", "benchmarks.peers.spark_load"]
        process = subprocess.Popen(
            [*program, ours.namesrv, kafka.namesrv, str(source_jars())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stack.enter_context((work / "spark.txt").open("w")),
            text=True,
            cwd=ROOT,
            env=load_environment(),
        )
        load = Load(process)
        stack.callback(load.close)
        yield Bench(load, process.pid, {OURS: ours, KAFKA: kafka})


def run(
    bench: Bench, sizes: Sizes, only: Sequence[str], rounds: int
) -> Iterator[tuple[str, list[Measured]]]:
    """Table and figures of each part, as soon as it is measured."""

    def is_chosen(name: str) -> bool:
        return not only or any(part in name for part in only)

    both = [each for each in (*reads(sizes), *works(sizes)) if is_chosen(each.name)]
    if both:
        say("… filling")
        for size in SIZES.values():
            bench.fill(Topic(f"rows_{size}", QUEUES, sizes.rows[size], size))
    for workload in both:
        is_read = workload.name.startswith("batch read")
        bench.alternate(workload, rounds, sizes.warm_ups if is_read else WORK_WARM_UPS)
        yield table(HEAD, lines([workload])), [Measured(workload.name, workload.rows)]
    for workload in sinks(sizes):
        if is_chosen(workload.name):
            first = next(iter(workload.sides.values()))
            bench.fill(Topic(first["topic"], QUEUES, QUEUES, first["size"]))  # it makes the topic
            bench.alternate(workload, rounds, SINK_WARM_UPS)
            yield table(HEAD, lines([workload])), [Measured(workload.name, workload.rows)]
    fast = full_speed(sizes)
    if is_chosen(fast.name):
        bench.fill(Topic("streamed", QUEUES, sizes.stream, 100))
        bench.alternate(fast, rounds, 1)
        yield table(HEAD, lines([fast])), [Measured(fast.name, fast.rows)]
    jobs = queues_of_work(sizes)
    if is_chosen(jobs.name):
        bench.fill(Topic("jobs", QUEUES, sizes.jobs, 100, (OURS,)))
        bench.alternate(jobs, rounds, 1)
        yield table(HEAD, lines([jobs])), [Measured(jobs.name, jobs.rows)]
    small = batches(sizes)
    if is_chosen(small.name):
        bench.fill(Topic("small", QUEUES, small_rows(sizes), 100))
        bench.alternate(small, rounds, 1)
        head = (small.name, "median ms", "of the rounds", *BATCH_PARTS)
        yield table(head, batch_lines(small)), [Measured(small.name, small.rows)]
    if is_chosen("growth"):
        topics = growth_topics(sizes)
        for topic in topics:
            bench.fill(topic)
        say("… growth")
        grown = bench.grow(topics, rounds)
        measured = [
            Measured(f"growth, {each.queues} queues, {each.rows} rows", {OURS: grown[each.name]})
            for each in topics
        ]
        yield table(GROWTH_HEAD, growth_lines(topics, grown)), measured


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, help="how often each side has its turn")
    parser.add_argument("--quick", action="store_true", help="fewer rows, in a few minutes")
    parser.add_argument("--full", action="store_true", help="grow to 10 million rows")
    parser.add_argument("--only", nargs="*", default=[], help="workloads whose name contains this")
    parser.add_argument("--out", type=Path, default=RESULTS / "peers_spark.json")
    chosen = parser.parse_args()
    if reason := missing():
        print(f"skipped: {reason}")
        return 0
    sizes = QUICK if chosen.quick else FULL if chosen.full else USUAL
    versions = {"Spark": SPARK_VERSION, "Kafka": KAFKA_VERSION}
    rounds = chosen.rounds or sizes.rounds
    settings = {"rounds": rounds, **{f"rows of {n} B": rows for n, rows in sizes.rows.items()}}
    found: list[Measured] = []
    with tempfile.TemporaryDirectory() as work, prepared(Path(work)) as bench:
        for text, part in run(bench, sizes, chosen.only, rounds):
            print(text, flush=True)
            found += part
            save(chosen.out, found, versions=versions, settings=settings, adds=bool(chosen.only))
    return 0


if __name__ == "__main__":
    sys.exit(main())
