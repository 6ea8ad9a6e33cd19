"""Conditions of a query cut away only what cannot meet them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
)

from flintmq.arrow.reading.queue_source import QueueSource
from flintmq.arrow.schema import Form
from flintmq.model.queue import QueueOffset, QueueRef, Span
from flintmq.spark.source.pushdown import TIME_ROOM_MS, Conditions

SPANS = [
    Span(QueueRef(topic, broker, queue_id), QueueOffset(10), QueueOffset(20))
    for topic in ("ns%a", "ns%b")
    for broker in ("broker-a", "broker-b")
    for queue_id in range(2)
]


class Clockwork:
    """Queues whose messages were stored at offset minutes; nothing else is asked of them."""

    def offsets_at(
        self, queues: Collection[QueueRef], time_ms: int
    ) -> Mapping[QueueRef, QueueOffset]:
        return {queue: QueueOffset(-(-time_ms // 60_000)) for queue in queues}


def narrowed(*conditions: Filter, form: Form = Form.ROCKETMQ) -> list[Span]:
    found = Conditions(form, "ns")
    for condition in conditions:
        found.push_down(condition)
    return [span for span in found.narrow(cast(QueueSource, Clockwork()), SPANS) if len(span)]


def minute(number: int) -> datetime:
    return datetime.fromtimestamp(number * 60, UTC)


def test_names_choose_queues_by_what_users_call_them() -> None:
    found = narrowed(
        EqualTo(("topic",), "a"), EqualTo(("broker",), "broker-b"), In(("queue_id",), (1, 7))
    )

    assert [span.queue for span in found] == [QueueRef("ns%a", "broker-b", 1)]


def test_kafkas_partition_counts_over_brokers() -> None:
    found = narrowed(EqualTo(("partition",), 2), form=Form.KAFKA)

    assert [span.queue for span in found] == [
        QueueRef("ns%a", "broker-b", 0),
        QueueRef("ns%b", "broker-b", 0),
    ]


def test_offsets_cut_exactly() -> None:
    found = narrowed(GreaterThan(("queue_offset",), 12), LessThanOrEqual(("queue_offset",), 15))

    assert {(span.start, span.stop) for span in found} == {(13, 16)}
    assert not narrowed(LessThan(("queue_offset",), 10))
    assert not narrowed(GreaterThanOrEqual(("queue_offset",), 20))
    assert not narrowed(LessThan(("queue_offset",), -5))


def test_times_cut_with_room() -> None:
    room = TIME_ROOM_MS // 60_000
    found = narrowed(
        GreaterThanOrEqual(("store_time",), minute(13)), LessThan(("store_time",), minute(16))
    )

    assert {(span.start, span.stop) for span in found} == {(13 - room, 16 + room + 1)}


@pytest.mark.parametrize(
    ("condition", "is_exact"),
    [
        (EqualTo(("topic",), "a"), True),
        (In(("queue_id",), (1, 2)), True),
        (EqualTo(("queue_offset",), 3), True),
        (EqualTo(("store_time",), minute(3)), False),
        (EqualTo(("queue_offset",), None), False),
        (EqualTo(("topic",), 3), False),
        (In(("queue_id",), (1, None)), False),
        (EqualTo(("properties", "topic"), "a"), False),
        (EqualTo(("tags",), "a"), False),
        (IsNotNull(("topic",)), False),
        (Not(EqualTo(("topic",), "a")), False),
        (StringContains(("topic",), "a"), False),
    ],
    ids=repr,
)
def test_says_what_spark_need_not_look_at(condition: Filter, is_exact: bool) -> None:
    assert Conditions(Form.ROCKETMQ, "ns").push_down(condition) is is_exact


TESTS: dict[type[Filter], Callable[[int, int], bool]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}
NUMBERS = st.integers(5, 25)
OFFSETS = st.one_of([st.builds(kind, st.just(("queue_offset",)), NUMBERS) for kind in TESTS])


@given(st.lists(OFFSETS, max_size=4))
@settings(max_examples=60, deadline=None)
def test_exact_conditions_leave_exactly_the_rows_that_meet_them(conditions: list[Filter]) -> None:
    def meets(offset: int) -> bool:
        return all(TESTS[type(one)](offset, vars(one)["value"]) for one in conditions)

    left = {
        (span.queue, offset)
        for span in narrowed(*conditions)
        for offset in range(span.start, span.stop)
    }

    assert left == {
        (span.queue, offset) for span in SPANS for offset in range(10, 20) if meets(offset)
    }
