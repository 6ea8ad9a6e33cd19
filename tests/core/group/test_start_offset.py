"""A new group begins where it wants to; its retry topic is read from the beginning."""

from __future__ import annotations

import pytest

from flintmq.core.group.start_offset import choose_start_offset
from flintmq.model.group import ConsumeFromWhere
from flintmq.model.queue import QueueRef
from flintmq.protocol.command import Command
from flintmq.protocol.headers.offset import OffsetAnswer, SearchOffset
from support.core.messages import QUEUE
from support.core.peers import Peers, ok

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
    ],
)
def test_a_new_group_begins_where_it_wants(
    start_from: ConsumeFromWhere, of_retry: int, of_others: int
) -> None:
    for queue, expected in ((RETRY, of_retry), (QUEUE, of_others)):
        assert peers().hold(choose_start_offset(BROKER, queue, start_from, 5)) == expected


def test_the_time_is_asked_for_as_it_was_given() -> None:
    talk = peers()

    talk.hold(choose_start_offset(BROKER, QUEUE, AT, 1_234_567))

    ((_, request),) = talk.asked(29)
    assert request.header(SearchOffset).timestamp == 1_234_567
