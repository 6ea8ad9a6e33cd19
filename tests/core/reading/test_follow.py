"""A queue is followed for ever, forward, and back only where its topic was made anew."""

from __future__ import annotations

import pytest

from flintmq.core.reading.follow import SUSPEND_MS, Follower
from flintmq.core.reading.read_span import SUSPEND_MARGIN_MS
from flintmq.errors import BrokerRefused
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.protocol.command import Command
from flintmq.protocol.headers.pull import PullAnswer, PullMessage
from support.core.peers import A, no, ok, record

QUEUE = QueueRef("orders", "broker-a", 0)


def follower(start: int = 5) -> Follower:
    return Follower(QUEUE, A, QueueOffset(start))


def pulled(code: int, leads_to: int, body: bytes = b"") -> Command:
    header = PullAnswer(
        suggest_which_broker_id=0, next_begin_offset=leads_to, min_offset=0, max_offset=9
    )
    return ok(header, body, code=code)


def test_a_pull_waits_at_the_broker_and_is_given_time() -> None:
    call = follower().call()

    header = call.request.header(PullMessage)
    assert (header.queue_offset, header.suspend_timeout_millis) == (5, SUSPEND_MS)
    assert call.timeout_ms == SUSPEND_MS + SUSPEND_MARGIN_MS


def test_what_comes_is_given_and_passed() -> None:
    following = follower()

    page = following.answered(pulled(0, 7, record(5) + record(6)))

    assert [message.queue_offset for message in page.messages()] == [5, 6]
    assert following.next_offset == 7


@pytest.mark.parametrize(
    ("code", "leads_to", "expected"), [(19, 5, 5), (19, 0, 5), (20, 9, 9), (21, 9, 9), (21, 0, 0)]
)
def test_it_goes_on_where_the_answer_leads(code: int, leads_to: int, expected: int) -> None:
    following = follower()

    page = following.answered(pulled(code, leads_to))

    assert following.next_offset == expected
    assert page.messages() == []
    assert page.gap == ((5, 9) if code == 21 and leads_to == 9 else None)


def test_a_refusal_is_raised() -> None:
    with pytest.raises(BrokerRefused, match="forbidden"):
        follower().answered(no(16, "forbidden"))
