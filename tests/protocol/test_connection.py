"""Every call ends in exactly one of Answered, TimedOut and Lost."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from flintmq.errors import LocalProtocolError, MalformedFrame, MalformedHeader, Overloaded
from flintmq.protocol.command import Command, answer, request
from flintmq.protocol.connection import (
    Answered,
    Asked,
    Connection,
    ConnectionEnded,
    TimedOut,
    Unmatched,
)
from flintmq.protocol.frame import FrameReader, HeaderForm
from flintmq.protocol.wire import decode_command, encode_command


def sent(data: bytes) -> Command:
    [frame] = FrameReader().feed(data)
    return decode_command(frame)


def reply(opaque: int, code: int = 0) -> bytes:
    return encode_command(Command(code=code, opaque=opaque, flag=1))


def test_a_call_is_answered_under_its_number() -> None:
    near, far = Connection(), Connection()
    opaque, data = near.call(request(105, body=b"ask"), now_ms=0, timeout_ms=3_000)

    [asked] = far.feed(data)
    assert isinstance(asked, Asked)
    [event] = near.feed(far.answer(asked.command, answer(asked.command, 17)))

    assert asked.command.body == b"ask"
    assert isinstance(event, Answered)
    assert (event.opaque, event.command.code) == (opaque, 17)
    assert near.waiting_count == 0


def test_answers_may_come_in_any_order() -> None:
    connection = Connection()
    numbers = [connection.call(request(105), 0, 3_000)[0] for _ in range(3)]

    events = connection.feed(b"".join(reply(opaque) for opaque in reversed(numbers)))

    assert [event.opaque for event in events if isinstance(event, Answered)] == numbers[::-1]


def test_each_call_has_a_number_of_its_own() -> None:
    connection = Connection()

    calls = [connection.call(request(105), 0, 3_000) for _ in range(5)]

    assert len({opaque for opaque, _ in calls}) == 5
    assert [sent(data).opaque for _, data in calls] == [opaque for opaque, _ in calls]


def test_numbers_wrap_and_step_over_calls_that_still_wait() -> None:
    connection = Connection()
    first, _ = connection.call(request(105), 0, 3_000)
    connection._opaque = 2**31 - 1

    last, _ = connection.call(request(105), 0, 3_000)
    wrapped, _ = connection.call(request(105), 0, 3_000)

    assert (first, last, wrapped) == (0, 2**31 - 1, 1)


def test_numbers_wrap_past_a_largest_number_that_waits() -> None:
    connection = Connection()
    connection._opaque = 2**31 - 1
    connection.call(request(105), 0, 3_000)
    connection._opaque = 2**31 - 1

    assert connection.call(request(105), 0, 3_000)[0] == 0


def test_both_ends_may_ask() -> None:
    connection = Connection()
    connection.call(request(34), 0, 3_000)

    [event] = connection.feed(encode_command(Command(code=40, opaque=0, flag=2)))

    assert isinstance(event, Asked)
    assert event.command.code == 40
    assert connection.waiting_count == 1


def test_an_answer_nobody_waits_for_is_unmatched() -> None:
    [event] = Connection().feed(reply(5))

    assert isinstance(event, Unmatched)


def test_a_second_answer_is_unmatched() -> None:
    connection = Connection()
    opaque, _ = connection.call(request(105), 0, 3_000)

    events = connection.feed(reply(opaque) * 2)

    assert [type(event) for event in events] == [Answered, Unmatched]


def test_a_call_times_out_at_its_deadline_to_the_millisecond() -> None:
    connection = Connection()
    opaque, _ = connection.call(request(105), now_ms=1_000, timeout_ms=500)

    assert connection.next_deadline_ms == 1_500
    assert connection.expire(1_499) == []
    assert connection.expire(1_500) == [TimedOut(opaque)]
    assert connection.expire(1_501) == []
    assert connection.next_deadline_ms is None


def test_an_answer_after_the_deadline_is_unmatched() -> None:
    connection = Connection()
    opaque, _ = connection.call(request(105), 0, 500)
    connection.expire(500)

    [event] = connection.feed(reply(opaque))

    assert isinstance(event, Unmatched)


def test_the_nearest_deadline_is_told_whatever_ended_before_it() -> None:
    connection = Connection()
    early, _ = connection.call(request(105), 0, 100)
    connection.call(request(105), 0, 300)
    abandoned, _ = connection.call(request(105), 0, 200)

    connection.feed(reply(early))
    connection.abandon(abandoned)

    assert connection.next_deadline_ms == 300


def test_a_call_that_was_abandoned_ends_silently() -> None:
    connection = Connection()
    opaque, _ = connection.call(request(105), 0, 500)

    connection.abandon(opaque)
    connection.abandon(opaque)

    assert connection.expire(1_000) == []
    assert [type(event) for event in connection.feed(reply(opaque))] == [Unmatched]
    assert connection.close() == []


def test_a_number_used_again_has_its_own_deadline() -> None:
    connection = Connection()
    opaque, _ = connection.call(request(105), 0, 100)
    connection.feed(reply(opaque))
    connection._opaque = opaque
    connection.call(request(105), 0, 900)

    assert connection.expire(500) == []
    assert connection.expire(900) == [TimedOut(opaque)]


def test_deadlines_of_calls_that_ended_do_not_pile_up() -> None:
    connection = Connection()
    kept, _ = connection.call(request(105), 0, 50_000)

    for _ in range(5_000):
        opaque, _ = connection.call(request(105), 0, 60_000)
        connection.feed(reply(opaque))

    assert len(connection._deadlines) < 2_000
    assert connection.expire(50_000) == [TimedOut(kept)]


def test_closing_ends_every_call() -> None:
    connection = Connection()
    numbers = [connection.call(request(105), 0, 500)[0] for _ in range(3)]

    assert connection.close() == [ConnectionEnded(opaque) for opaque in numbers]
    assert connection.close() == []
    assert connection.next_deadline_ms is None


def test_a_closed_connection_says_nothing_more() -> None:
    connection = Connection()
    connection.close()

    for attempt in (
        lambda: connection.call(request(105), 0, 500),
        lambda: connection.send_oneway(request(15)),
        lambda: connection.answer(request(34), answer(request(34), 0)),
    ):
        with pytest.raises(LocalProtocolError, match="closed"):
            attempt()


def test_a_oneway_request_waits_for_nothing() -> None:
    connection = Connection()

    told = sent(connection.send_oneway(request(15, body=b"x")))

    assert told.is_oneway
    assert told.body == b"x"
    assert connection.waiting_count == 0


def test_a_call_is_never_oneway_and_never_an_answer() -> None:
    _, data = Connection().call(Command(code=15, flag=7), 0, 500)

    assert sent(data).flag == 4


def test_a_oneway_request_is_not_answered() -> None:
    asked = request(15, oneway=True)

    assert Connection().answer(asked, answer(asked, 1)) == b""


def test_an_answer_is_an_answer_whatever_its_flag_said() -> None:
    said = sent(Connection().answer(request(34, opaque=7), Command(code=0, flag=2)))

    assert (said.flag, said.opaque) == (1, 7)


def test_an_answer_cannot_be_answered() -> None:
    with pytest.raises(LocalProtocolError, match="cannot be answered"):
        Connection().answer(Command(flag=1), Command())


def test_too_many_calls_at_once_are_refused() -> None:
    connection = Connection(calls_max=2)
    first, _ = connection.call(request(105), 0, 500)
    connection.call(request(105), 0, 500)

    with pytest.raises(Overloaded) as caught:
        connection.call(request(105), 0, 500)
    connection.feed(reply(first))
    connection.call(request(105), 0, 500)

    assert (caught.value.limit, caught.value.knob) == (2, "calls_max")


def test_the_header_form_is_chosen_for_what_is_sent_only() -> None:
    connection = Connection(form=HeaderForm.BINARY)
    opaque, data = connection.call(request(105), 0, 500)

    assert data[4] == HeaderForm.BINARY
    assert [type(event) for event in connection.feed(reply(opaque))] == [Answered]


def test_a_fault_behind_an_answer_loses_no_call() -> None:
    """The answer shares its read with garbage: the call still ends, when the socket does."""
    connection = Connection()
    opaque, _ = connection.call(request(105), 0, 500)

    with pytest.raises(MalformedHeader):
        connection.feed(reply(opaque) + bytes.fromhex("0000000600000002") + b"[]")
    with pytest.raises(MalformedFrame):
        connection.feed(reply(opaque) + bytes(8))

    assert connection.close() == [ConnectionEnded(opaque)]


def test_a_connection_says_how_it_is() -> None:
    connection = Connection()
    connection.call(request(105), 0, 500)

    assert repr(connection) == "<Connection open, 1 calls waiting>"
    connection.close()
    assert repr(connection) == "<Connection closed, 0 calls waiting>"


class Calls(RuleBasedStateMachine):
    """Calls, answers, time and the end of the socket in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.connection = Connection(calls_max=6)
        self.now_ms = 0
        self.waiting: dict[int, int] = {}
        self.closed = False

    @precondition(lambda self: not self.closed and len(self.waiting) < 6)
    @rule(timeout_ms=st.integers(0, 50))
    def call(self, timeout_ms: int) -> None:
        opaque, _ = self.connection.call(request(105), self.now_ms, timeout_ms)
        assert opaque not in self.waiting
        self.waiting[opaque] = self.now_ms + timeout_ms

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def peer_answers(self, data: st.DataObject) -> None:
        opaque = data.draw(st.sampled_from(sorted(self.waiting)))
        [event] = self.connection.feed(reply(opaque))
        assert isinstance(event, Answered)
        assert event.opaque == opaque
        del self.waiting[opaque]

    @precondition(lambda self: not self.closed)
    @rule(opaque=st.integers(0, 20))
    def peer_answers_anything(self, opaque: int) -> None:
        expected = Unmatched if opaque not in self.waiting else Answered
        [event] = self.connection.feed(reply(opaque))
        assert type(event) is expected
        self.waiting.pop(opaque, None)

    @rule(passed_ms=st.integers(0, 40))
    def time_passes(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        due = {opaque for opaque, at_ms in self.waiting.items() if at_ms <= self.now_ms}
        assert {event.opaque for event in self.connection.expire(self.now_ms)} == due
        self.waiting = {opaque: at for opaque, at in self.waiting.items() if opaque not in due}

    @rule()
    def close(self) -> None:
        assert {event.opaque for event in self.connection.close()} == self.waiting.keys()
        self.waiting = {}
        self.closed = True

    @invariant()
    def agrees_with_the_model(self) -> None:
        assert self.connection.waiting_count == len(self.waiting)
        assert self.connection.next_deadline_ms == min(self.waiting.values(), default=None)


Calls.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
test_calls_end_once_in_any_order_of_events = Calls.TestCase
