"""Where the CPU of our Spark workloads goes: Spark's JVM, the broker, and what Python does.

How much each process has used is the kernel's account.  The part of Python, which is the driver,
the planners and the workers, is shared out by samples of py-spy over all of them; those with none
of our modules on their stack are of PySpark and pyarrow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.peers.spark import prepared, tree_used
from benchmarks.peers.spark_workloads import (
    OURS,
    QUEUES,
    SIZES,
    USUAL,
    Topic,
    Workload,
    batches,
    full_speed,
    reads,
    sinks,
    small_rows,
    works,
)

ELSEWHERE = "PySpark, pyarrow"
JVM, BROKER = "Spark's JVM", "the broker"


def cases() -> dict[str, Workload]:
    """The workloads by the titles of their goals."""
    found = {f"Spark: {each.name}, 7 columns": each for each in reads(USUAL)}
    others = (next(works(USUAL)), *sinks(USUAL), full_speed(USUAL), batches(USUAL))
    return {**found, **{f"Spark: {each.name}": each for each in others}}


TITLES = tuple(cases())


def topics() -> Iterator[Topic]:
    """What the workloads read, and where they write."""
    for size in SIZES.values():
        yield Topic(f"rows_{size}", QUEUES, USUAL.rows[size], size, (OURS,))
        yield Topic(f"sunk_{size}", QUEUES, QUEUES, size, (OURS,))
    yield Topic("streamed", QUEUES, USUAL.stream, 100, (OURS,))
    yield Topic("small", QUEUES, small_rows(USUAL), 100, (OURS,))


@dataclass(frozen=True)
class Account:
    """Seconds of CPU, those in the kernel among them: of a JVM, of Python below it, of a broker."""

    jvm_s: float
    python_s: float
    broker_s: float
    kernel_s: float

    @classmethod
    def of(cls, load: int, broker: int) -> Account:
        whole, (of_broker, *_) = tree_used(load), tree_used(broker)
        jvm_s = sum(each.user_s + each.kernel_s for each in whole if each.program == "java")
        return cls(
            jvm_s,
            sum(sum(each[1:]) for each in whole) - jvm_s,
            of_broker.user_s + of_broker.kernel_s,
            sum(each.kernel_s + each.kernel_ended_s for each in whole) + of_broker.kernel_s,
        )

    def since(self, before: Account) -> Account:
        return Account(
            self.jvm_s - before.jvm_s,
            self.python_s - before.python_s,
            self.broker_s - before.broker_s,
            self.kernel_s - before.kernel_s,
        )

    def told(self, samples: Counter[str], shown: int, least_share: float) -> dict[str, Any]:
        """The shares of all, those of Python by its samples."""
        total = max(0.01, self.jvm_s + self.python_s + self.broker_s)
        count = max(1, samples.total())
        parts = {JVM: self.jvm_s / total, BROKER: self.broker_s / total}
        for name, number in samples.items():
            parts[name] = self.python_s / total * number / count
        largest = sorted(parts.items(), key=lambda part: -part[1])[:shown]
        return {
            "samples": samples.total(),
            "kernel": self.kernel_s / total,
            "parts": [[name, share] for name, share in largest if share >= least_share],
        }


@dataclass(frozen=True)
class SparkLoad:
    """One of the workloads, the process that runs it, and the broker it is run against."""

    run_once: Callable[[], object]
    pid: int
    broker_pid: int

    def account(self) -> Account:
        return Account.of(self.pid, self.broker_pid)


@contextmanager
def spark_loads(titles: Iterable[str], work: Path) -> Iterator[dict[str, SparkLoad]]:
    """These workloads, with all that they read."""
    known = cases()
    commands = {title: next(iter(known[title].sides.values())) for title in titles}
    with prepared(work) as bench:
        for topic in topics():
            if any(command["topic"] == topic.name for command in commands.values()):
                bench.fill(topic)
        broker_pid = bench.brokers[OURS].pid
        yield {
            title: SparkLoad(partial(bench.measure, command), bench.pid, broker_pid)
            for title, command in commands.items()
        }
