"""A simple consumer asks its brokers in turn, holds pops only where there is nothing, and neither
loses nor keeps to itself what nobody asked for.
"""

from __future__ import annotations

from typing import TypeVar

import pytest

from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.core.pop.pop_request import Pop, PopFound
from flintmq.core.pop.simple_actions import (
    AckUnwanted,
    BadPopped,
    HandOut,
    HideBuffered,
    Receiving,
    SimpleAction,
)
from flintmq.core.pop.simple_pop import HOLD_MS_MAX, REST_MS, SimplePop
from flintmq.errors import BrokerRefused, FlintError, NoRoute, Unreachable
from support.core.messages import offsets_of
from support.core.popped import found, popped

T = TypeVar("T")

AWAY = Unreachable("127.0.0.1:1", "refused")


class Asking:
    """The machine, the time, and the actions that were not looked at yet."""

    def __init__(self, *brokers: str, tags: str = "*") -> None:
        self.now_ms = 0
        self.machine = SimplePop()
        self.machine.subscribe(TopicSubscription("orders", tags))
        self.actions: list[SimpleAction] = []
        self.do(self.machine.route_known("orders", brokers, 0))

    def do(self, actions: list[SimpleAction]) -> None:
        self.actions += actions

    def take(self, kind: type[T]) -> list[T]:
        taken: list[T] = [each for each in self.actions if isinstance(each, kind)]
        self.actions = [each for each in self.actions if not isinstance(each, kind)]
        return taken

    def one(self, kind: type[T]) -> T:
        (taken,) = self.take(kind)
        return taken

    def receive(self, count: int = 16, wait_ms: int = 20_000) -> Receiving:
        receiving = Receiving(count, 30_000, self.now_ms + wait_ms)
        self.do(self.machine.receive(receiving, self.now_ms))
        return receiving

    def answer(self, pop: Pop, *offsets: int) -> None:
        answer = found(pop, *offsets) if offsets else PopFound()
        self.do(self.machine.popped(pop, answer, self.now_ms))

    def fail(self, pop: Pop, error: FlintError) -> None:
        self.do(self.machine.pop_failed(pop, error, self.now_ms))

    def to(self, now_ms: int) -> None:
        """Let time pass, as a driver does: from one due time to the next."""
        while (due_ms := self.machine.next_due_ms()) is not None and due_ms <= now_ms:
            assert due_ms > self.now_ms, "what was due is done"
            self.now_ms = due_ms
            self.do(self.machine.tick(due_ms))
        self.now_ms = now_ms


def test_one_broker_holds_the_pop_at_once() -> None:
    asking = Asking("broker-a")

    receiving = asking.receive(8, wait_ms=3_000)
    pop = asking.one(Pop)
    asking.answer(pop, 0, 1)

    assert (pop.count_max, pop.invisible_ms, pop.hold_ms) == (8, 30_000, 3_000)
    handed = asking.one(HandOut)
    assert handed.to is receiving
    assert offsets_of(handed.messages) == [0, 1]
    assert asking.take(Pop) == []


def test_a_long_wait_is_several_holds_and_ends_with_nothing() -> None:
    asking = Asking("broker-a")
    receiving = asking.receive(wait_ms=HOLD_MS_MAX + 1_000)

    first = asking.one(Pop)
    asking.to(HOLD_MS_MAX - 50)
    asking.answer(first)
    second = asking.one(Pop)
    asking.to(HOLD_MS_MAX + 950)
    asking.answer(second)
    asking.to(HOLD_MS_MAX + 1_000)

    assert (first.hold_ms, second.hold_ms) == (HOLD_MS_MAX, 1_050)
    assert asking.one(HandOut) == HandOut(receiving, (), None)


def test_a_receive_that_may_not_wait_looks_once_at_every_broker() -> None:
    asking = Asking("broker-a", "broker-b")

    asking.receive(wait_ms=0)
    first = asking.one(Pop)
    asking.answer(first)
    second = asking.one(Pop)
    assert asking.take(HandOut) == []
    asking.answer(second)

    assert {first.source.broker, second.source.broker} == {"broker-a", "broker-b"}
    assert (first.hold_ms, second.hold_ms) == (0, 0)
    assert asking.one(HandOut).messages == ()


def test_brokers_take_turns_while_all_have_messages() -> None:
    asking = Asking("broker-a", "broker-b", "broker-c")
    served = []

    for number in range(6):
        asking.receive()
        pop = asking.one(Pop)
        served.append(pop.source.broker)
        asking.answer(pop, number)
        assert len(asking.one(HandOut).messages) == 1

    assert served == ["broker-a", "broker-b", "broker-c"] * 2


def test_when_no_broker_has_any_all_of_them_hold_a_pop() -> None:
    asking = Asking("broker-a", "broker-b")
    asking.receive()
    for _ in range(2):
        asking.answer(asking.one(Pop))

    held = {pop.source.broker: pop for pop in asking.take(Pop)}
    asking.answer(held["broker-b"], 7)

    assert {pop.hold_ms for pop in held.values()} == {HOLD_MS_MAX}
    assert offsets_of(asking.one(HandOut).messages) == [7]


def left_over() -> tuple[Asking, Pop]:
    """A receive is over, and a pop of it is still held at the other broker."""
    asking = Asking("broker-a", "broker-b")
    asking.receive()
    for _ in range(2):
        asking.answer(asking.one(Pop))
    held = {pop.source.broker: pop for pop in asking.take(Pop)}
    asking.answer(held["broker-b"], 7)
    asking.take(HandOut)
    return asking, held["broker-a"]


def test_what_a_left_over_pop_brings_is_for_the_next_receive() -> None:
    asking, pop = left_over()

    asking.answer(pop, 1, 2, 3)
    assert asking.machine.buffered_count == 3
    asking.receive(2)

    assert offsets_of(asking.one(HandOut).messages) == [1, 2]
    assert asking.take(Pop) == []


def test_a_message_that_waited_is_hidden_anew_before_it_is_handed_out() -> None:
    asking, pop = left_over()
    asking.answer(pop, 1)

    asking.to(5_000)
    asking.receive()
    ask = asking.one(HideBuffered)
    assert (ask.invisible_ms, asking.take(HandOut)) == (30_000, [])
    asking.do(asking.machine.hidden(ask, ask.message, 5_001))

    assert offsets_of(asking.one(HandOut).messages) == [1]


def test_a_message_that_nobody_takes_is_returned_in_half_of_its_time() -> None:
    asking, pop = left_over()
    asking.answer(pop, 1)

    asking.to(14_999)
    assert asking.take(HideBuffered) == []
    asking.to(15_000)

    ask = asking.one(HideBuffered)
    assert (ask.invisible_ms, ask.to, asking.machine.buffered_count) == (0, None, 0)


def test_a_message_that_cannot_be_hidden_anew_is_left_to_come_again() -> None:
    asking, pop = left_over()
    asking.answer(pop, 1)
    asking.to(5_000)
    asking.receive(wait_ms=1_000)

    asking.do(asking.machine.hide_failed(asking.one(HideBuffered), "away", 5_001))

    assert asking.take(HandOut) == []
    assert [pop.hold_ms for pop in asking.take(Pop)] == [0]


def test_a_receive_that_is_given_up_leaves_its_messages_to_the_next() -> None:
    asking = Asking("broker-a")
    receiving = asking.receive()
    pop = asking.one(Pop)

    asking.machine.give_up(receiving)
    asking.answer(pop, 4)
    asking.receive()

    assert offsets_of(asking.one(HandOut).messages) == [4]


def test_several_receives_share_what_one_pop_brings() -> None:
    asking = Asking("broker-a")
    first, second = asking.receive(2), asking.receive(2)

    pop = asking.one(Pop)
    asking.answer(pop, 0, 1, 2)

    handed = asking.take(HandOut)
    assert [(each.to, offsets_of(each.messages)) for each in handed] == [
        (first, [0, 1]),
        (second, [2]),
    ]


def test_a_close_ends_receives_and_returns_what_still_comes() -> None:
    asking = Asking("broker-a")
    receiving = asking.receive()
    pop = asking.one(Pop)

    asking.do(asking.machine.close(0))
    assert asking.one(HandOut) == HandOut(receiving, (), None)
    asking.answer(pop, 4, 5)

    returned = asking.take(HideBuffered)
    assert offsets_of(each.message for each in returned) == [4, 5]
    assert {each.invisible_ms for each in returned} == {0}
    assert asking.take(Pop) == []


def test_a_broker_that_is_away_rests_and_its_error_is_raised_at_the_end() -> None:
    asking = Asking("broker-a")
    receiving = asking.receive(wait_ms=2_500)

    asking.fail(asking.one(Pop), AWAY)
    assert asking.take(Pop) == []
    asking.to(REST_MS)
    asking.fail(asking.one(Pop), AWAY)
    asking.to(2_500)

    assert asking.one(HandOut) == HandOut(receiving, (), AWAY)


def test_one_broker_that_answers_is_enough() -> None:
    asking = Asking("broker-a", "broker-b")
    receiving = asking.receive(wait_ms=50)

    asking.fail(asking.one(Pop), AWAY)
    asking.answer(asking.one(Pop))
    asking.to(50)

    assert asking.one(HandOut) == HandOut(receiving, (), None)


@pytest.mark.parametrize("code", [3, 16, 23, 26])
def test_a_refusal_that_waiting_does_not_mend_is_raised_at_once(code: int) -> None:
    asking = Asking("broker-a")
    receiving = asking.receive()
    refused = BrokerRefused(code, "no", "127.0.0.1:1")

    asking.fail(asking.one(Pop), refused)

    assert asking.one(HandOut) == HandOut(receiving, (), refused)


def test_without_a_route_a_receive_waits_for_one() -> None:
    asking = Asking()
    asking.receive(wait_ms=1_000)
    assert asking.take(Pop) == []

    asking.do(asking.machine.route_known("orders", ["broker-a"], 500))
    assert asking.one(Pop).source.broker == "broker-a"


def test_without_a_route_to_the_end_it_says_so() -> None:
    asking = Asking()
    asking.receive(wait_ms=1_000)

    asking.to(1_000)

    assert isinstance(asking.one(HandOut).error, NoRoute)


def test_a_broker_that_leaves_the_route_is_asked_no_more() -> None:
    asking = Asking("broker-a", "broker-b")

    asking.do(asking.machine.route_known("orders", ["broker-b"], 0))
    asking.receive()

    assert asking.one(Pop).source.broker == "broker-b"


def test_a_broker_that_ends_holds_at_once_is_not_asked_all_the_time() -> None:
    asking = Asking("broker-a")
    asking.receive()

    asking.answer(asking.one(Pop))
    assert asking.take(Pop) == []
    asking.to(200)

    assert len(asking.take(Pop)) == 1


def test_a_broker_that_holds_as_many_pops_as_it_can_rests() -> None:
    asking = Asking("broker-a")
    asking.receive()

    asking.do(asking.machine.popped(asking.one(Pop), PopFound(is_full=True), 0))
    asking.to(REST_MS - 1)
    assert asking.take(Pop) == []
    asking.to(REST_MS)

    assert len(asking.take(Pop)) == 1


def test_messages_that_only_share_the_hash_of_a_tag_are_acknowledged() -> None:
    asking = Asking("broker-a", tags="Aa")
    asking.receive()
    pop = asking.one(Pop)
    messages = popped(pop, 0, tags="Aa") + popped(pop, 1, tags="BB")

    asking.do(asking.machine.popped(pop, PopFound(messages), 0))

    assert offsets_of(asking.one(HandOut).messages) == [0]
    assert offsets_of(asking.one(AckUnwanted).messages) == [1]


def test_an_unsubscribed_topic_is_popped_no_more_and_its_messages_are_returned() -> None:
    asking, pop = left_over()

    asking.machine.unsubscribe("orders")
    asking.answer(pop, 5)

    assert asking.one(HideBuffered).invisible_ms == 0
    assert asking.machine.sources() == []


def test_hidden_messages_of_a_receive_that_was_given_up_stay_in_the_buffer() -> None:
    asking, pop = left_over()
    asking.answer(pop, 1)
    asking.to(5_000)
    receiving = asking.receive()
    ask = asking.one(HideBuffered)

    asking.machine.give_up(receiving)
    asking.do(asking.machine.hidden(ask, ask.message, 5_001))

    assert asking.machine.buffered_count == 1
    assert asking.take(BadPopped) == []
