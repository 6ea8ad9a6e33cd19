"""The first tables of the page: what a user can expect, beside RocketMQ and Kafka.

A cell has what was measured of one side: messages a second, the 99th percentile of the time, CPU
for each message.  The cell of a side that was not measured
is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from benchmarks.report.goals import BROKER, CLIENT, PYTHON, SPARK
from benchmarks.report.results import Measured, Results
from benchmarks.report.tables import BREAK, number, table

NONE = ""


class Work(NamedTuple):
    """One line: a workload, and which side of it stands for which system."""

    title: str
    source: str
    workload: str
    rocketmq: str | None = None
    kafka: str | None = None
    ours: str = "flintmq"
    is_paced: bool = False
    """Whether the rate was given, so that the time is what counts."""


REAL = "RocketMQ 5.3.3"
JAVA = "Java 5.3.3"

WORKS = (
    Work("send, 1 producer that waits", BROKER, "sync send 128 B, 1 thread", REAL),
    Work("send, 64 threads that wait", BROKER, "sync send 128 B, 64 threads", REAL),
    Work("send, batches of 32", BROKER, "batch send 32 x 128 B, 4 threads", REAL),
    Work("read a backlog, Java client", BROKER, "pull 128 B, 32 a pull", REAL),
    Work(
        "send to listener, at 1,000 a second",
        BROKER,
        "end to end at 1,000 a second",
        REAL,
        is_paced=True,
    ),
    Work("start to ready", BROKER, "start to ready, name server and broker", REAL),
    Work(
        "memory after a million messages", BROKER, "private memory after a million messages", REAL
    ),
    Work(
        "listeners, on a RocketMQ broker; beside its Java client",
        CLIENT,
        "push of a backlog, 128 B, 1 a call, on RocketMQ 5.3.3",
        JAVA,
    ),
    Work(
        "Python: send one by one; Kafka with aiokafka",
        PYTHON,
        "send one by one, 128 B",
        kafka="aiokafka",
    ),
    Work(
        "Python: send many at once; the same",
        PYTHON,
        "send many at once, 128 B",
        kafka="aiokafka",
        ours="flintmq, auto_batch",
    ),
    Work(
        "Python: read a backlog; the same",
        PYTHON,
        "consume a backlog, 128 B",
        kafka="aiokafka",
        ours="flintmq, lite pull",
    ),
    Work(
        "Spark: read rows of 100 B",
        SPARK,
        "batch read, 100 B",
        kafka="Kafka, 7 columns",
        ours="flintmq, 7 columns",
    ),
)

SERVERS = (
    ("sends, each waited for, 64 at once", BROKER, "sync send 128 B, 64 threads", "flintmq"),
    ("sends of 1 KiB, 64 at once", BROKER, "sync send 1 KiB, 64 threads", "flintmq"),
    ("messages of batches of 32", BROKER, "batch send 32 x 128 B, 4 threads", "flintmq"),
    ("messages that consumers pull, 32 at once", BROKER, "pull 128 B, 32 a pull", "flintmq"),
)
CLIENTS = (
    ("messages that listeners get", PYTHON, "consume a backlog, 128 B", "flintmq, push"),
    ("messages that are polled", PYTHON, "consume a backlog, 128 B", "flintmq, lite pull"),
    ("sends, one after the other", PYTHON, "send one by one, 128 B", "flintmq"),
    ("sends with `auto_batch`", PYTHON, "send many at once, 128 B", "flintmq, auto_batch"),
)


def _measured(found: Mapping[str, Results], source: str, workload: str) -> Measured | None:
    results = found.get(source)
    return results.workloads.get(workload) if results is not None else None


def _cell(measured: Measured | None, side: str | None, *, is_paced: bool) -> str:
    if measured is None or side is None or side not in measured.rows:
        return NONE

    def value(metric: str) -> float | None:
        return measured.median(side, metric)

    lines = []
    if (rate := value("rate")) is not None and not is_paced:
        lines.append(f"**{number(rate)}/s**")
    if (p99 := value("p99_ms")) is not None:
        lines.append(f"**p99 {number(p99)} ms**" if is_paced else f"p99 {number(p99)} ms")
    names = {"broker": "server_us", "client": "client_us", "CPU": "cpu_us"}
    cpu = {who: us for who, name in names.items() if (us := value(name)) is not None}
    if len(cpu) > 1:
        cpu.pop("CPU", None)
    if cpu:
        lines.append(", ".join(f"{who} {number(us)}" for who, us in cpu.items()) + " µs")
    if (ready_s := value("ready_s")) is not None:
        lines.append(f"**{number(ready_s)} s**")
    if (mib := value("private_mib")) is not None:
        lines.append(f"**{number(mib)} MiB**")
    return BREAK.join(lines)


def users_table(results: Mapping[str, Results]) -> str:
    rows = []
    for work in WORKS:
        measured = _measured(results, work.source, work.workload)
        sides = (work.ours, work.rocketmq, work.kafka)
        cells = (_cell(measured, side, is_paced=work.is_paced) for side in sides)
        rows.append((work.title, *cells))
    return table(("messages of 128 B", "FlintMQ", "RocketMQ 5.3.3", "Kafka 4.1.2"), rows)


def cores_table(results: Mapping[str, Results]) -> str:
    """What one core serves at most: a second, divided by what a message costs."""
    rows = []
    for where, metric, works in (
        ("broker", "server_us", SERVERS),
        ("Python client", "client_us", CLIENTS),
    ):
        for title, source, workload, side in works:
            measured = _measured(results, source, workload)
            cost_us = measured.median(side, metric) if measured is not None else None
            if cost_us:
                at_most = round(1_000_000 / cost_us, -3)
                rows.append((where, title, f"{number(cost_us)} µs", f"{at_most:,.0f}/s"))
    return table(("one core of a", "handles", "CPU for each", "at most"), rows)
