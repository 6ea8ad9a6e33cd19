"""What a stream asks and keeps grows with its queues, and no faster."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[3]))

from benchmarks.spark_scale import Scale, measure

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


def test_commits_are_one_for_each_queue_that_was_read(sizes: tuple[Scale, Scale]) -> None:
    assert [size.commit_requests for size in sizes] == [size.queues for size in sizes]


@pytest.mark.parametrize("figure", ["offset_bytes", "answered_bytes", "tasks_bytes"])
def test_bytes_grow_with_queues(figure: str, sizes: tuple[Scale, Scale]) -> None:
    small, large = (getattr(size, figure) for size in sizes)

    assert TIMES / 2 < large / small < TIMES * 1.1


def test_the_text_of_an_offset_is_short(sizes: tuple[Scale, Scale]) -> None:
    small, _large = sizes

    assert small.offset_bytes / small.queues < 64
