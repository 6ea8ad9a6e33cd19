"""The goals: a line for each, with the workload it is held against.

A goal is a bound on the ratio of ours to theirs, measured in one run.  Where a line names several
of them, the goal has to hold against each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.report.results import Measured, Ratio, Results

METRICS = {
    "rate": "rate",
    "server_us": "server CPU",
    "client_us": "client CPU",
    "cpu_us": "CPU",
    "slave_us": "slave CPU",
    "p99_ms": "p99",
    "median_ms": "median",
    "ready_s": "time",
    "private_mib": "memory",
}

PLAIN = "flintmq, plain kernel"
ROCKETMQ = ("RocketMQ 4.9.7", "RocketMQ 5.3.3")
JAVA = ("Java 5.3.3",)
CLIENTS = ("aiokafka", "kafka-python", "confluent-kafka", "redis-py", "nats-py")
KAFKA_SOURCE = ("Kafka, 7 columns",)

BROKER, CLIENT, PYTHON, SPARK = "peers_broker", "peers_client", "peers_python", "peers_spark"
REPLICATION = "peers_replication"
LAG_MS_MAX = 1_000.0
"""How far a slave may be behind at full speed: a goal of its own, not a ratio."""
POP = "peers_pop"
GROWTH = "growth"


@dataclass(frozen=True)
class Goal:
    """A bound on one ratio; of a rate from below, of anything else from above."""

    metric: str
    bound: float

    @property
    def is_lower(self) -> bool:
        return self.metric == "rate"

    def holds(self, ratio: float) -> bool:
        return ratio >= self.bound if self.is_lower else ratio <= self.bound

    def __str__(self) -> str:
        return f"{METRICS[self.metric]} {'≥' if self.is_lower else '≤'} {self.bound:g}"


@dataclass(frozen=True)
class Line:
    """One line of the table of goals."""

    title: str
    source: str
    workload: str
    theirs: tuple[str, ...]
    goals: tuple[Goal, ...]
    ours: str = "flintmq"

    def measured(self, results: Mapping[str, Results]) -> Measured | None:
        found = results.get(self.source)
        return found.workloads.get(self.workload) if found is not None else None


def _goals(**bounds: float) -> tuple[Goal, ...]:
    return tuple(Goal(metric, bound) for metric, bound in bounds.items())


def _broker(title: str, workload: str, **bounds: float) -> Line:
    return Line(title, BROKER, workload, ROCKETMQ, _goals(**bounds))


def _pop(work: str, **bounds: float) -> Line:
    return Line(work, POP, work, ROCKETMQ[1:], _goals(**bounds))


def _push(size: str, each: int) -> Line:
    workload = f"push of a backlog, {size}, {each} a call"
    measured = f"{workload}, on RocketMQ 5.3.3"
    return Line(workload, CLIENT, measured, JAVA, _goals(client_us=1.2))


def _beside_java(workload: str, client_us: float) -> Line:
    """A send of our client beside the Java client's, on one broker."""
    measured = f"{workload}, on RocketMQ 5.3.3"
    title = f"our client: {workload}"
    return Line(title, CLIENT, measured, JAVA, _goals(client_us=client_us))


def _growing(title: str, workload: str, most: str, least: str, bound: float) -> Line:
    return Line(title, GROWTH, workload, (least,), _goals(server_us=bound), most)


def _replicated(threads: str) -> Line:
    workload = f"SYNC_MASTER, sync send 128 B, {threads}"
    return Line(workload, REPLICATION, workload, ROCKETMQ, _goals(p99_ms=1.2))


LINES: Sequence[Line] = (
    _broker("sync send 128 B, 1 thread", "sync send 128 B, 1 thread", server_us=0.5, rate=1.2),
    _broker("sync send 128 B, 16 threads", "sync send 128 B, 16 threads", server_us=0.33, rate=1.4),
    _broker(
        "sync send 128 B, 64 threads",
        "sync send 128 B, 64 threads",
        server_us=0.33,
        rate=1.4,
        p99_ms=1.0,
    ),
    Line(
        "two broker processes, sync send 128 B, 64 threads",
        BROKER,
        "sync send 128 B, 64 threads, two brokers",
        ("flintmq",),
        _goals(rate=1.6),
        "flintmq, 2 brokers",
    ),
    _broker("sync send 1 KiB, 64 threads", "sync send 1 KiB, 64 threads", server_us=0.4),
    _broker("batch send 32 x 128 B, 4 threads", "batch send 32 x 128 B, 4 threads", server_us=0.5),
    _broker("pull of a backlog, 32 a pull, 128 B", "pull 128 B, 32 a pull", server_us=0.5),
    _broker("pull of a backlog, 32 a pull, 1 KiB", "pull 1 KiB, 32 a pull", server_us=0.5),
    _broker("end to end at 1,000 a second", "end to end at 1,000 a second", p99_ms=1.0),
    _broker(
        "start to ready, name server and broker",
        "start to ready, name server and broker",
        ready_s=0.08,
    ),
    _broker(
        "private memory after a million messages",
        "private memory after a million messages",
        private_mib=0.25,
    ),
    *(_push(size, each) for size in ("128 B", "1 KiB") for each in (1, 32)),
    _beside_java("sync send 128 B, 16 threads", client_us=1.2),
    _beside_java("async send 128 B", client_us=1.5),
    *(
        Line(
            f"{kind} of a backlog, 128 B",
            PYTHON,
            "consume a backlog, 128 B",
            ("aiokafka",),
            _goals(rate=1.0, client_us=1.0),
            f"flintmq, {kind}",
        )
        for kind in ("pull", "lite pull")
    ),
    Line(
        "send one by one, 128 B", PYTHON, "send one by one, 128 B", CLIENTS, _goals(client_us=1.0)
    ),
    Line(
        "send many at once, 128 B",
        PYTHON,
        "send many at once, 128 B",
        ("aiokafka",),
        _goals(rate=1.0, client_us=1.0),
        "flintmq, auto_batch",
    ),
    *(
        Line(
            f"{work}, beside {name}",
            PYTHON,
            f"{work}, 128 B, on RocketMQ 5.3.3",
            (name,),
            _goals(rate=3.0, client_us=0.5),
        )
        for name in ("rocketmq", "rocketmq-python-client")
        for work in ("send one by one", "send many at once", "push of a backlog")
    ),
    *(
        Line(
            f"Spark: batch read, {size}, 7 columns",
            SPARK,
            f"batch read, {size}",
            KAFKA_SOURCE,
            _goals(rate=rate, cpu_us=cpu),
            "flintmq, 7 columns",
        )
        for size, rate, cpu in (("100 B", 2.0, 0.85), ("1 KiB", 1.7, 0.95))
    ),
    Line(
        "Spark: a function on each message, 100 B",
        SPARK,
        "a function on each message, 100 B",
        ("Kafka, mapInArrow",),
        _goals(cpu_us=1.2),
        "flintmq, listener in the task",
    ),
    Line(
        "Spark: micro-batch of 40 rows",
        SPARK,
        "micro-batch of 40 rows",
        ("kafka",),
        _goals(median_ms=1.1),
    ),
    Line(
        "Spark: stream at full speed, 100 B",
        SPARK,
        "stream at full speed, 100 B",
        KAFKA_SOURCE,
        _goals(rate=1.5),
        "flintmq, 7 columns",
    ),
    *(
        Line(
            f"Spark: sink, {size}",
            SPARK,
            f"sink, {size}",
            ("kafka",),
            _goals(rate=1.0, cpu_us=1.2),
        )
        for size in ("100 B", "1 KiB")
    ),
    _growing("sends to 10,000 queues", "queues of a topic: send", "10,000 queues", "1 queue", 1.5),
    _growing(
        "64 consumers in a group",
        "consumers in a group: send in batches, push",
        "64 consumers",
        "1 consumer",
        1.3,
    ),
    *map(_replicated, ("1 thread", "16 threads", "64 threads")),
    _pop("pop 128 B through remoting", server_us=0.7),
    _pop("gRPC send 128 B, 16 threads", server_us=1.0, rate=0.8),
    _pop("gRPC receive and acknowledge 128 B, 4 threads", server_us=1.0, rate=0.8),
)


@dataclass(frozen=True)
class Verdict:
    """One goal against one of the others; without a ratio it was not measured."""

    line: Line
    goal: Goal
    other: str
    ratio: Ratio | None

    @property
    def is_met(self) -> bool:
        return self.ratio is not None and self.goal.holds(self.ratio.median)


def verdicts(line: Line, results: Mapping[str, Results]) -> Iterator[Verdict]:
    measured = line.measured(results)
    for goal in line.goals:
        for other in line.theirs:
            ratio = measured.ratio(line.ours, other, goal.metric) if measured else None
            yield Verdict(line, goal, other, ratio)


def hardest(line: Line, results: Mapping[str, Results]) -> Iterator[Verdict]:
    """For each goal the one of the others against whom least is left."""
    found = [each for each in verdicts(line, results) if each.ratio is not None]
    for goal in line.goals:
        against = [each for each in found if each.goal == goal]
        sign = 1 if goal.is_lower else -1
        if against:
            yield min(against, key=lambda each: sign * each.ratio.median if each.ratio else 0)
