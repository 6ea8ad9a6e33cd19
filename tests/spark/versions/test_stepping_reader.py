"""On older versions of Spark a source steps by itself, and knows where it is after a restart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from flintmq.errors import WrongState
from flintmq.spark.versions.progress_offsets import read_offset
from flintmq.spark.versions.read_limits import ReadLimit, ReadMaxRows
from flintmq.spark.versions.source_bases import InputPartition
from flintmq.spark.versions.stepping_reader import SteppingReader


class Counting:
    """A reader of a queue with ten messages, three at a time, from where it is told."""

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self.asked: list[int] = []

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's name
        self.first += 1
        return {"to": self.first - 1}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(3)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        assert isinstance(limit, ReadMaxRows)
        self.asked.append(start["to"])
        end = min(10, start["to"] + limit.max_rows)
        return start if end == start["to"] else {"from": start["to"], "to": end}

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return {"to": 10, "tell": "here"}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(end["from"], end["to"])]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        raise NotImplementedError

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to note."""

    def stop(self) -> None:
        """Nothing to close."""


def test_a_new_query_is_asked_for_the_end_first_and_starts_where_it_says_later() -> None:
    reader = SteppingReader(Counting())

    end = reader.latestOffset()

    assert reader.initialOffset() == {"to": 0} == reader.initialOffset()
    assert end == {"from": 0, "to": 3}


def test_each_step_starts_at_the_end_of_the_last_one_and_then_nothing_is_new() -> None:
    reader = SteppingReader(Counting(), ("tell",))
    start, ends = reader.initialOffset(), []
    for _ in range(4):
        end = reader.latestOffset()
        reader.partitions(start, end)
        ends.append((end["from"], end["to"]))
        start = end

    assert ends == [(0, 3), (3, 6), (6, 9), (9, 10)]
    assert reader.latestOffset() == start
    assert start["tell"] == "here", "older versions do not ask for what a source reports"


def test_after_a_restart_the_limit_counts_from_the_end_of_the_last_batch() -> None:
    inner = Counting()
    reader = SteppingReader(inner)
    before, planned = {"from": 0, "to": 3}, {"from": 3, "to": 6}

    assert reader.partitions(planned, planned) == []
    again = reader.partitions(before, planned)
    end = reader.latestOffset()

    assert [each.value for each in again] == [3, 4, 5]
    assert end == {"from": 6, "to": 9}
    assert inner.asked == [6]


def test_a_query_whose_place_is_told_too_late_is_refused() -> None:
    reader = SteppingReader(Counting())
    reader.latestOffset()

    with pytest.raises(WrongState, match="triggerAvailableNowWrapper"):
        reader.partitions({"to": 6}, {"to": 6})


@pytest.mark.parametrize(
    ("reported", "tree"),
    [
        ('{"v": 1}', {"v": 1}),
        ("{'v': 1, 'tell': None}", {"v": 1, "tell": None}),
        ({"v": 1}, {"v": 1}),
        ("null", None),
        ("None", None),
        ("no offset", None),
        (None, None),
        ("[1]", None),
    ],
)
def test_a_reported_offset_is_read_as_each_version_writes_it(reported: Any, tree: Any) -> None:
    assert read_offset(reported) == tree
