"""Every offset of a span is given once, filtered out, or told to be missing; offsets only grow."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.core.conversation import Conversation
from flintmq.core.reading.pull_request import Pull, pull_request
from flintmq.core.reading.read_span import (
    COUNT_MAX,
    EVERYTHING,
    STANDSTILLS_MAX,
    Page,
    SpanReader,
    Wanted,
    read_messages,
)
from flintmq.errors import BrokerRefused, InvalidExpression, MalformedRecord, RemoteProtocolError
from flintmq.model.group import TOOLS_GROUP
from flintmq.model.queue import QueueOffset, QueueRef, Span
from flintmq.protocol.command import Command
from flintmq.protocol.headers.pull import PullAnswer, PullMessage
from support.core.peers import A, Peers, Reply, no, ok, record

QUEUE = QueueRef("orders", "broker-a", 0)
FOUND, NOT_FOUND, NONE_MATCHED, MOVED = 0, 19, 20, 21


def span(start: int, stop: int) -> Span:
    return Span(QUEUE, QueueOffset(start), QueueOffset(stop))


def pulled(code: int, leads_to: int, body: bytes = b"", *, first: int = 0, end: int = 100) -> Reply:
    header = PullAnswer(
        suggest_which_broker_id=0, next_begin_offset=leads_to, min_offset=first, max_offset=end
    )
    return ok(header, body, code=code)


def records(start: int, stop: int) -> bytes:
    return b"".join(record(offset) for offset in range(start, stop))


def broker(end: int, per_pull: int, first: int = 0) -> Peers:
    """A broker whose queue has the offsets from ``first`` to ``end``."""

    def reply(request: Command) -> Command:
        header = request.header(PullMessage)
        at = header.queue_offset
        if at < first:
            answer = pulled(MOVED, first, first=first, end=end)
        elif at >= end:
            answer = pulled(NOT_FOUND if at == end else MOVED, end, first=first, end=end)
        else:
            stop = min(end, at + min(per_pull, header.max_msg_nums))
            answer = pulled(FOUND, stop, records(at, stop), first=first, end=end)
        assert isinstance(answer, Command)
        return answer

    return Peers({(A, 11): reply})


def read_span(reader: SpanReader, take: Callable[[Page], None]) -> Conversation[QueueOffset]:
    """Read all of a span, page by page; where the reading ended."""
    while (call := reader.call()) is not None:
        reply = yield call
        take(reader.answered(reply))
    return reader.next_offset


def offsets(pages: list[Page]) -> list[int]:
    return [message.queue_offset for page in pages for message in page.messages()]


def test_a_span_is_read_with_as_few_pulls_as_the_broker_allows() -> None:
    pages: list[Page] = []
    peers = broker(end=100, per_pull=32)

    end = peers.hold(read_span(SpanReader(span(5, 90), A), pages.append))

    assert offsets(pages) == list(range(5, 90))
    assert end == 90
    assert len(peers.calls) == 3  # 85 messages in pulls of 32


def test_no_more_is_asked_for_than_the_span_has() -> None:
    peers = broker(end=100, per_pull=32)

    peers.hold(read_span(SpanReader(span(0, 5), A), lambda _: None))

    header = peers.calls[0].request.header(PullMessage)
    assert header.max_msg_nums == 5
    assert (header.sys_flag, header.subscription, header.expression_type) == (4, "*", "TAG")
    assert header.consumer_group == "TOOLS_CONSUMER"


def test_records_beyond_the_span_are_left_out() -> None:
    reader = SpanReader(span(0, 3), A)
    reply = pulled(FOUND, 10, records(0, 10))
    assert isinstance(reply, Command)

    page = reader.answered(reply)

    assert [message.queue_offset for message in page.messages()] == [0, 1, 2]
    assert page.stop == reader.next_offset == 3
    assert reader.call() is None


def test_an_empty_span_asks_nobody() -> None:
    peers = Peers({})

    assert peers.hold(read_span(SpanReader(span(7, 7), A), lambda _: None)) == 7
    assert peers.calls == []


def test_where_to_go_on_is_known_before_the_records_are_decoded() -> None:
    reader = SpanReader(span(0, 50), A)
    reply = pulled(FOUND, 32, b"not decoded yet")
    assert isinstance(reply, Command)

    reader.answered(reply)
    call = reader.call()

    assert call is not None
    assert call.request.header(PullMessage).queue_offset == 32


def test_what_does_not_match_is_passed_over() -> None:
    wanted = Wanted.by(tags="paid")
    peers = Peers(
        {
            (A, 11): [
                pulled(NONE_MATCHED, 40),
                pulled(FOUND, 60, record(50, TAGS="paid") + record(51, TAGS="sent")),
            ]
        }
    )
    pages: list[Page] = []

    peers.hold(read_span(SpanReader(span(0, 60), A, wanted=wanted), pages.append))

    header = peers.calls[0].request.header(PullMessage)
    assert [m.queue_offset for page in pages for m in page.messages(wanted)] == [50]
    assert (header.subscription, header.max_msg_nums) == ("paid", COUNT_MAX)


def test_what_the_broker_no_longer_has_is_told_as_a_gap() -> None:
    pages: list[Page] = []

    broker(end=100, per_pull=32, first=20).hold(read_span(SpanReader(span(0, 30), A), pages.append))

    assert [page.gap for page in pages if page.gap] == [(0, 20)]
    assert offsets(pages) == list(range(20, 30))


def test_a_gap_never_reaches_beyond_the_span() -> None:
    pages: list[Page] = []

    broker(end=100, per_pull=32, first=50).hold(read_span(SpanReader(span(0, 30), A), pages.append))

    assert [page.gap for page in pages] == [(0, 30)]


@pytest.mark.parametrize("start", [10, 12])
def test_a_queue_that_is_shorter_ends_the_reading(start: int) -> None:
    reader = SpanReader(span(start, 50), A)

    end = broker(end=10, per_pull=32).hold(read_span(reader, lambda _: None))

    assert end == start
    assert reader.ended_at == 10
    assert reader.is_done


def test_a_hole_in_the_queue_is_a_gap() -> None:
    peers = Peers({(A, 11): [pulled(NOT_FOUND, 8), pulled(FOUND, 10, records(8, 10))]})
    pages: list[Page] = []

    peers.hold(read_span(SpanReader(span(0, 10), A), pages.append))

    assert pages[0].gap == (0, 8)
    assert offsets(pages) == [8, 9]


def test_a_broker_that_leads_nowhere_is_not_believed_for_long() -> None:
    peers = Peers({(A, 11): pulled(NONE_MATCHED, 0)})

    with pytest.raises(RemoteProtocolError, match="again and again"):
        peers.hold(read_span(SpanReader(span(0, 10), A), lambda _: None))

    assert len(peers.calls) == STANDSTILLS_MAX


def test_only_answers_in_a_row_count_against_a_broker() -> None:
    still = [pulled(NONE_MATCHED, at) for at in (0, 0, 4, 4, 4, 10)]
    peers = Peers({(A, 11): still})

    assert peers.hold(read_span(SpanReader(span(0, 10), A), lambda _: None)) == 10


def test_a_refusal_carries_the_address() -> None:
    with pytest.raises(BrokerRefused) as caught:
        Peers({(A, 11): no(16, "forbidden")}).hold(
            read_span(SpanReader(span(0, 10), A), lambda _: None)
        )

    assert caught.value.address == A


def test_a_record_that_cannot_be_read_is_an_error() -> None:
    reader = SpanReader(span(0, 10), A)
    reply = pulled(FOUND, 2, record(0) + b"rubbish")
    assert isinstance(reply, Command)

    with pytest.raises(MalformedRecord):
        reader.answered(reply).messages()


def test_reading_stops_at_the_wanted_number() -> None:
    peers = broker(end=100, per_pull=32)

    found = peers.hold(read_messages(SpanReader(span(0, 100), A), count_max=40))

    assert [message.queue_offset for message in found] == list(range(40))
    assert len(peers.calls) == 2


def test_a_pull_may_wait_at_the_broker() -> None:
    header = pull_request(
        Pull(QUEUE, QueueOffset(3), EVERYTHING, COUNT_MAX, suspend_ms=500), TOOLS_GROUP
    ).header(PullMessage)

    assert (header.sys_flag, header.suspend_timeout_millis) == (6, 500)


def test_expressions_are_checked_before_anything_is_sent() -> None:
    assert Wanted.by() == EVERYTHING
    assert Wanted.by(sql="a > 5") == Wanted("SQL92", "a > 5")
    assert Wanted.by(sql="a > 5").tag_test() is None
    with pytest.raises(InvalidExpression):
        Wanted.by(sql="a >")
    with pytest.raises(InvalidExpression):
        Wanted.by(tags="||")
    with pytest.raises(InvalidExpression, match="not both"):
        Wanted.by(tags="a", sql="a > 5")


def test_a_count_below_one_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="count_max"):
        SpanReader(span(0, 1), A, count_max=0)


@settings(max_examples=60)
@given(
    first=st.integers(0, 30),
    length=st.integers(0, 60),
    start=st.integers(0, 80),
    size=st.integers(0, 80),
    per_pull=st.integers(1, 40),
    count_max=st.integers(1, 40),
)
def test_every_offset_is_given_once_or_told_missing(
    first: int, length: int, start: int, size: int, per_pull: int, count_max: int
) -> None:
    pages: list[Page] = []
    end = first + length
    reader = SpanReader(span(start, start + size), A, count_max=count_max)

    broker(end, per_pull, first).hold(read_span(reader, pages.append))

    given_offsets = offsets(pages)
    missing = {offset for page in pages if page.gap for offset in range(*page.gap)}
    after = range(start if reader.ended_at is None else max(start, reader.ended_at), start + size)
    behind = set() if reader.ended_at is None else set(after)
    assert given_offsets == sorted(set(given_offsets))
    assert set(given_offsets) == set(range(max(start, first), min(start + size, end)))
    assert set(given_offsets) | missing | behind == set(range(start, start + size))
    assert not set(given_offsets) & missing
