"""A message leaves the cache only when a listener consumed it or a broker stored it again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flintmq.core.consumer.process_queue import ProcessQueue
from flintmq.core.consumer.running_batches import EXPIRED_MAX
from flintmq.core.consumer.settle_concurrent import AGAIN_MS, ConcurrentSettling, SettleAction
from flintmq.core.group.actions import Action, Deliver, ReportEvent, SendBack, SendToRetry
from flintmq.core.group.listener_results import Ack, DeadLetter, Retry, outcomes_of
from support.core.messages import QUEUE, RULES, offsets_of, received, several


class Settling:
    def __init__(self, *offsets: int, **rules: Any) -> None:
        self.cached = ProcessQueue()
        self.settling = ConcurrentSettling(QUEUE, self.cached, replace(RULES, **rules))
        self.batches = self.settling.add(several(*offsets))

    def run(self, batch: Deliver, result: object, now_ms: int = 0) -> list[SettleAction]:
        self.settling.running.start(batch, now_ms)
        return self.settling.consumed(batch, outcomes_of(result, len(batch.messages)), now_ms)

    def ask(self, batch: Deliver, result: object) -> SendBack:
        (ask,) = self.run(batch, result)
        assert isinstance(ask, SendBack)
        return ask

    def copy(self, ask: SendBack) -> SendToRetry:
        report, copy = self.settling.send_back_failed(ask, "gone", 0)
        assert isinstance(report, ReportEvent)
        assert isinstance(copy, SendToRetry)
        return copy


def shapes(batches: list[Deliver]) -> list[list[int]]:
    return [offsets_of(batch.messages) for batch in batches]


def kinds(actions: list[Any]) -> list[type[Action]]:
    return [type(action) for action in actions]


# Batches


@pytest.mark.parametrize(
    ("size", "cut"), [(1, [[1], [2], [3]]), (2, [[1, 2], [3]]), (9, [[1, 2, 3]])]
)
def test_messages_are_cut_into_batches(size: int, cut: list[list[int]]) -> None:
    batches = Settling(1, 2, 3, batch_max=size).batches

    assert shapes(batches) == cut
    assert all(isinstance(batch.messages, tuple) for batch in batches)


def test_a_batch_of_retries_is_of_one_topic_and_of_its_size() -> None:
    settling = Settling(batch_max_of={"orders": 2, "bills": 9}.__getitem__)
    messages = [received(n)._replace(topic=topic) for n, topic in enumerate(["orders"] * 3)]
    messages += [received(n)._replace(topic="bills") for n in (3, 4)]

    assert shapes(settling.settling.add(messages)) == [[0, 1], [2], [3, 4]]


# Results


def test_what_is_consumed_is_settled() -> None:
    settling = Settling(1, 2)

    assert settling.run(settling.batches[0], None) == []
    assert (settling.cached.count, settling.cached.settled_to) == (1, 2)
    assert settling.settling.consumed_all(settling.batches[1])
    assert settling.cached.settled_to == 3


def test_the_offset_is_the_lowest_that_is_not_settled() -> None:
    settling = Settling(10, 20, 40, 50, 70, 100)
    by_offset = {batch.messages[0].queue_offset: batch for batch in settling.batches}

    steps = []
    for offset in (20, 10, 50, 100, 40, 70):
        settling.run(by_offset[offset], None)  # type: ignore[index]
        steps.append(settling.cached.settled_to)

    assert steps == [10, 40, 40, 40, 70, 101]


def test_what_fails_is_sent_back_and_settled_when_the_broker_has_it() -> None:
    settling = Settling(1)

    ask = settling.ask(settling.batches[0], ValueError("no"))

    assert (ask.queue, ask.message.queue_offset, ask.delay_level, ask.tries_max) == (
        QUEUE,
        1,
        0,
        16,
    )
    assert "no" in ask.reason
    assert (settling.cached.settled_to, settling.settling.is_busy) == (1, True)
    settling.settling.sent_back(ask, 0)
    assert (settling.cached.settled_to, settling.settling.is_busy) == (2, False)


@pytest.mark.parametrize(
    ("result", "level"),
    [(Retry(delay_level=5), 5), (Retry(delay_level=-1), -1), (DeadLetter(), -1)],
)
def test_the_listener_chooses_the_delay_level(result: object, level: int) -> None:
    settling = Settling(1)

    assert settling.ask(settling.batches[0], result).delay_level == level


def test_an_ack_sends_back_what_comes_after_it() -> None:
    settling = Settling(1, 2, 3, 4, batch_max=4)

    asks = settling.run(settling.batches[0], Ack(up_to=1))

    assert [ask.message.queue_offset for ask in asks if isinstance(ask, SendBack)] == [3, 4]
    assert settling.cached.settled_to == 3


def test_each_message_may_have_its_own_result() -> None:
    settling = Settling(1, 2, 3, batch_max=3)

    (ask,) = settling.run(settling.batches[0], [None, Retry(2), None])

    assert isinstance(ask, SendBack)
    assert (ask.message.queue_offset, ask.delay_level) == (2, 2)
    assert settling.cached.settled_to == 2
    settling.settling.sent_back(ask, 0)
    assert settling.cached.settled_to == 4


def test_in_broadcasting_what_fails_is_dropped_with_a_warning() -> None:
    settling = Settling(1, is_broadcasting=True)

    (report,) = settling.run(settling.batches[0], ValueError("no"))

    assert isinstance(report, ReportEvent)
    assert "dropped" in report.text
    assert "no" in report.text
    assert settling.cached.settled_to == 2


# Send-backs that fail


def test_a_message_that_is_not_taken_back_goes_to_the_retry_topic_as_a_copy() -> None:
    settling = Settling(1)
    ask = settling.ask(settling.batches[0], Retry(delay_level=4))

    copy = settling.copy(ask)

    assert (copy.ask, copy.topic) == (ask, "%RETRY%billing")
    assert (copy.properties["DELAY"], copy.properties["RETRY_TOPIC"]) == ("4", "orders")
    assert settling.cached.settled_to == 1
    settling.settling.sent_back(copy.ask, 0)
    assert settling.cached.settled_to == 2


def test_a_message_that_nobody_takes_comes_again_after_five_seconds() -> None:
    settling = Settling(1)
    copy = settling.copy(settling.ask(settling.batches[0], Retry()))

    reports = settling.settling.copy_failed(copy.ask, "all gone", 100)

    assert kinds(reports) == [ReportEvent, ReportEvent]
    assert settling.settling.next_due_ms() == 100 + AGAIN_MS == 5_100
    assert settling.settling.tick(5_099) == []
    (batch,) = settling.settling.tick(5_100)
    assert isinstance(batch, Deliver)
    assert batch.messages[0].reconsume_times == 1
    assert settling.settling.next_due_ms() is None
    assert settling.run(batch, None) == []
    assert settling.cached.settled_to == 2


def test_in_groups_with_locks_a_copy_would_be_a_dead_letter_so_there_is_none() -> None:
    settling = Settling(1, may_copy=False)
    ask = settling.ask(settling.batches[0], Retry())

    reports = settling.settling.send_back_failed(ask, "gone", 0)

    assert kinds(reports) == [ReportEvent, ReportEvent]
    assert settling.settling.next_due_ms() == AGAIN_MS


def test_a_dead_letter_is_copied_even_there() -> None:
    settling = Settling(1, may_copy=False)

    copy = settling.copy(settling.ask(settling.batches[0], DeadLetter("bad")))

    assert int(copy.properties["RECONSUME_TIME"]) > int(copy.properties["MAX_RECONSUME_TIMES"])


def test_an_answer_to_an_old_question_does_nothing() -> None:
    settling = Settling(1)
    ask = settling.ask(settling.batches[0], Retry())
    settling.settling.sent_back(ask, 0)

    assert settling.settling.send_back_failed(ask, "late", 0) == []
    assert settling.settling.copy_failed(ask, "late", 0) == []
    settling.settling.sent_back(ask, 0)
    assert settling.settling.next_due_ms() is None


# Listeners that take too long


def overdue(*offsets: int, **rules: Any) -> Settling:
    settling = Settling(*offsets, **{"batch_max": 64, **rules})
    settling.settling.running.start(settling.batches[0], 0)
    return settling


def test_a_message_over_the_consume_timeout_is_sent_back_once() -> None:
    settling = overdue(1)
    assert settling.settling.expire(999) == []

    (ask,) = settling.settling.expire(1_000)

    assert isinstance(ask, SendBack)
    assert (ask.delay_level, ask.reason) == (3, "its listener runs for 1000 ms")
    assert settling.settling.expire(1_000) == []
    settling.settling.sent_back(ask, 1_100)
    assert settling.cached.settled_to == 2
    assert settling.settling.expire(9_000) == []


@pytest.mark.parametrize("result", [None, Retry()])
@pytest.mark.parametrize("is_taken", [True, False])
def test_what_its_listener_says_in_the_end_does_not_count(result: object, is_taken: bool) -> None:
    settling = overdue(1)
    (ask,) = settling.settling.expire(1_000)
    assert isinstance(ask, SendBack)
    if is_taken:
        settling.settling.sent_back(ask, 1_100)

    assert settling.run(settling.batches[0], result, 1_200) == []
    assert settling.cached.settled_to == (2 if is_taken else 1)


def test_a_message_that_is_not_taken_back_while_its_listener_runs_is_tried_at_the_next_look() -> (
    None
):
    settling = overdue(1)
    (ask,) = settling.settling.expire(1_000)
    assert isinstance(ask, SendBack)

    settling.settling.copy_failed(ask, "gone", 1_500)

    assert settling.settling.next_due_ms() is None
    assert kinds(settling.settling.expire(2_000)) == [SendBack]


def test_at_most_16_messages_are_sent_back_at_one_look() -> None:
    settling = overdue(*range(40))

    assert len(settling.settling.expire(1_000)) == EXPIRED_MAX == 16
    assert len(settling.settling.expire(1_000)) == 16
    assert len(settling.settling.expire(1_000)) == 8


def test_in_broadcasting_nothing_is_sent_back() -> None:
    assert overdue(1, is_broadcasting=True).settling.expire(9_000) == []


def test_a_batch_beside_one_that_is_sent_back_is_looked_at_closely() -> None:
    settling = Settling(1, 2)
    settling.ask(settling.batches[0], Retry())

    assert not settling.settling.consumed_all(settling.batches[1])
    assert settling.settling.sending_back == 1
    assert settling.settling.next_batch() is None


def test_batches_that_end_together_are_settled_together() -> None:
    settling = Settling(1, 2, 3)
    first, second, third = settling.batches
    for batch in settling.batches:
        settling.settling.running.start(batch, 0)

    assert not settling.settling.consumed_all_of([first, third])
    assert list(settling.settling.running) == [second]
    assert (settling.cached.count, settling.cached.settled_to) == (1, 2)
    assert settling.cached.size_bytes == sum(len(each.body) for each in second.messages)

    settling.ask(second, Retry())

    assert settling.settling.consumed_all_of([second]) == [second]  # one by one, then
