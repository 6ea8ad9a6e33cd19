"""What a stream asks and keeps grows with its queues, and no faster."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[3]))

from benchmarks.simulated_cluster import SimulatedCluster
from benchmarks.spark_scale import Scale, measure, options_over, recover

from flintmq.model.queue import Extent, QueueOffset, QueueRef
from flintmq.spark.options.source_options import Limits
from flintmq.spark.source.stream_driver import StreamDriver
from flintmq.spark.source.stream_offset import StreamOffset
from flintmq.spark.source.stream_plan import StreamPlan

TIMES = 4
FIXED = 64
"""Requests that do not depend on queues: each of eight brokers learns of the group, twice."""


@pytest.fixture(scope="module")
def sizes() -> tuple[Scale, Scale]:
    return measure(400, brokers=8), measure(400 * TIMES, brokers=8)


def test_requests_grow_with_topics_and_brokers_and_not_with_queues(
    sizes: tuple[Scale, Scale],
) -> None:
    small, large = sizes

    assert small.trigger_requests == 2 * small.topics, "one for each topic and broker of it"
    assert large.trigger_requests == 2 * large.topics
    assert large.start_requests <= TIMES * small.start_requests
    assert large.recover_requests <= TIMES * small.recover_requests + FIXED
    assert large.recover_requests <= 3 * large.topics + FIXED, "plan and commits share routes"


def test_commits_are_one_for_each_queue_that_was_read(sizes: tuple[Scale, Scale]) -> None:
    assert [size.commit_requests for size in sizes] == [size.queues for size in sizes]


@pytest.mark.parametrize("figure", ["offset_bytes", "answered_bytes", "tasks_bytes"])
def test_bytes_grow_with_queues(figure: str, sizes: tuple[Scale, Scale]) -> None:
    small, large = (getattr(size, figure) for size in sizes)

    assert TIMES / 2 < large / small < TIMES * 1.1


def test_the_text_of_an_offset_is_short(sizes: tuple[Scale, Scale]) -> None:
    small, _large = sizes

    assert small.offset_bytes / small.queues < 64


@pytest.mark.parametrize("queue_count", [10, 40])
def test_a_plan_looks_up_the_last_ends_a_fixed_number_of_times(
    queue_count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = [QueueRef(f"topic-{number:02}", "broker-a", 0) for number in range(queue_count)]
    here = StreamOffset.at(dict.fromkeys(queues, QueueOffset(5)))
    extents = dict.fromkeys(queues, Extent(QueueOffset(0), QueueOffset(5)))
    extents[queues[0]] = Extent(QueueOffset(0), QueueOffset(6))
    read: Any = vars(StreamOffset)["stops"]
    reads: list[StreamOffset] = []

    def counted(offset: StreamOffset) -> dict[QueueRef, QueueOffset]:
        reads.append(offset)
        return dict(read.fget(offset))

    monkeypatch.setattr(StreamOffset, "stops", property(counted))

    found = StreamPlan(Limits()).next(here, extents, now_ms=0)

    assert found.message_count == 1
    assert len(reads) <= 4, "each makes a table of all queues"


def test_a_recovery_compares_queues_in_proportion_to_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are kept in their order: to sort them anew would cost more the more there are."""
    plain, compared = QueueRef.__lt__, [0]

    def counted(one: QueueRef, other: QueueRef) -> bool:
        compared[0] += 1
        return plain(one, other)

    monkeypatch.setattr(QueueRef, "__lt__", counted)

    def comparisons(queue_count: int) -> int:
        cluster = SimulatedCluster(8, queue_count // 10, end=100)
        options = options_over(cluster)
        first = StreamDriver(options)
        text = json.dumps(first.latest(first.initial()).to_json())
        first.close()
        again = StreamDriver(options)
        compared[0] = 0
        recover(again, text)
        again.close()
        return compared[0]

    small, large = comparisons(400), comparisons(400 * TIMES)

    assert 400 < small < 400 * 12
    assert large < TIMES * small * 1.02
