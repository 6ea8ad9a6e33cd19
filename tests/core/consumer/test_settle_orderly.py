"""No message is delivered before every one in front of it is consumed or given up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flintmq.core.consumer.process_queue import ProcessQueue
from flintmq.core.consumer.settle_concurrent import SettleAction
from flintmq.core.consumer.settle_orderly import Idle, OrderlySettling, SendingBack, Suspended
from flintmq.core.group.actions import Deliver, ReportEvent, SendBack, SendToRetry
from flintmq.core.group.consumer_settings import UNLIMITED
from flintmq.core.group.listener_results import Ack, DeadLetter, Retry, outcomes_of
from support.core.messages import QUEUE, RULES, offsets_of, received, several


class Settling:
    def __init__(self, *offsets: int, times: int = 0, **rules: Any) -> None:
        self.cached = ProcessQueue()
        chosen = replace(RULES, **{"batch_max": 2, "tries_max": UNLIMITED, **rules})
        self.settling = OrderlySettling(QUEUE, self.cached, chosen)
        assert self.settling.add([received(offset, times=times) for offset in offsets]) == []

    def next(self) -> Deliver:
        batch = self.settling.next_batch()
        assert batch is not None
        return batch

    def run(self, result: object, now_ms: int = 0) -> list[SettleAction]:
        batch = self.next()
        self.settling.running.start(batch, now_ms)
        return self.settling.consumed(batch, outcomes_of(result, len(batch.messages)), now_ms)

    def ask(self, result: object) -> SendBack:
        (ask,) = self.run(result)
        assert isinstance(ask, SendBack)
        return ask


def test_one_batch_at_a_time() -> None:
    settling = Settling(1, 2, 3)

    batch = settling.next()

    assert offsets_of(batch.messages) == [1, 2]
    assert settling.settling.next_batch() is None
    settling.settling.running.start(batch, 0)
    assert settling.settling.is_busy
    assert settling.settling.consumed_all(batch)
    assert (settling.cached.settled_to, settling.settling.is_busy) == (3, False)
    assert offsets_of(settling.next().messages) == [3]


def test_an_empty_queue_has_no_batch() -> None:
    assert Settling().settling.next_batch() is None


def test_retries_of_several_topics_come_one_by_one() -> None:
    settling = Settling(1, 2, batch_max_of=lambda _: 9)

    assert offsets_of(settling.next().messages) == [1]


@pytest.mark.parametrize("result", [ValueError("no"), Retry(), 42])
def test_what_is_not_consumed_comes_again_in_place_after_the_suspend_time(result: object) -> None:
    settling = Settling(1, 2, 3)

    assert settling.run(result, 100) == []

    assert settling.settling.state == Suspended(1_100)
    assert settling.settling.next_due_ms() == 1_100
    assert settling.settling.next_batch() is None
    settling.settling.tick(1_099)
    assert settling.settling.next_batch() is None
    settling.settling.tick(1_100)
    again = settling.next()
    assert offsets_of(again.messages) == [1, 2]
    assert [message.reconsume_times for message in again.messages] == [1, 1]


@pytest.mark.parametrize(
    ("wish_ms", "rests_ms"), [(0, 10), (70, 70), (99_999, 30_000), (None, 1000)]
)
def test_a_listener_may_choose_the_suspend_time_within_bounds(
    wish_ms: int | None, rests_ms: int
) -> None:
    settling = Settling(1)

    settling.run(Retry(suspend_ms=wish_ms))

    assert settling.settling.state == Suspended(rests_ms)


def test_the_front_of_a_batch_can_be_consumed_and_the_rest_comes_again() -> None:
    settling = Settling(1, 2, 3, 4, batch_max=3)

    settling.run(Ack(up_to=0))

    assert settling.cached.settled_to == 2
    settling.settling.tick(1_000)
    again = settling.next()
    assert offsets_of(again.messages) == [2, 3, 4]
    assert [message.reconsume_times for message in again.messages] == [1, 1, 0]


def test_what_comes_after_a_message_that_failed_comes_again_too() -> None:
    settling = Settling(1, 2, 3, batch_max=3)

    settling.run([None, Retry(), None])

    assert settling.cached.settled_to == 2
    settling.settling.tick(1_000)
    again = settling.next()
    assert [m.reconsume_times for m in again.messages] == [1, 0]
    assert offsets_of(again.messages) == [2, 3]


def test_a_dead_letter_holds_the_queue_until_the_broker_has_it() -> None:
    settling = Settling(1, 2, 3)

    ask = settling.ask([DeadLetter("bad"), None])

    assert (ask.message.queue_offset, ask.delay_level, ask.reason) == (1, -1, "bad")
    assert isinstance(settling.settling.state, SendingBack)
    assert (settling.cached.settled_to, settling.settling.is_busy) == (1, True)
    assert settling.settling.sending_back == 1
    assert settling.settling.next_batch() is None
    settling.settling.sent_back(ask, 5)
    assert isinstance(settling.settling.state, Idle)
    assert settling.cached.settled_to == 3


def test_a_message_tried_too_often_is_given_up_and_the_queue_goes_on() -> None:
    settling = Settling(1, 2, 3, tries_max=2, times=2)

    first, second = settling.run(Retry())

    assert isinstance(first, SendBack)
    assert isinstance(second, SendBack)
    assert (first.delay_level, first.reason, first.tries_max) == (-1, "tried 3 times", 2)
    settling.settling.sent_back(second, 0)
    settling.settling.sent_back(first, 0)
    assert settling.cached.settled_to == 3
    assert offsets_of(settling.next().messages) == [3]


def test_a_message_may_be_tried_as_often_as_allowed() -> None:
    settling = Settling(1, tries_max=2, times=1)

    assert settling.run(Retry()) == []
    assert isinstance(settling.settling.state, Suspended)


def test_a_dead_letter_that_nobody_takes_is_tried_again_in_place() -> None:
    settling = Settling(1, 2, 3, batch_max=3)
    ask = settling.ask([None, DeadLetter("bad"), None])

    report, copy = settling.settling.send_back_failed(ask, "gone", 0)
    assert isinstance(report, ReportEvent)
    assert isinstance(copy, SendToRetry)
    assert copy.topic == "%RETRY%billing"
    (told,) = settling.settling.copy_failed(ask, "all gone", 50)

    assert isinstance(told, ReportEvent)
    assert settling.cached.settled_to == 2
    assert settling.settling.state == Suspended(1_050)
    settling.settling.tick(1_050)
    assert offsets_of(settling.next().messages) == [2, 3]


def test_in_broadcasting_a_dead_letter_is_dropped_with_a_warning() -> None:
    settling = Settling(1, is_broadcasting=True)

    (report,) = settling.run(DeadLetter("bad"))

    assert isinstance(report, ReportEvent)
    assert "dropped: bad" in report.text
    assert settling.cached.settled_to == 2


def test_a_batch_that_no_listener_saw_goes_back_to_the_front() -> None:
    settling = Settling(1, 2, 3)
    batch = settling.next()

    settling.settling.withdraw(batch)
    settling.settling.withdraw(batch)

    assert offsets_of(settling.next().messages) == [1, 2]


def test_results_and_answers_that_are_not_waited_for_change_nothing() -> None:
    settling = Settling(1, 2, 3)
    old = settling.next()
    settling.settling.withdraw(old)
    settling.next()

    assert settling.settling.consumed(old, outcomes_of(None, 2), 0) == []
    assert settling.settling.consumed(old, outcomes_of(Retry(), 2), 0) == []
    assert settling.cached.settled_to == 1
    ask = SendBack(QUEUE, several(1)[0], -1, 16, "", None)
    settling.settling.sent_back(ask, 0)
    assert settling.settling.send_back_failed(ask, "late", 0) == []
    assert settling.settling.copy_failed(ask, "late", 0) == []


def test_a_slow_listener_keeps_its_message() -> None:
    settling = Settling(1)
    settling.settling.running.start(settling.next(), 0)

    assert settling.settling.expire(10**9) == []
    assert settling.settling.next_due_ms() is None
