"""A member that pops settles every message once: acknowledged, hidden for its delay, or a dead
letter; what it cannot settle it leaves to the broker, and says so.
"""

from __future__ import annotations

from typing import Any

import pytest

from flintmq.core.bad_record_rule import broken_frame
from flintmq.core.group.actions import (
    AskAssignment,
    AskMembers,
    AskStartOffset,
    CommitOffset,
    Deliver,
    QueuesChanged,
    SendBack,
    Unregister,
)
from flintmq.core.group.listener_results import Ack, DeadLetter, Retry
from flintmq.core.group.rebalance import Assigned
from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.core.pop.pop_request import START_AT_FIRST, Pop, PopFound, PoppedBad
from flintmq.core.pop.popped_message import AckPopped, HidePopped, HideWhy
from flintmq.core.pop.popped_queue import REST_MS
from flintmq.core.pop.settle_popped import RENEWALS_MAX
from flintmq.core.pop.simple_actions import BadPopped
from flintmq.core.reading.pull_request import Pull
from flintmq.errors import BrokerRefused, InvalidSetting, Unreachable
from flintmq.model.group import ConsumeFromWhere, MessageModel
from flintmq.model.queue import PopSource, QueueOffset
from flintmq.protocol.codes import ResponseCode
from support.core.consuming import Q0, QUEUES, Consuming
from support.core.messages import offsets_of
from support.core.popped import found, newer, popped

ANY = PopSource("orders", "broker-a")


def popping(*topics: TopicSubscription, **settings: Any) -> Consuming:
    """A member that was assigned every queue of its broker, and pops."""
    made = Consuming(*topics, **{"mode": "pop", **settings}).introduced()
    return assign(made, [Assigned(ANY, True)])


def assign(made: Consuming, given: list[Assigned] | None) -> Consuming:
    for ask in made.take(AskAssignment):
        made.do(made.machine.assigned(ask, given, made.now_ms))
    return made


def answer(made: Consuming, *offsets: int, times: int = 0) -> list[Deliver]:
    pop = made.one(Pop)
    made.do(made.machine.popped(pop, found(pop, *offsets, times=times), made.now_ms))
    return made.take(Deliver)


def start(made: Consuming, batch: Deliver) -> None:
    assert made.machine.started(batch, made.now_ms)


def end(made: Consuming, batch: Deliver, result: object = None) -> None:
    start(made, batch)
    made.do(made.machine.consumed(batch, result, made.now_ms))


def hide(made: Consuming) -> HidePopped:
    """The message that is hidden anew, done."""
    ask = made.one(HidePopped)
    handle = newer(ask.entry.handle, made.now_ms, ask.invisible_ms)
    made.do(made.machine.hidden(ask, handle, made.now_ms))
    return ask


def unacked(made: Consuming) -> int:
    return sum(place.unacked_count for place in made.machine.status().pops)


# What is popped


def test_the_broker_is_asked_for_the_assignment_and_then_popped() -> None:
    made = popping(start_from=ConsumeFromWhere.FIRST_OFFSET)

    pop = made.one(Pop)

    assert (pop.source, pop.count_max, pop.invisible_ms) == (ANY, 32, 60_000)
    assert (pop.hold_ms, pop.start_mode) == (15_000, START_AT_FIRST)
    assert made.take(AskStartOffset) == []


@pytest.mark.parametrize("given", [None, [Assigned(PopSource("orders", "broker-a", 0), False)]])
def test_a_member_that_always_pops_does_so_whatever_the_broker_is_set_to(
    given: list[Assigned] | None,
) -> None:
    made = assign(Consuming(mode="pop").introduced(), given)

    assert made.one(Pop).source == ANY


def test_the_broker_s_mode_is_followed_and_what_was_begun_ends_first() -> None:
    made = Consuming(mode="broker").introduced()
    assign(made, [Assigned(PopSource("orders", "broker-a", 0), False)])
    made.located()
    (batch,) = made.found(0)
    made.take(Pull)
    start(made, batch)

    assign(made.to(20_000), [Assigned(ANY, True)])
    assert made.take(Pop) == []
    made.do(made.machine.consumed(batch, None, made.now_ms))
    (commit,) = [each for each in made.take(CommitOffset) if each.is_urgent]
    made.do(made.machine.committed(commit, made.now_ms))
    assign(made, [Assigned(ANY, True)])
    pop = made.one(Pop)
    assert (pop.source, made.machine.status().queues) == (ANY, ())

    back = [Assigned(PopSource("orders", "broker-a", 1), False)]
    assign(made.to(40_000), back)
    assert made.take(AskStartOffset) == []
    made.do(made.machine.popped(pop, PopFound(), made.now_ms))
    assign(made, back)
    assert made.one(AskStartOffset).queue == QUEUES[1]
    assert made.machine.status().pops == ()


def test_a_broker_that_says_nothing_changes_nothing() -> None:
    made = Consuming(mode="broker").introduced()

    assign(made, None)
    assert [*made.take(Pop), *made.take(AskStartOffset)] == []
    assign(made.to(1_000), [Assigned(ANY, True)])
    assign(made.to(21_000), None)

    assert [place.is_ours for place in made.machine.status().pops] == [True]


def test_ordered_topics_and_retries_are_shared_out_by_the_members() -> None:
    ordered = TopicSubscription("orders", ordered=True)
    made = Consuming(ordered, mode="broker").introduced()

    assert made.take(AskAssignment) == []
    assert [ask.topic for ask in made.take(AskMembers)] == ["orders"]


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"mode": "push"}, "mode"),
        ({"mode": "pop", "ordered": True}, "mode"),
        ({"mode": "pop", "model": MessageModel.BROADCASTING}, "mode"),
        ({"mode": "pop", "start_from": ConsumeFromWhere.TIMESTAMP}, "start_from"),
        ({"mode": "broker", "on_bad_record": "stop"}, "on_bad_record"),
        ({"mode": "pop", "invisible_ms": 1}, "invisible_ms"),
        ({"mode": "pop", "unacked_max": 0}, "unacked_max"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        Consuming(**settings)

    assert refused.value.setting == name


def test_a_topic_that_wants_order_cannot_be_popped() -> None:
    with pytest.raises(InvalidSetting, match="ordered"):
        Consuming(TopicSubscription("orders", ordered=True), mode="pop")


def test_the_next_pop_follows_at_once_until_too_many_are_not_acknowledged() -> None:
    made = popping(unacked_max=40)

    answer(made, *range(32))
    assert made.take(Pop)[0].count_max == 8


def test_nothing_is_popped_at_the_limit_and_again_when_there_is_room() -> None:
    made = popping(unacked_max=2)
    first, _ = answer(made, 0, 1)
    assert made.take(Pop) == []

    end(made, first)
    made.do(made.machine.acked(made.one(AckPopped), [None], 0))

    assert made.one(Pop).count_max == 1


def test_a_pop_that_fails_is_made_again_after_a_rest() -> None:
    made = popping()

    made.do(made.machine.pop_failed(made.one(Pop), Unreachable("a", "away"), 0))
    made.to(REST_MS - 1)
    assert made.take(Pop) == []
    assert [place.trouble for place in made.machine.status().pops] == ["a: away"]
    made.to(REST_MS)

    assert len(made.take(Pop)) == 1


def test_a_busy_broker_is_asked_again_soon() -> None:
    made = popping()
    busy = BrokerRefused(int(ResponseCode.FLOW_CONTROL), "busy", "a")

    made.do(made.machine.pop_failed(made.one(Pop), busy, 0))
    made.to(20)

    assert len(made.take(Pop)) == 1


def test_an_empty_answer_is_followed_by_the_next_pop() -> None:
    made = popping()
    pop = made.one(Pop)

    made.to(14_950)
    made.do(made.machine.popped(pop, PopFound(), made.now_ms))

    assert len(made.take(Pop)) == 1


def test_a_pause_stops_pops_and_a_resume_begins_them() -> None:
    made = popping()
    made.machine.pause()

    answer(made, 0)
    assert made.to(60).take(Pop) == []
    made.do(made.machine.resume(made.now_ms))

    assert len(made.take(Pop)) == 1


# How messages are settled


def test_consumed_messages_are_acknowledged_together() -> None:
    made = popping(batch_max=3)
    (batch,) = answer(made, 0, 1, 2)

    end(made, batch)
    ack = made.one(AckPopped)
    assert (ack.topic, ack.broker) == ("orders", "broker-a")
    assert [entry.handle.queue_offset for entry in ack.entries] == [0, 1, 2]
    assert unacked(made) == 3
    made.do(made.machine.acked(ack, [None] * 3, 0))

    assert unacked(made) == 0


@pytest.mark.parametrize(
    ("times", "result", "hidden_ms"),
    [
        (0, ValueError("no"), 10_000),
        (1, Retry(), 30_000),
        (3, Retry(), 120_000),
        (15, Retry(), 7_200_000),
        (0, Retry(delay_level=1), 1_000),
        (2, Retry(delay_level=5), 60_000),
    ],
)
def test_failed_messages_are_hidden_for_rocketmq_s_delays(
    times: int, result: object, hidden_ms: int
) -> None:
    made = popping()
    (batch,) = answer(made, 0, times=times)

    end(made, batch, result)

    ask = hide(made)
    assert (ask.invisible_ms, ask.why) == (hidden_ms, HideWhy.RETRY)
    assert unacked(made) == 0
    assert any(f"try {times + 2} of 17" in text for text in made.texts())


def test_a_part_of_a_batch_may_fail() -> None:
    made = popping(batch_max=3)
    (batch,) = answer(made, 0, 1, 2)

    end(made, batch, Ack(up_to=0))

    assert [e.handle.queue_offset for e in made.one(AckPopped).entries] == [0]
    assert [ask.entry.handle.queue_offset for ask in made.take(HidePopped)] == [1, 2]


@pytest.mark.parametrize(("times", "result"), [(0, DeadLetter("bad")), (3, ValueError("bad"))])
def test_what_is_given_up_is_a_dead_letter_first_and_then_acknowledged(
    times: int, result: object
) -> None:
    made = popping(retry_max=3)
    (batch,) = answer(made, 0, times=times)

    end(made, batch, result)
    ask = made.one(SendBack)
    assert (ask.delay_level, ask.queue) == (-1, Q0)
    assert "bad" in ask.reason
    assert made.take(AckPopped) == []
    made.do(made.machine.sent_back(ask, 0))

    assert len(made.one(AckPopped).entries) == 1


def test_a_dead_letter_that_no_broker_takes_comes_again() -> None:
    made = popping()
    (batch,) = answer(made, 0)
    end(made, batch, DeadLetter("bad"))

    made.do(made.machine.send_back_failed(made.one(SendBack), "away", 0))

    assert hide(made).invisible_ms == 10_000


def test_a_message_that_ends_its_process_each_time_is_given_up_at_last() -> None:
    made = popping(retry_max=3)

    assert answer(made, 0, times=4) == []

    assert "never settled" in made.one(SendBack).reason


def test_an_acknowledgement_is_tried_again_until_the_message_comes_again() -> None:
    made = popping()
    (batch,) = answer(made, 0)
    end(made, batch)

    for _ in range(3):
        made.do(made.machine.acked(made.one(AckPopped), ["away"], made.now_ms))
        made.to(made.now_ms + 1_000)
    made.do(made.machine.acked(made.one(AckPopped), ["away"], made.now_ms))
    made.now_ms = 60_000
    made.do(made.machine.tick(60_000))

    assert unacked(made) == 0
    assert any("comes again" in text and "away" in text for text in made.texts())


def test_messages_with_the_hash_of_a_wanted_tag_are_acknowledged_unseen() -> None:
    made = popping(TopicSubscription("orders", "Aa"))
    pop = made.one(Pop)
    messages = popped(pop, 0, tags="Aa") + popped(pop, 1, tags="BB")

    made.do(made.machine.popped(pop, PopFound(messages), 0))

    assert offsets_of(made.one(Deliver).messages) == [0]
    assert [e.handle.queue_offset for e in made.one(AckPopped).entries] == [1]


def test_what_a_filter_leaves_out_is_acknowledged() -> None:
    made = popping()
    pop = made.one(Pop)

    made.do(made.machine.popped(pop, PopFound(unwanted=popped(pop, 3)), 0))

    assert [e.handle.queue_offset for e in made.one(AckPopped).entries] == [3]


def test_a_record_that_cannot_be_decoded_is_laid_aside_and_counted() -> None:
    made = popping()
    pop = made.one(Pop)
    bad = PoppedBad(broken_frame(Q0, QueueOffset(4), "torn"), None)

    made.do(made.machine.popped(pop, PopFound(bad=[bad]), 0))

    assert made.one(BadPopped) == BadPopped("orders", bad)
    assert made.machine.status().bad_count == 1


# While listeners run


def test_a_message_is_renewed_while_its_listener_runs_and_settled_by_the_new_receipt() -> None:
    made = popping()
    (batch,) = answer(made, 0)
    start(made, batch)

    renewals = [hide(made.to(now_ms)) for now_ms in (30_000, 60_000, 90_000)]
    made.do(made.machine.consumed(batch, None, made.now_ms))

    assert {(ask.invisible_ms, ask.why) for ask in renewals} == {(60_000, HideWhy.RENEW)}
    (entry,) = made.one(AckPopped).entries
    assert (entry.handle.pop_ms, entry.handle.start_offset) == (90_000, 0)


def test_a_message_that_waits_for_a_listener_is_renewed_too() -> None:
    made = popping()
    (batch,) = answer(made, 0)

    hide(made.to(30_000))
    made.to(59_999)

    assert made.machine.started(batch, 60_001)


def test_a_listener_that_ends_during_a_renewal_is_settled_after_it() -> None:
    made = popping()
    (batch,) = answer(made, 0)
    start(made, batch)
    renewal = made.to(30_000).one(HidePopped)

    made.do(made.machine.consumed(batch, None, 30_000))
    assert made.take(AckPopped) == []
    handle = newer(renewal.entry.handle, 30_001, 60_000)
    made.do(made.machine.hidden(renewal, handle, 30_001))

    (entry,) = made.one(AckPopped).entries
    assert entry.handle.pop_ms == 30_001


def test_a_renewal_that_fails_is_tried_again() -> None:
    made = popping()
    (batch,) = answer(made, 0)
    start(made, batch)

    made.do(made.machine.hide_failed(made.to(30_000).one(HidePopped), "away", 30_000))
    hide(made.to(31_000))

    made.do(made.machine.consumed(batch, None, 31_000))
    assert len(made.take(AckPopped)) == 1


def test_renewals_of_many_messages_take_turns_and_no_acknowledgement_waits_for_its_own() -> None:
    made = popping()
    batches = answer(made, *range(RENEWALS_MAX + 10))
    for batch in batches:
        start(made, batch)

    renewals = made.to(30_000).take(HidePopped)
    assert len(renewals) == RENEWALS_MAX
    made.do(made.machine.consumed(batches[-1], None, 30_001))
    assert len(made.one(AckPopped).entries) == 1, "it waited for its turn"
    seen = [ask.entry for ask in renewals]
    while renewals:
        ask = renewals.pop()
        if len(seen) % 2:
            made.do(made.machine.hide_failed(ask, "away", 30_002))
        else:
            handle = newer(ask.entry.handle, 30_002, ask.invisible_ms)
            made.do(made.machine.hidden(ask, handle, 30_002))
        more = made.take(HidePopped)
        seen += [ask.entry for ask in more]
        renewals += more
    assert len(set(seen)) == len(seen) == RENEWALS_MAX + 9


def test_a_listener_that_runs_too_long_is_not_renewed_and_reported_once() -> None:
    made = popping(consume_timeout_ms=40_000)
    (batch,) = answer(made, 0)
    start(made, batch)

    hide(made.to(30_000))
    made.to(100_000)

    assert made.take(HidePopped) == []
    assert len([text for text in made.texts() if "its listener runs" in text]) == 1
    made.do(made.machine.consumed(batch, None, 100_000))
    assert made.take(AckPopped) == []
    assert unacked(made) == 0


def test_a_batch_with_a_message_that_expired_is_not_begun_and_its_rest_returned() -> None:
    made = popping(batch_max=2)
    (batch,) = answer(made, 0, 1)
    for ask in made.to(30_000).take(HidePopped):
        if ask.entry.handle.queue_offset == 0:
            made.do(made.machine.hide_failed(ask, "away", 30_000))
        else:
            handle = newer(ask.entry.handle, 30_000, 60_000)
            made.do(made.machine.hidden(ask, handle, 30_000))
    for now_ms in range(31_000, 60_000, 1_000):
        for ask in made.to(now_ms).take(HidePopped):
            made.do(made.machine.hide_failed(ask, "away", now_ms))
    hide(made.to(60_000))

    assert not made.machine.started(batch, 61_000)
    made.to(61_001)

    assert [(a.entry.handle.queue_offset, a.why) for a in made.take(HidePopped)] == [
        (1, HideWhy.RETURN)
    ]


# The end


def test_a_stop_returns_what_no_listener_has_begun_and_waits_for_the_others() -> None:
    made = popping()
    running, waiting = answer(made, 0, 1)
    start(made, running)

    made.do(made.machine.stop(0))
    assert not made.machine.started(waiting, 0)
    returned = hide(made)
    assert (returned.entry.handle.queue_offset, returned.invisible_ms) == (1, 0)
    assert made.machine.still_running() == [running]
    assert made.take(Unregister) == []
    made.do(made.machine.consumed(running, None, 0))
    made.do(made.machine.acked(made.one(AckPopped), [None], 0))

    assert len(made.take(Unregister)) == 1


def test_a_stop_that_waits_no_longer_returns_what_listeners_have() -> None:
    made = popping()
    (running,) = answer(made, 0)
    start(made, running)
    made.do(made.machine.stop(0))

    made.do(made.machine.abandon(0))
    assert hide(made).invisible_ms == 0

    assert len(made.take(Unregister)) == 1
    made.do(made.machine.consumed(running, None, 0))
    assert made.take(AckPopped) == []


def test_what_a_pop_brings_after_the_stop_is_returned() -> None:
    made = popping()
    pop = made.one(Pop)
    made.do(made.machine.stop(0))

    made.do(made.machine.popped(pop, found(pop, 5), 0))

    assert made.take(Deliver) == []
    assert hide(made).why is HideWhy.RETURN
    assert made.take(Pop) == []


def test_what_was_popped_is_consumed_after_the_place_is_given_to_another() -> None:
    made = popping(rebalance_interval_ms=1_000)
    (batch,) = answer(made, 0)
    pop = made.one(Pop)

    assign(made.to(1_000), [Assigned(PopSource("orders", "broker-b"), True)])
    other = made.one(Pop)
    made.do(made.machine.popped(pop, found(pop, 1), 1_000))
    (late,) = made.take(Deliver)
    for each in (batch, late):
        end(made, each)
        made.do(made.machine.acked(made.one(AckPopped), [None], 1_000))

    assert other.source.broker == "broker-b"
    assert [place.source.broker for place in made.machine.status().pops] == ["broker-b"]


def test_a_change_of_places_is_told() -> None:
    made = popping()

    assert [change.topic for change in made.take(QueuesChanged)] == ["orders"]
    assign(made.to(20_000), [Assigned(ANY, True)])

    assert made.take(QueuesChanged) == []
