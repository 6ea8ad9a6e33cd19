"""What the comparison of the Spark sources and sinks does, and how much of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks.report.results import Row

OURS, KAFKA = "flintmq", "kafka"
SEVEN, FIVE, THEIRS = "flintmq, 7 columns", "flintmq, 5 columns", "Kafka, 7 columns"
SIZES = {"100 B": 100, "1 KiB": 1024}
QUEUES = 4
GROWTH_QUEUES = (1, 16, 256)

BATCH_PARTS = (
    "latestOffset",
    "getBatch",
    "queryPlanning",
    "walCommit",
    "addBatch",
    "commitBatch",
    "commitOffsets",
)
"""What Spark says of the time of a micro-batch."""


@dataclass(frozen=True)
class Sizes:
    """How much is read."""

    rows: dict[int, int]
    batches: int
    growth: tuple[int, ...]
    growth_by_queues: int
    rounds: int
    warm_ups: int = 4  # a JVM gets faster for a long time
    stream: int = 5_000_000
    jobs: int = 64_000


QUICK = Sizes({100: 300_000, 1024: 100_000}, 15, (10_000, 300_000), 300_000, 3, stream=1_000_000)
USUAL = Sizes({100: 1_000_000, 1024: 400_000}, 40, (10_000, 1_000_000), 1_000_000, 5)
FULL = Sizes(USUAL.rows, 40, (10_000, 1_000_000, 10_000_000), 1_000_000, 5)


@dataclass
class Workload:
    """The same on several sides; the first is held against the last."""

    name: str
    sides: dict[str, dict[str, Any]]  # what the load process is told
    goal_rate: float | None = None
    goal_cpu: float | None = None
    rows: dict[str, list[Row]] = field(default_factory=dict)


@dataclass
class Topic:
    """Rows that both brokers hold, or ours alone."""

    name: str
    queues: int
    rows: int
    size: int
    sides: tuple[str, ...] = (OURS, KAFKA)


def reads(sizes: Sizes) -> Iterator[Workload]:
    for text, size in SIZES.items():
        read = {"do": "read", "topic": f"rows_{size}", "rows": sizes.rows[size]}
        yield Workload(
            f"batch read, {text}",
            {
                SEVEN: {**read, "side": OURS},
                FIVE: {**read, "side": OURS, "columns": 5},
                THEIRS: {**read, "side": KAFKA},
            },
            {100: 2.0, 1024: 1.7}[size],
            {100: 0.85, 1024: 0.95}[size],
        )


def works(sizes: Sizes) -> Iterator[Workload]:
    for text, size in SIZES.items():
        what = {"topic": f"rows_{size}", "rows": sizes.rows[size]}
        yield Workload(
            f"a function on each message, {text}",
            {
                "flintmq, listener in the task": {"do": "listen", **what},
                "flintmq, mapInArrow": {"do": "map", "side": OURS, **what},
                "Kafka, mapInArrow": {"do": "map", "side": KAFKA, **what},
            },
        )


def queues_of_work(sizes: Sizes) -> Workload:
    what = {"do": "listen", "topic": "jobs", "rows": sizes.jobs}
    return Workload(
        "listeners as a work queue, 100 B",
        {"flintmq, popped": {**what, "mode": "pop"}, "flintmq, pulled": what},
    )


def sinks(sizes: Sizes) -> Iterator[Workload]:
    for text, size in SIZES.items():
        rows = sizes.rows[size] // 2  # they stay on the disks of both brokers
        write = {"do": "sink", "topic": f"sunk_{size}", "rows": rows, "size": size}
        sides = {name: {**write, "side": name} for name in (OURS, KAFKA)}
        yield Workload(f"sink, {text}", sides, 1.0, 1.2)


def full_speed(sizes: Sizes) -> Workload:
    read = {"do": "stream", "topic": "streamed", "rows": sizes.stream}
    sides = {SEVEN: {**read, "side": OURS}, THEIRS: {**read, "side": KAFKA}}
    return Workload("stream at full speed, 100 B", sides, 1.5)


def batches(sizes: Sizes) -> Workload:
    each = 10 * QUEUES
    what = {"do": "batches", "topic": "small", "rows": small_rows(sizes), "each": each}
    return Workload(f"micro-batch of {each} rows", {n: {**what, "side": n} for n in (OURS, KAFKA)})


def small_rows(sizes: Sizes) -> int:
    return 10 * QUEUES * (sizes.batches + 5)


def growth_topics(sizes: Sizes) -> list[Topic]:
    by_rows = [(QUEUES, rows) for rows in sizes.growth]
    by_queues = [(queues, sizes.growth_by_queues) for queues in GROWTH_QUEUES]
    ends = [(queues, queues) for queues in (QUEUES, *GROWTH_QUEUES)]
    return [
        Topic(f"growth_{queues}_{rows}", queues, rows, 100, (OURS,))
        for queues, rows in dict.fromkeys([*ends, *by_rows, *by_queues])
    ]
