"""Small parts share tasks, and nothing is lost, doubled or put out of order by that."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.arrow.reading.queue_source import ReadPart
from flintmq.model.queue import QueueOffset, QueueRef, Span
from flintmq.spark.source.partitions import (
    ROWS_WORTH_A_TASK,
    SHARED_ROWS_MAX,
    TASKS_A_CORE,
    TASKS_AMPLE,
    Bundle,
    bundle,
)


def parts_of(*sizes: int) -> list[ReadPart]:
    return [
        ReadPart(Span(QueueRef("t", "b", n), QueueOffset(5), QueueOffset(5 + size)), "")
        for n, size in enumerate(sizes)
    ]


def rows_in(some: Bundle) -> int:
    return sum(len(part.span) for part in some)


@settings(max_examples=200)
@given(
    st.lists(st.integers(1, 100_000), max_size=60),
    st.none() | st.integers(1, 80),
    st.none() | st.integers(1, 50_000),
)
def test_every_part_is_there_once_and_the_limits_are_kept(
    sizes: list[int], partitions_min: int | None, records_max: int | None
) -> None:
    parts = parts_of(*sizes)

    made = bundle(parts, partitions_min=partitions_min, records_max=records_max, cores=1)

    assert list(chain.from_iterable(made)) == parts
    assert len(made) >= min(len(parts), partitions_min or 0)
    for some in made:
        assert some
        assert len(some) == 1 or rows_in(some) <= (records_max or SHARED_ROWS_MAX)


def test_a_few_queues_with_enough_rows_have_a_task_each() -> None:
    parts = parts_of(*[ROWS_WORTH_A_TASK] * TASKS_AMPLE)

    assert bundle(parts, cores=1) == [(part,) for part in parts]


def test_hundreds_of_small_queues_share_about_as_many_tasks_as_keep_the_cores_busy() -> None:
    made = bundle(parts_of(*[781] * 256), cores=2)

    assert TASKS_AMPLE <= len(made) <= TASKS_AMPLE + 1
    assert max(map(rows_in, made)) < 1.3 * 256 * 781 / len(made)


def test_more_cores_get_more_tasks() -> None:
    assert len(bundle(parts_of(*[781] * 256), cores=32)) >= TASKS_A_CORE * 32


def test_a_handful_of_rows_is_one_task() -> None:
    assert len(bundle(parts_of(10, 10, 10, 10), cores=2)) == 1
    assert len(bundle(parts_of(10, 10, 10, 10), partitions_min=2, cores=2)) == 2


def test_large_queues_stay_alone_among_small_ones() -> None:
    sizes = [10] * 50 + [500_000] + [10] * 50

    made = bundle(parts_of(*sizes), cores=1)

    assert [len(some) for some in made if rows_in(some) >= 500_000] == [1]


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_and_a_single_part(count: int) -> None:
    parts = parts_of(*[3] * count)

    assert bundle(parts) == [(part,) for part in parts]
