"""A new group begins where it wants to; its retry topic is read from the beginning."""

from __future__ import annotations

import pytest

from flintmq.core.group.start_offset import choose_start_offset, is_committed
from flintmq.model.group import ConsumeFromWhere
from flintmq.model.queue import QueueRef
from flintmq.model.start_point import StartPoint, read_start, start_point
from flintmq.protocol.bodies.offset import ConsumerOffsets
from flintmq.protocol.command import Command
from flintmq.protocol.headers.offset import OffsetAnswer, QueryConsumerOffset, SearchOffset
from flintmq.protocol.version import version_number
from support.core.messages import QUEUE
from support.core.peers import Peers, no, ok

BROKER = "b:1"
RETRY = QueueRef("%RETRY%g", "broker-a", 0)
LAST, FIRST, AT = (
    ConsumeFromWhere.LAST_OFFSET,
    ConsumeFromWhere.FIRST_OFFSET,
    ConsumeFromWhere.TIMESTAMP,
)
END, AT_TIME = 90, 40


def at(offset: int) -> Command:
    return ok(OffsetAnswer(offset=offset))


def peers() -> Peers:
    return Peers({(BROKER, 30): at(END), (BROKER, 29): at(AT_TIME)})


@pytest.mark.parametrize(
    ("start_from", "of_retry", "of_others"),
    [
        (LAST, 0, END),
        (ConsumeFromWhere.LAST_OFFSET_AND_FROM_MIN, 0, END),
        (ConsumeFromWhere.MIN_OFFSET, 0, END),
        (ConsumeFromWhere.MAX_OFFSET, 0, END),
        (FIRST, 0, 0),
        (AT, END, AT_TIME),
        (read_start("end"), 0, END),
        (read_start(17), 0, 17),
        (read_start("2026-11-17T08:30"), END, AT_TIME),
    ],
)
def test_a_new_group_begins_where_it_wants(
    start_from: ConsumeFromWhere | StartPoint, of_retry: int, of_others: int
) -> None:
    for queue, expected in ((RETRY, of_retry), (QUEUE, of_others)):
        assert (
            peers().hold(choose_start_offset(BROKER, queue, start_point(start_from), 5)) == expected
        )


def test_the_time_is_asked_for_as_it_was_given() -> None:
    talk = peers()

    talk.hold(choose_start_offset(BROKER, QUEUE, start_point(AT), 1_234_567))

    ((_, request),) = talk.asked(29)
    assert request.header(SearchOffset).timestamp == 1_234_567


OLD, NEW = version_number("V4_9_7"), version_number("V5_3_3")


@pytest.mark.parametrize("version", [OLD, NEW, None])
def test_a_broker_that_says_not_found_has_nothing_committed(version: int | None) -> None:
    talk = Peers({(BROKER, 14): no(22)})

    assert talk.hold(is_committed(BROKER, "g", QUEUE, version)) is False
    ((_, request),) = talk.asked(14)
    assert request.header(QueryConsumerOffset).set_zero_if_not_found is False


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({}, False),
        ({"orders@g": {1: 5}}, False),
        ({"orders@g": {0: 0}}, True),
        ({"orders@other": {0: 9}}, False),
    ],
)
@pytest.mark.parametrize("version", [OLD, None])
def test_the_table_of_an_old_broker_tells_a_committed_zero_from_a_young_queue(
    table: dict[str, dict[int, int]], expected: bool, version: int | None
) -> None:
    body = ConsumerOffsets(offset_table=table).to_body()
    talk = Peers({(BROKER, 14): at(0), (BROKER, 43): ok(body=body)})

    assert talk.hold(is_committed(BROKER, "g", QUEUE, version)) is expected


def test_a_zero_of_a_new_broker_that_was_asked_so_is_committed() -> None:
    assert Peers({(BROKER, 14): at(0)}).hold(is_committed(BROKER, "g", QUEUE, NEW))
