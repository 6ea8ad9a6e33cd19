"""What a stream over very many queues costs its driver: plan, offsets, commits, recovery.

    python -m benchmarks.spark_scale [--queues 1000 10000 100000] [--brokers 64]

The driver is that of a real stream; the cluster is simulated in memory (`simulated_cluster`), so
that CPU time is the driver's alone: in time, add a round trip for each 128 requests.  Each size
runs in a process of its own, for its memory.
"""

from __future__ import annotations

import argparse
import json
import pickle
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from benchmarks.simulated_cluster import NAMESRV, SimulatedAccess, SimulatedCluster
from flintmq.net.collector import ease_collector
from flintmq.spark.options.source_options import SourceOptions
from flintmq.spark.source.partitions import bundle
from flintmq.spark.source.stream_driver import StreamDriver
from flintmq.spark.source.stream_offset import StreamOffset

T = TypeVar("T")

SIZES = (1_000, 10_000, 100_000)
BROKERS = 64
QUEUES_A_TOPIC = 10
EXECUTOR_CORES = 1_000
NEW_MESSAGES = 100
SETTLE_S = 120.0


@dataclass(frozen=True, slots=True)
class Scale:
    """The figures of one size."""

    queues: int
    topics: int
    start_s: float
    """This and the other times are CPU time."""
    plan_s: float
    parts_s: float
    commit_s: float
    recover_s: float
    memory_mib: float
    offset_bytes: int
    tasks: int
    tasks_bytes: int
    start_requests: int
    trigger_requests: int
    commit_requests: int
    recover_requests: int
    answered_bytes: int
    """Of the trigger."""


def options_over(cluster: SimulatedCluster) -> SourceOptions:
    """The options of a stream over all topics of a cluster."""
    given = {
        "namesrv": NAMESRV,
        "subscribe": ",".join(cluster.names()),
        "startingOffsets": "earliest",
        "consumerGroup": "scale",
        "maxOffsetsPerTrigger": str(cluster.queue_count * NEW_MESSAGES // 2),
    }
    parsed = SourceOptions.parse(given, stream=True, environment={})
    return replace(parsed, access=SimulatedAccess((NAMESRV,), cluster=cluster))


def measure(queues: int, brokers: int = BROKERS) -> Scale:
    """One stream: start, plan a micro-batch, commit it, plan the next, and recover."""
    cluster = SimulatedCluster(brokers, queues // QUEUES_A_TOPIC, end=NEW_MESSAGES)
    options = options_over(cluster)
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    driver = StreamDriver(options)
    first, start_s = timed(driver.initial)
    start_requests = cluster.requests.total()
    cluster.forget_counts()
    end, plan_s = timed(lambda: driver.latest(first))
    trigger_requests, answered = cluster.requests.total(), cluster.answered_bytes
    parts, parts_s = timed(lambda: driver.parts(end))
    tasks = bundle(parts, cores=EXECUTOR_CORES)
    text = json.dumps(end.to_json())
    cluster.forget_counts()
    _, commit_s = timed(lambda: commit(driver, end))
    commit_requests = cluster.requests["UPDATE_CONSUMER_OFFSET"]
    driver.close()
    cluster.forget_counts()
    again = StreamDriver(options)
    _, recover_s = timed(lambda: recover(again, text))
    recover_requests = cluster.requests.total() - cluster.requests["UPDATE_CONSUMER_OFFSET"]
    again.close()
    memory_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    return Scale(
        cluster.queue_count,
        cluster.topics,
        start_s,
        plan_s,
        parts_s,
        commit_s,
        recover_s,
        memory_kib / 1024,
        len(text),
        len(tasks),
        len(pickle.dumps(tasks)),
        start_requests,
        trigger_requests,
        commit_requests,
        recover_requests,
        answered,
    )


def commit(driver: StreamDriver, end: StreamOffset) -> None:
    """Commit a micro-batch for the group and wait until that is done."""
    driver.finished(end)
    assert driver.settled(SETTLE_S), "the commits are not through"


def recover(driver: StreamDriver, text: str) -> None:
    """What Spark asks after a crash: the same micro-batch again, and then the next."""
    end = StreamOffset.from_json(json.loads(text))
    driver.parts(end)
    driver.latest(end)


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """The result, and the CPU time of this process meanwhile: others may use the machine."""
    start_s = time.process_time()
    result = work()
    return result, time.process_time() - start_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--brokers", type=int, default=BROKERS)
    parser.add_argument("--one", action="store_true", help="measure here and print JSON")
    asked = parser.parse_args()
    if asked.one:
        ease_collector()  # as a source process does
        print(json.dumps(asdict(measure(asked.queues[0], asked.brokers))))
        return
    rows: list[dict[str, Any]] = []
    for queues in asked.queues:
        command = [sys.executable, "-m", "benchmarks.spark_scale", "--one"]
        command += ["--queues", str(queues), "--brokers", str(asked.brokers)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)  # ours
        rows.append(json.loads(done.stdout))
    for name in rows[0]:
        print(
            f"{name:18}",
            *(
                f"{row[name]:>14,.2f}" if isinstance(row[name], float) else f"{row[name]:>14,}"
                for row in rows
            ),
        )


if __name__ == "__main__":
    main()
