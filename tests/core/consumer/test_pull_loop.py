"""A queue is pulled by one request at a time, and each thing against a pull has its own delay."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from flintmq.core.bad_record_rule import broken_frame
from flintmq.core.consumer.process_queue import ProcessQueue
from flintmq.core.consumer.pull_loop import (
    IDLE_MS_MAX,
    QUICK_MAX,
    QUICK_MS,
    WARN_EVERY,
    Awaiting,
    CacheLimits,
    Gate,
    PullLoop,
    PullWaiting,
    Reason,
)
from flintmq.core.group.actions import PULL_SUSPEND_MS, PULL_TIMEOUT_MS, ReportEvent
from flintmq.core.group.consumer_settings import MIB, ConsumerSettings
from flintmq.core.group.pull_answers import (
    MessagesFound,
    NoneMatched,
    NoNewMessage,
    PullAnswer,
    Unreadable,
)
from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.core.reading.pull_request import Pull
from flintmq.errors import BrokerRefused, FlintError, MalformedRecord, Unreachable
from flintmq.model.bad_record import BadRecord
from flintmq.model.queue import QueueOffset
from support.core.messages import QUEUE, offsets_of, received, several

ALL = TopicSubscription("orders")


class Pulling:
    """A loop, its cache, and what came of it."""

    def __init__(self, start: int = 7, *, ordered: bool = False, **settings: Any) -> None:
        self.settings = ConsumerSettings(**{"group": "billing", **settings})
        self.cached = ProcessQueue()
        limits = CacheLimits.of(self.settings, 1, ordered=ordered)
        self.loop = PullLoop(QUEUE, QueueOffset(start), self.cached, self.settings, limits, 0)
        self.reports: list[ReportEvent] = []
        self.bad: Sequence[BadRecord] = ()

    def look(self, now_ms: int = 0, **gate: Any) -> Pull | None:
        found = self.loop.next_pull(Gate(**{"subscription": ALL, **gate}), now_ms)
        self.reports += [each for each in found if isinstance(each, ReportEvent)]
        pulls = [each for each in found if isinstance(each, Pull)]
        assert len(pulls) <= 1
        return pulls[0] if pulls else None

    def pulled(self, **gate: Any) -> Pull:
        pull = self.look(**gate)
        assert pull is not None
        return pull

    def answer(self, pull: Pull, answer: PullAnswer, now_ms: int = 0) -> list[int]:
        messages, odd, self.bad = self.loop.answered(pull, answer, now_ms)
        self.reports += odd
        return offsets_of(messages)

    def fail(self, error: FlintError, now_ms: int = 0) -> None:
        self.reports += self.loop.failed(self.pulled(), error, now_ms)

    @property
    def waits(self) -> tuple[Reason, int]:
        assert isinstance(self.loop.state, PullWaiting)
        return self.loop.state.reason, self.loop.state.until_ms


def at(offset: int) -> QueueOffset:
    return QueueOffset(offset)


# Pulls


def test_a_pull_says_where_how_much_and_how_long() -> None:
    pull = Pulling().pulled(sub_version=5, commit_offset=at(3))

    assert (pull.queue, pull.offset, pull.count_max, pull.bytes_max) == (QUEUE, 7, 32, 262_144)
    assert (pull.suspend_ms, pull.timeout_ms) == (15_000, 30_000)
    assert (PULL_SUSPEND_MS, PULL_TIMEOUT_MS) == (15_000, 30_000)
    assert (pull.commit_offset, pull.sub_version, pull.broker_id) == (3, 5, 0)
    assert not pull.sends_subscription


def test_one_pull_at_a_time() -> None:
    pulling = Pulling()
    pull = pulling.pulled()

    assert pulling.loop.due_ms is None
    with pytest.raises(AssertionError, match="one pull at a time"):
        pulling.look()
    assert pulling.loop.owns(pull)
    assert not pulling.loop.owns(Pulling().pulled())


# What stands against a pull


def test_a_paused_queue_is_looked_at_again_after_a_second() -> None:
    pulling = Pulling()

    assert pulling.look(5, is_paused=True) is None
    assert pulling.waits == (Reason.PAUSED, 1_005)


def test_more_than_1000_messages_wait_50_ms() -> None:
    pulling = Pulling()
    pulling.cached.put_messages(several(*range(1_000)))
    assert pulling.look() is not None

    pulling = Pulling()
    pulling.cached.put_messages(several(*range(1_001)))

    assert pulling.look(3) is None
    assert pulling.waits == (Reason.COUNT, 53)


def test_more_than_100_mib_wait_50_ms() -> None:
    pulling = Pulling()
    pulling.cached.put_messages([received(1)])
    pulling.cached.size_bytes = 100 * MIB
    assert pulling.look() is not None

    pulling = Pulling()
    pulling.cached.size_bytes = 100 * MIB + 1

    assert pulling.look() is None
    assert pulling.waits == (Reason.SIZE, 50)


def test_offsets_more_than_2000_apart_wait_50_ms() -> None:
    pulling = Pulling()
    pulling.cached.put_messages(several(0, 2_000))
    assert pulling.look() is not None

    pulling = Pulling()
    pulling.cached.put_messages(several(0, 2_001))

    assert pulling.look() is None
    assert pulling.waits == (Reason.SPAN, 50)


def test_the_span_does_not_matter_in_order() -> None:
    pulling = Pulling(ordered=True)
    pulling.cached.put_messages(several(0, 9_999))

    assert pulling.look() is not None


def test_a_queue_without_its_lock_or_subscription_waits_as_after_an_error() -> None:
    pulling = Pulling()

    assert pulling.look(is_locked=False) is None
    assert pulling.waits == (Reason.NOT_LOCKED, 3_000)
    pulling = Pulling(pull_error_delay_ms=1_000)
    assert pulling.look(subscription=None) is None
    assert pulling.waits == (Reason.NO_SUBSCRIPTION, 1_000)


def test_a_topic_s_limits_are_shared_out_among_its_queues() -> None:
    settings = ConsumerSettings(group="g", topic_count_max=100, topic_mib_max=10)

    assert CacheLimits.of(settings, 3, ordered=False) == CacheLimits(33, 3 * MIB, 2_000)
    assert CacheLimits.of(settings, 1_000, ordered=True) == CacheLimits(1, MIB, None)
    assert CacheLimits.of(ConsumerSettings(group="g"), 3, ordered=False) == CacheLimits(
        1_000, 100 * MIB, 2_000
    )


def test_a_limit_is_reported_the_first_and_every_thousandth_time() -> None:
    pulling = Pulling(queue_count_max=1)
    pulling.cached.put_messages(several(10, 12))

    for _ in range(WARN_EVERY):
        pulling.look()
    assert len(pulling.reports) == 1
    pulling.look()

    assert len(pulling.reports) == 2
    first, second = (report.text for report in pulling.reports)
    assert "min 10, max 12, count 2, size 10 bytes, times 1" in first
    assert "times 1001" in second
    assert pulling.reports[0].level == logging.WARNING


def test_a_full_cache_has_room_again_when_half_of_it_is_settled() -> None:
    pulling = Pulling(queue_count_max=4)
    pulling.cached.put_messages(several(1, 2, 3, 4, 5))
    pulling.look()
    assert pulling.loop.is_full

    pulling.cached.remove(several(1, 2))
    assert not pulling.loop.has_room_again
    pulling.cached.remove(several(3))
    assert pulling.loop.has_room_again


@pytest.mark.parametrize(
    ("limits", "has_room"), [({"queue_mib_max": 1}, False), ({"span_max": 10}, False), ({}, True)]
)
def test_room_is_counted_in_bytes_and_span_too(limits: dict[str, Any], has_room: bool) -> None:
    pulling = Pulling(**limits)
    pulling.cached.put_messages(several(0, 6))
    pulling.cached.size_bytes = MIB * 3 // 4

    assert pulling.loop.has_room_again is has_room


def test_a_reason_that_is_gone_is_waited_out_no_longer() -> None:
    pulling = Pulling()
    pulling.look(is_paused=True)

    pulling.loop.retry(Reason.NOT_LOCKED, 5)
    assert pulling.waits == (Reason.PAUSED, 1_000)
    pulling.loop.retry(Reason.PAUSED, 5)
    assert pulling.waits == (Reason.READY, 5)


# Answers


def test_what_was_found_is_taken_and_the_next_pull_is_due_at_once() -> None:
    pulling = Pulling()

    found = pulling.answer(pulling.pulled(), MessagesFound(at(9), messages=several(7, 8)), 4)

    assert found == [7, 8]
    assert (pulling.loop.next_offset, pulling.waits) == (9, (Reason.READY, 4))


def test_a_pull_interval_is_kept_after_messages_only() -> None:
    pulling = Pulling(pull_interval_ms=100)

    pulling.answer(pulling.pulled(), MessagesFound(at(9), messages=several(7, 8)), 4)
    assert pulling.waits == (Reason.INTERVAL, 104)
    pulling.loop.state = PullWaiting(Reason.READY, 0)
    pulling.answer(pulling.pulled(), NoNewMessage(at(9)), 4)
    assert pulling.waits == (Reason.READY, 4)


@pytest.mark.parametrize("kind", [NoNewMessage, NoneMatched])
def test_an_answer_without_messages_moves_on(kind: type[NoNewMessage | NoneMatched]) -> None:
    pulling = Pulling()

    assert pulling.answer(pulling.pulled(), kind(at(50))) == []
    assert pulling.loop.next_offset == 50
    assert pulling.reports == []


def test_a_broker_that_keeps_no_pull_is_not_asked_at_full_speed() -> None:
    pulling = Pulling()
    for _ in range(QUICK_MAX):
        pulling.answer(pulling.pulled(), NoNewMessage(at(7)), 5)
        assert pulling.waits == (Reason.READY, 5)
        pulling.loop.state = PullWaiting(Reason.READY, 0)

    pulling.answer(pulling.pulled(), NoNewMessage(at(7)), 5)
    assert pulling.waits == (Reason.INTERVAL, 5 + QUICK_MS)


@pytest.mark.parametrize(
    ("answer", "now_ms"),
    [
        (NoNewMessage(at(7)), QUICK_MS),
        (NoNewMessage(at(8)), 5),
        (MessagesFound(at(8), messages=several(7)), 5),
    ],
    ids=["kept for a while", "leads on", "a message"],
)
def test_what_a_broker_kept_or_led_on_is_asked_again_at_once(
    answer: NoNewMessage | MessagesFound, now_ms: int
) -> None:
    pulling = Pulling()
    for _ in range(QUICK_MAX):
        pulling.answer(pulling.pulled(), NoNewMessage(at(7)), 5)
        pulling.loop.state = PullWaiting(Reason.READY, 0)
    pulling.answer(pulling.pulled(), answer, now_ms)
    pulling.loop.state = PullWaiting(Reason.READY, 0)

    pulling.answer(pulling.pulled(), NoNewMessage(at(7)), 5)

    assert pulling.waits == (Reason.READY, 5)


def test_the_suggested_broker_is_asked_next_and_the_master_after_a_failure() -> None:
    pulling = Pulling()
    pulling.answer(pulling.pulled(), NoNewMessage(at(7), broker_id=1))

    pull = pulling.pulled()
    assert pull.broker_id == 1
    pulling.loop.failed(pull, Unreachable("b", "gone"), 0)
    pulling.loop.state = PullWaiting(Reason.READY, 0)

    assert pulling.pulled().broker_id == 0


def test_tags_are_compared_again_by_their_text() -> None:
    """'Aa' and 'BB' have one hash, so the broker cannot tell them apart."""
    pulling = Pulling()
    pull = pulling.pulled(subscription=TopicSubscription("orders", "Aa"))
    messages = [received(7, tags="Aa"), received(8, tags="BB"), received(9)]

    assert pulling.answer(pull, MessagesFound(at(10), messages=messages)) == [7]


def test_sql_is_not_compared_again() -> None:
    pulling = Pulling()
    pull = pulling.pulled(subscription=TopicSubscription("orders", sql="a = 1"))

    assert pulling.answer(pull, MessagesFound(at(8), messages=several(7))) == [7]


def test_messages_before_the_requested_offset_are_dropped_and_told_with_both_numbers() -> None:
    pulling = Pulling(start=7)

    found = pulling.answer(pulling.pulled(), MessagesFound(at(9), messages=several(5, 6, 7, 8)))

    assert found == [7, 8]
    assert pulling.loop.next_offset == 9
    assert "asked from 7, the answer lies before it, at 5" in pulling.reports[0].text


@pytest.mark.parametrize(
    ("messages", "next_offset", "found"), [([5, 6], 7, []), ([7, 8], 9, [7, 8]), ([], 7, [])]
)
def test_an_answer_that_leads_nowhere_is_not_asked_for_again_at_once(
    messages: list[int], next_offset: int, found: list[int]
) -> None:
    pulling = Pulling(start=7)

    answer = MessagesFound(at(7), messages=several(*messages))

    assert pulling.answer(pulling.pulled(), answer) == found
    assert (pulling.loop.next_offset, pulling.waits) == (next_offset, (Reason.FAILED, 3_000))
    assert len(pulling.reports) == 1


def test_an_empty_answer_that_leads_back_is_followed_and_told() -> None:
    pulling = Pulling(start=7)

    pulling.answer(pulling.pulled(), NoneMatched(at(3)))

    assert pulling.loop.next_offset == 3
    assert "asked from 7, the answer lies before it, at 3" in pulling.reports[0].text


def test_a_slave_that_does_not_have_the_offset_is_not_asked_again_and_again_at_full_speed() -> None:
    """Slaves of both releases answer 20 with the offset that was asked for."""
    pulling = Pulling(start=7)

    assert pulling.answer(pulling.pulled(), NoneMatched(at(7))) == []

    assert (pulling.loop.next_offset, pulling.waits) == (7, (Reason.FAILED, 3_000))
    assert pulling.reports == []


def test_records_that_cannot_be_read_are_told() -> None:
    pulling = Pulling()
    answer = MessagesFound(at(8), messages=several(7), fault=MalformedRecord(99, "bad magic"))

    assert pulling.answer(pulling.pulled(), answer) == [7]
    assert "bad magic" in pulling.reports[0].text


# Records that cannot be decoded


def bad(offset: int, **more: Any) -> BadRecord:
    known = broken_frame(QUEUE, at(offset), "no zlib stream")
    return replace(known, **{"raw": b"record", "log_offset": 5, **more})


@pytest.mark.parametrize("rule", ["dead_letter", "skip"])
def test_the_queue_goes_on_behind_bad_records_and_each_is_told_once(rule: str) -> None:
    pulling = Pulling(on_bad_record=rule)
    records = [bad(7), bad(9)]

    found = pulling.answer(
        pulling.pulled(), MessagesFound(at(11), messages=several(8, 10), bad=records)
    )

    assert found == [8, 10]
    assert pulling.bad == records
    assert (pulling.loop.next_offset, pulling.loop.bad_count) == (11, 2)
    assert [report.kind for report in pulling.reports] == ["bad record"] * 2
    assert [report.level for report in pulling.reports] == [logging.WARNING] * 2
    assert "orders/broker-a/0 at 7 cannot be decoded: no zlib stream" in pulling.reports[0].text
    assert pulling.look() is not None


def test_a_queue_that_stops_gives_what_is_before_and_pulls_no_more() -> None:
    pulling = Pulling(on_bad_record="stop")
    answer = MessagesFound(at(11), messages=several(7, 9, 10), bad=[bad(8)])

    assert pulling.answer(pulling.pulled(), answer) == [7]
    assert pulling.bad == []
    assert pulling.loop.next_offset == 8
    assert pulling.look() is None
    assert pulling.waits[0] is Reason.BAD_RECORD
    assert pulling.reports[0].level == logging.ERROR
    assert "move its offset to 9" in pulling.reports[0].text


def test_a_missing_package_stops_a_queue_that_would_skip_and_loses_nothing() -> None:
    pulling = Pulling(on_bad_record="skip")

    pulling.answer(
        pulling.pulled(), MessagesFound(at(9), messages=several(8), bad=[bad(7, missing="lz4")])
    )

    assert pulling.loop.next_offset == 7
    assert pulling.look() is None
    assert "install lz4" in pulling.reports[0].text


def test_bad_records_before_the_offset_that_was_asked_are_dropped() -> None:
    pulling = Pulling()

    assert pulling.answer(
        pulling.pulled(), MessagesFound(at(9), messages=several(8), bad=[bad(6)])
    ) == [8]
    assert pulling.bad == []
    assert pulling.loop.bad_count == 0


def test_an_answer_that_leads_nowhere_but_has_a_bad_record_leads_behind_it() -> None:
    pulling = Pulling()

    pulling.answer(pulling.pulled(), MessagesFound(at(7), messages=[], bad=[bad(7)]))

    assert pulling.loop.next_offset == 8


def test_an_answer_without_an_intact_frame_is_pulled_again_and_then_given_up() -> None:
    pulling = Pulling(pull_error_delay_ms=10)
    broken = Unreadable(at(39), fault=MalformedRecord(0, "bad magic"))
    for number in range(2):
        pulling.answer(pulling.pulled(), broken, number)
        assert pulling.waits == (Reason.FAILED, number + 10)
        assert pulling.loop.next_offset == 7

    pulling.answer(pulling.pulled(), broken, 2)

    assert [one.queue_offset for one in pulling.bad] == [7]
    assert (pulling.loop.next_offset, pulling.loop.bad_count) == (8, 1)
    assert pulling.waits == (Reason.READY, 2)
    assert "skipped, the broker cannot copy it" in pulling.reports[-1].text


def test_answers_without_a_frame_count_only_in_a_row() -> None:
    pulling = Pulling()
    broken = Unreadable(at(39), fault=MalformedRecord(0, "bad magic"))
    for _ in range(2):
        pulling.answer(pulling.pulled(), broken)
    pulling.answer(pulling.pulled(), MessagesFound(at(8), messages=several(7)))

    pulling.answer(pulling.pulled(), broken)

    assert pulling.loop.next_offset == 8
    assert pulling.loop.bad_count == 0


# Failures


def test_a_failed_pull_is_tried_again_after_three_seconds() -> None:
    pulling = Pulling()

    pulling.fail(Unreachable("broker", "reset"), 10)

    assert pulling.waits == (Reason.FAILED, 3_010)
    assert "broker: reset" in pulling.reports[0].text
    assert pulling.loop.next_offset == 7


def test_a_broker_that_limits_the_flow_is_asked_again_after_20_ms() -> None:
    pulling = Pulling()

    pulling.fail(BrokerRefused(215, "slow down"), 10)

    assert pulling.waits == (Reason.BROKER_BUSY, 30)
    assert pulling.reports == []


def test_any_other_refusal_is_a_failure() -> None:
    pulling = Pulling()

    pulling.fail(BrokerRefused(16, "no permission"))

    assert pulling.waits == (Reason.FAILED, 3_000)


def test_an_answer_that_never_comes_is_given_up_after_two_minutes() -> None:
    pulling = Pulling()
    assert not pulling.loop.is_lost(IDLE_MS_MAX)

    pulling.pulled()

    assert isinstance(pulling.loop.state, Awaiting)
    assert not pulling.loop.is_lost(119_999)
    assert pulling.loop.is_lost(120_000)


def test_a_clock_that_is_moved_makes_no_answer_late() -> None:
    pulling = Pulling()
    pull = pulling.pulled()

    pulling.loop.carry(3_600_000)

    assert not pulling.loop.is_lost(3_600_000 + IDLE_MS_MAX - 1)
    assert pulling.loop.is_lost(3_600_000 + IDLE_MS_MAX)
    assert pulling.answer(pull, MessagesFound(at(9), messages=several(7, 8)), 3_600_000) == [7, 8]
