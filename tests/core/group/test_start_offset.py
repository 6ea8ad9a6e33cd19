"""A group begins where it stood, or where it wants to when it is new; it never guesses."""

from __future__ import annotations

import pytest

from flintmq.core.group.start_offset import StartOffset, choose_start_offset, find_start_offset
from flintmq.errors import BrokerRefused, FlintError, Unreachable
from flintmq.model.group import ConsumeFromWhere
from flintmq.model.queue import QueueRef
from flintmq.protocol.command import Command
from flintmq.protocol.headers.offset import OffsetAnswer, SearchOffset
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


def peers(stored: Command | FlintError) -> Peers:
    return Peers({(BROKER, 14): stored, (BROKER, 30): at(END), (BROKER, 29): at(AT_TIME)})


@pytest.mark.parametrize("queue", [QUEUE, RETRY])
@pytest.mark.parametrize("start_from", list(ConsumeFromWhere))
def test_a_group_begins_where_it_stood(queue: QueueRef, start_from: ConsumeFromWhere) -> None:
    talk = peers(at(17))

    found = talk.hold(find_start_offset(BROKER, "g", queue, start_from, 5))

    assert found == StartOffset(17, True)  # type: ignore[arg-type]
    assert len(talk.calls) == 1


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
        found = peers(no(22)).hold(find_start_offset(BROKER, "g", queue, start_from, 5))

        assert found == (expected, False)


def test_the_time_is_asked_for_as_it_was_given() -> None:
    talk = peers(no(22))

    talk.hold(choose_start_offset(BROKER, QUEUE, AT, 1_234_567))

    ((_, request),) = talk.asked(29)
    assert request.header(SearchOffset).timestamp == 1_234_567


@pytest.mark.parametrize("trouble", [no(1, "broken"), Unreachable(BROKER, "gone")])
def test_a_broker_that_cannot_say_is_an_error(trouble: Command | FlintError) -> None:
    with pytest.raises((BrokerRefused, Unreachable)):
        peers(trouble).hold(find_start_offset(BROKER, "g", QUEUE, LAST, 5))
