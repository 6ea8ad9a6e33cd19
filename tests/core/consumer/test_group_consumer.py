"""One member of a group does the right thing for everything that can happen to it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from flintmq.core.consumer.group_consumer import Phase
from flintmq.core.group.actions import (
    AskMembers,
    AskStartOffset,
    CommitOffset,
    Deliver,
    QueuesChanged,
    ReportEvent,
    SendBack,
    SendHeartbeat,
    SendToRetry,
    Unregister,
)
from flintmq.core.group.listener_results import Retry
from flintmq.core.group.pull_answers import MessagesFound, NoneMatched, NoNewMessage, OffsetMoved
from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.core.reading.pull_request import Pull
from flintmq.errors import BrokerRefused, Unreachable
from flintmq.model.group import MessageModel
from flintmq.model.queue import QueueOffset, QueueRef
from support.core.consuming import Q0, Q1, QUEUES, WALL_MS, Consuming
from support.core.messages import offsets_of, received

RETRY_QUEUE = QueueRef("%RETRY%billing", "broker-a", 0)


def at(offset: int) -> QueueOffset:
    return QueueOffset(offset)


def commits(consuming: Consuming) -> list[tuple[QueueRef, int]]:
    return [(commit.queue, commit.offset) for commit in consuming.take(CommitOffset)]


# From the start to the first pull


def test_the_brokers_are_told_first_and_nobody_is_asked_before() -> None:
    consuming = Consuming()
    consuming.do(consuming.machine.start(0))
    consuming.do(consuming.machine.route_known("orders", QUEUES, 0))

    heartbeat = consuming.one(SendHeartbeat)

    assert [each.topic for each in heartbeat.section.subscription_data_set] == [
        "orders",
        "%RETRY%billing",
    ]
    assert consuming.take(AskMembers) == []
    consuming.do(consuming.machine.heartbeat_done(heartbeat, 5))
    assert [ask.topic for ask in consuming.take(AskMembers)] == ["orders"]


def test_queues_that_are_ours_are_located_and_pulled() -> None:
    consuming = Consuming().introduced().members("me")

    assert [ask.queue for ask in consuming.actions if isinstance(ask, AskStartOffset)] == QUEUES
    changed = consuming.one(QueuesChanged)
    assert (changed.topic, changed.queues, changed.own) == ("orders", (Q0, Q1), (Q0, Q1))
    consuming.located(7)

    assert [(pull.queue, pull.offset) for pull in consuming.take(Pull)] == [(Q0, 7), (Q1, 7)]


def test_a_changed_share_gives_the_subscription_a_new_version_that_pulls_name_when_it_is_told() -> (
    None
):
    consuming = Consuming().introduced().to(50).members("me").located(7)

    _, pull = consuming.take(Pull)
    assert pull.sub_version == WALL_MS
    heartbeat = consuming.one(SendHeartbeat)
    assert heartbeat.section.subscription_data_set[0].sub_version == WALL_MS + 50
    consuming.do(consuming.machine.heartbeat_done(heartbeat, 60))
    consuming.do(consuming.machine.pull_answered(pull, NoNewMessage(at(7)), 61))
    assert consuming.pull_of(Q1).sub_version == WALL_MS + 50


def test_a_start_that_is_not_known_is_asked_for_again_in_a_second() -> None:
    consuming = Consuming().introduced().members("me", "you")
    ask = consuming.one(AskStartOffset)

    consuming.do(consuming.machine.start_failed(ask, "no answer", 10))

    assert "no answer" in consuming.texts()[-1]
    assert consuming.queue().reason == "start offset"
    assert consuming.to(1_009).take(AskStartOffset) == []
    assert consuming.to(1_010).one(AskStartOffset).queue == Q0
    assert consuming.machine.start_failed(ask, "late", 1_010) == []


def test_a_start_that_nobody_has_stored_is_committed() -> None:
    consuming = Consuming().introduced().members("me").located(7, is_stored=False)

    assert commits(consuming.to(4_999)) == []
    assert commits(consuming.to(5_000)) == [(Q0, 7), (Q1, 7)]


# Pulls and listeners


def test_messages_are_delivered_and_the_next_pull_leaves_at_once() -> None:
    consuming = Consuming(batch_max=2).working(7)

    batches = consuming.found(7, 8, 9)

    assert [offsets_of(batch.messages) for batch in batches] == [[7, 8], [9]]
    assert consuming.pull_of().offset == 10


def test_the_lowest_offset_that_is_not_settled_is_committed_every_five_seconds() -> None:
    consuming = Consuming().working(10)
    by_offset = {b.messages[0].queue_offset: b for b in consuming.found(10, 20, 40, 50, 70, 100)}

    for now_ms, settled, expected in (
        (5_000, (20, 50), []),
        (10_000, (10,), [(Q0, 40)]),
        (15_000, (100, 40), [(Q0, 70)]),
        (20_000, (), []),
        (25_000, (70,), [(Q0, 101)]),
    ):
        for offset in settled:
            consuming.run(by_offset[at(offset)])
        assert commits(consuming.to(now_ms)) == expected


def test_the_offset_goes_along_with_the_pull() -> None:
    consuming = Consuming().working(0)
    assert consuming.pull_of(Q1).commit_offset is None
    (batch, _) = consuming.found(0, 1)
    consuming.run(batch)

    pull = consuming.pull_of()
    assert pull.commit_offset is None
    consuming.do(consuming.machine.pull_answered(pull, NoNewMessage(at(2)), 5))

    assert consuming.pull_of().commit_offset == 1


def test_in_broadcasting_nothing_is_committed_with_a_pull_and_nobody_is_asked() -> None:
    consuming = Consuming(model=MessageModel.BROADCASTING).introduced()

    assert consuming.take(AskMembers) == []
    consuming.located(5)
    (batch,) = consuming.found(5)
    consuming.run(batch)
    consuming.do(consuming.machine.pull_answered(consuming.pull_of(), NoNewMessage(at(6)), 5))

    assert consuming.pull_of().commit_offset is None
    assert commits(consuming.to(5_000)) == [(Q0, 6)]


def test_a_queue_without_messages_follows_the_broker_when_nothing_is_cached() -> None:
    consuming = Consuming().working(7)

    consuming.do(consuming.machine.pull_answered(consuming.pull_of(Q0), NoneMatched(at(50)), 1))
    (batch,) = consuming.found(7, queue=Q1)
    consuming.do(consuming.machine.pull_answered(consuming.pull_of(Q1), NoneMatched(at(60)), 1))

    assert consuming.machine.offsets() == {Q0: 50, Q1: 7}
    consuming.run(batch)
    assert consuming.machine.offsets()[Q1] == 8


def test_messages_that_all_fall_to_the_tag_filter_move_the_offset() -> None:
    consuming = Consuming(TopicSubscription("orders", "paid")).working(7)

    assert consuming.found(7, 8, tags="other") == []
    assert consuming.machine.offsets()[Q0] == 9


def test_an_answer_to_an_old_pull_is_ignored() -> None:
    consuming = Consuming().working(7)
    pull = consuming.pull_of()
    consuming.do(consuming.machine.pull_failed(pull, Unreachable("b", "timed out"), 1))

    assert consuming.machine.pull_answered(pull, NoNewMessage(at(50)), 2) == ()
    assert consuming.machine.pull_failed(pull, Unreachable("b", "again"), 2) == ()
    assert consuming.queue().next_offset == 7


def test_a_failed_pull_is_made_again_after_three_seconds() -> None:
    consuming = Consuming().working(7)

    consuming.do(consuming.machine.pull_failed(consuming.pull_of(), Unreachable("b", "x"), 0))

    assert "b: x" in consuming.texts()[0]
    assert Q0 not in {pull.queue for pull in consuming.to(2_999).actions if isinstance(pull, Pull)}
    assert consuming.to(3_000).pull_of().offset == 7


@pytest.mark.parametrize("code", [24, 25, 27, 28])
def test_a_broker_that_does_not_know_the_subscription_is_told_at_once(code: int) -> None:
    consuming = Consuming().working(7)
    consuming.to(2_000).take(ReportEvent)

    for queue in QUEUES:
        pull = consuming.pull_of(queue)
        consuming.do(consuming.machine.pull_failed(pull, BrokerRefused(code, "?"), 2_000))

    assert len(consuming.take(SendHeartbeat)) == 1


def test_a_full_cache_stops_the_pulls_until_half_of_it_is_settled() -> None:
    consuming = Consuming(queue_count_max=4).working(0)
    batches = consuming.found(0, 1, 2, 3, 4)

    assert consuming.queue().reason == "count"
    assert consuming.queue().text == "5 messages cached, the limit is 4"
    for batch in batches[:2]:
        consuming.run(batch)
    assert [pull.queue for pull in consuming.actions if isinstance(pull, Pull)] == [Q1]
    consuming.run(batches[2])

    assert consuming.pull_of().offset == 5


def test_a_full_cache_is_looked_at_every_50_ms() -> None:
    consuming = Consuming(queue_count_max=2).working(0)
    batches = consuming.found(0, 1, 2)
    consuming.run(batches[0])

    assert consuming.machine.next_due_ms() == 50
    assert consuming.to(50).pull_of().offset == 3


def test_limits_of_a_topic_are_shared_out_among_its_queues() -> None:
    consuming = Consuming(topic_count_max=4).working(0)
    consuming.found(0, 1, 2)

    assert consuming.queue().text == "3 messages cached, the limit is 2"


def test_a_paused_queue_is_not_pulled_and_a_resumed_one_is_at_once() -> None:
    consuming = Consuming().working(0)
    consuming.machine.pause([Q0])
    (batch,) = consuming.found(0)
    assert [pull.queue for pull in consuming.actions if isinstance(pull, Pull)] == [Q1]

    assert consuming.queue().reason == "paused"
    assert consuming.machine.next_due_ms() == 1_000
    consuming.run(batch)
    consuming.do(consuming.machine.resume(20, [Q0]))

    assert consuming.pull_of().offset == 1


def test_queues_that_are_not_begun_yet_can_be_resumed_too() -> None:
    consuming = Consuming().introduced().members("me")

    assert consuming.machine.resume(5) == []


def test_everything_can_be_paused_and_resumed() -> None:
    consuming = Consuming().working(0)
    consuming.machine.pause()
    consuming.found(0)
    consuming.found(0, queue=Q1)
    assert consuming.take(Pull) == []

    consuming.do(consuming.machine.resume(20))

    assert len(consuming.take(Pull)) == 2


def test_a_batch_of_a_queue_that_is_gone_is_not_started() -> None:
    consuming = Consuming().working(0)
    (batch,) = consuming.found(0)

    consuming.do(consuming.machine.notified(5))
    consuming.members("a", "b", "me")

    assert not consuming.machine.started(batch, 6)


# What fails


def test_what_fails_is_sent_back_and_then_settled() -> None:
    consuming = Consuming().working(0)
    (batch,) = consuming.found(0)

    ask = consuming.failed(batch, ValueError("no"))

    assert (ask.queue, ask.tries_max) == (Q0, 16)
    assert consuming.machine.offsets()[Q0] == 0
    consuming.do(consuming.machine.sent_back(ask, 5))
    assert consuming.machine.offsets()[Q0] == 1


def test_a_send_back_that_fails_is_copied_and_else_comes_again_after_five_seconds() -> None:
    consuming = Consuming().working(0)
    (batch,) = consuming.found(0)
    ask = consuming.failed(batch, Retry())

    consuming.do(consuming.machine.send_back_failed(ask, "gone", 100))
    copy = consuming.one(SendToRetry)
    consuming.do(consuming.machine.copy_failed(copy, "all gone", 200))

    assert consuming.to(5_199).take(Deliver) == []
    again = consuming.to(5_200).one(Deliver)
    assert again.messages[0].reconsume_times == 1
    consuming.run(again)
    assert consuming.machine.offsets()[Q0] == 1


def test_a_copy_that_is_taken_settles_the_message() -> None:
    consuming = Consuming().working(0)
    (batch,) = consuming.found(0)
    consuming.do(consuming.machine.send_back_failed(consuming.failed(batch, Retry()), "gone", 1))

    consuming.do(consuming.machine.copied(consuming.one(SendToRetry), 2))

    assert consuming.machine.offsets()[Q0] == 1


def test_a_result_that_means_nothing_is_reported_with_its_value() -> None:
    consuming = Consuming().working(0)
    (batch,) = consuming.found(0)

    consuming.failed(batch, 42)

    assert "42 is no result" in consuming.texts()[0]


def test_messages_over_the_consume_timeout_are_sent_back() -> None:
    consuming = Consuming(consume_timeout_ms=45_000).working(0)
    (batch,) = consuming.found(0)
    assert consuming.machine.started(batch, 0)

    assert consuming.to(59_999).take(SendBack) == []
    ask = consuming.to(60_000).one(SendBack)

    consuming.do(consuming.machine.sent_back(ask, 60_001))
    assert consuming.machine.offsets()[Q0] == 1
    consuming.do(consuming.machine.consumed(batch, None, 90_000))
    assert consuming.machine.offsets()[Q0] == 1


def test_a_retried_message_has_the_topic_it_was_first_sent_to() -> None:
    topics = (TopicSubscription("orders", batch_max=2), TopicSubscription("bills", batch_max=3))
    consuming = Consuming(*topics).introduced()
    consuming.do(consuming.machine.route_known("%RETRY%billing", [RETRY_QUEUE], 0))
    consuming.members("me").located(0)
    messages = [
        received(offset, queue=RETRY_QUEUE, RETRY_TOPIC=topic)
        for offset, topic in enumerate(["orders", "orders", "orders", "bills"])
    ]

    answer = MessagesFound(at(4), messages=messages)
    consuming.do(consuming.machine.pull_answered(consuming.pull_of(RETRY_QUEUE), answer, 1))

    batches = consuming.take(Deliver)
    assert [[m.topic for m in batch.messages] for batch in batches] == [
        ["orders", "orders"],
        ["orders"],
        ["bills"],
    ]
    for batch in batches:
        consuming.run(batch)
    assert consuming.machine.offsets()[RETRY_QUEUE] == 4


def test_listeners_see_no_namespace() -> None:
    consuming = Consuming(namespace="shop")
    queue = QueueRef("shop%orders", "broker-a", 0)
    consuming.do(consuming.machine.start(0))
    consuming.do(consuming.machine.heartbeat_done(consuming.one(SendHeartbeat), 0))
    consuming.do(consuming.machine.route_known("shop%orders", [queue], 0))
    consuming.members("me").located(0)

    (batch,) = consuming.found(0, queue=queue)

    assert batch.messages[0].topic == "orders"
    assert batch.queue == queue


# Queues that come and go


def test_a_queue_that_another_member_takes_is_committed_and_its_results_are_ignored() -> None:
    consuming = Consuming().working(0)
    first, second = consuming.found(0, 1, queue=Q1)
    consuming.run(first)
    assert consuming.machine.started(second, 1)

    consuming.do(consuming.machine.notified(5))
    consuming.members("me", "you")

    assert commits(consuming) == [(Q1, 1)]
    assert consuming.one(QueuesChanged).own == (Q0,)
    assert len(consuming.take(SendHeartbeat)) == 1
    consuming.do(consuming.machine.consumed(second, None, 6))
    consuming.do(consuming.machine.consumed(second, Retry(), 6))
    assert consuming.take(SendBack) == []
    assert Q1 not in consuming.machine.offsets()
    assert commits(consuming.to(5_000)) == []


def test_send_backs_of_a_queue_that_is_gone_are_ignored() -> None:
    consuming = Consuming().working(0)
    first, second = consuming.found(0, 1, queue=Q1)
    asks = [consuming.failed(first, Retry()), consuming.failed(second, Retry())]
    consuming.do(consuming.machine.send_back_failed(asks[1], "gone", 1))
    copy = consuming.one(SendToRetry)
    consuming.do(consuming.machine.notified(5))
    consuming.members("me", "you")

    assert consuming.machine.sent_back(asks[0], 6) == ()
    assert consuming.machine.send_back_failed(asks[0], "gone", 6) == ()
    assert consuming.machine.copied(copy, 6) == ()
    assert consuming.machine.copy_failed(copy, "gone", 6) == ()


def test_a_queue_that_comes_back_begins_where_the_store_says() -> None:
    consuming = Consuming().working(0)
    (old,) = consuming.found(0, queue=Q1)
    consuming.do(consuming.machine.notified(5))
    consuming.members("me", "you")
    consuming.take(Pull)

    consuming.do(consuming.machine.notified(6))
    consuming.members("me").located(30)

    assert consuming.pull_of(Q1).offset == 30
    assert not consuming.machine.started(old, 7)
    consuming.do(consuming.machine.consumed(old, None, 7))
    assert consuming.machine.offsets()[Q1] == 30


def test_members_are_asked_for_every_20_s_and_at_once_when_notified() -> None:
    consuming = Consuming().working(0)
    assert consuming.to(19_999).take(AskMembers) == []
    assert len(consuming.to(20_000).actions) > 0
    consuming.members("me")

    consuming.do(consuming.machine.notified(25_000))
    consuming.members("me")

    assert consuming.to(44_999).take(AskMembers) == []
    assert len(consuming.to(45_000).take(AskMembers)) == 1


def test_members_that_are_not_known_change_nothing() -> None:
    consuming = Consuming().working(0)
    consuming.do(consuming.machine.notified(5))

    ask = consuming.one(AskMembers)
    consuming.do(consuming.machine.members_failed(ask, "no answer", 6))

    assert len(consuming.machine.status().queues) == 2
    assert "no answer" in consuming.machine.status().troubles["orders"]


def test_a_strategy_that_raises_changes_nothing() -> None:
    calls: list[Sequence[str]] = []

    def once(_: str, queues: Sequence[QueueRef], members: Sequence[str]) -> Sequence[QueueRef]:
        calls.append(members)
        if len(calls) > 1:
            raise RuntimeError("confused")
        return queues

    consuming = Consuming(strategy=once).working(0)
    consuming.do(consuming.machine.notified(5))
    consuming.members("me", "you")

    assert len(consuming.machine.status().queues) == 2
    assert "confused" in consuming.texts()[0]


def test_a_pull_that_is_never_answered_lets_the_queue_begin_anew() -> None:
    consuming = Consuming().working(0)
    for now_ms in range(20_000, 120_000, 20_000):
        consuming.to(now_ms).members("me")
    assert consuming.take(AskStartOffset) == []

    consuming.to(120_000).members("me")

    assert {ask.queue for ask in consuming.take(AskStartOffset)} == {Q0, Q1}
    assert "never answered" in " ".join(consuming.texts())


# Offsets that move


def test_an_offset_that_does_not_exist_is_put_right_after_ten_seconds() -> None:
    consuming = Consuming().working(7, "me", "you")
    (batch,) = consuming.found(7)
    pull = consuming.pull_of()

    consuming.do(consuming.machine.pull_answered(pull, OffsetMoved(at(3)), 0))

    assert "8 does not exist, begins anew at 3" in consuming.texts()[0]
    assert not consuming.machine.started(batch, 1)
    assert consuming.queue().reason == "offset moved"
    assert commits(consuming.to(9_999)) == []
    (commit,) = consuming.to(10_000).take(CommitOffset)
    assert (commit.offset, commit.is_urgent) == (3, True)
    assert consuming.take(AskMembers) == []
    consuming.do(consuming.machine.committed(commit, 10_001))

    consuming.members("me", "you").located(3)
    assert consuming.pull_of().offset == 3


def test_at_a_log_that_lost_its_end_what_was_not_consumed_is_pulled_again() -> None:
    """A slave was promoted without its master: the queue ends at 9, and 7 is still cached."""
    consuming = Consuming().working(7)
    consuming.found(7, 8, 9, 10)
    pull = consuming.pull_of()
    assert pull.offset == 11

    consuming.do(consuming.machine.pull_answered(pull, OffsetMoved(at(9), max_offset=at(9)), 0))

    (commit,) = consuming.to(10_000).take(CommitOffset)
    assert commit.offset == 7


def test_a_reset_drops_what_is_cached_and_begins_anew_after_ten_seconds() -> None:
    consuming = Consuming().working(50)
    (batch,) = consuming.found(50)
    assert consuming.machine.started(batch, 0)

    consuming.do(consuming.machine.reset({Q0: at(5), QueueRef("x", "y", 0): at(1)}, 100))

    consuming.do(consuming.machine.consumed(batch, None, 200))
    (commit,) = consuming.to(10_100).take(CommitOffset)
    assert (commit.queue, commit.offset) == (Q0, 5)
    consuming.take(Pull)
    consuming.do(consuming.machine.commit_failed(commit, "gone", 10_200))
    consuming.members("me").located(5)
    assert consuming.pull_of().offset == 5


def test_a_moved_queue_that_is_lost_meanwhile_is_committed_at_once() -> None:
    consuming = Consuming().working(50)
    consuming.do(consuming.machine.reset({Q1: at(5)}, 100))

    consuming.do(consuming.machine.notified(200))
    consuming.members("me", "you")

    assert commits(consuming) == [(Q1, 5)]
    assert commits(consuming.to(30_000)) == []


def test_a_commit_that_failed_is_made_again() -> None:
    consuming = Consuming().working(0)
    consuming.run(consuming.found(0)[0])
    (commit,) = consuming.to(5_000).take(CommitOffset)

    consuming.do(consuming.machine.commit_failed(commit, "gone", 5_001))

    assert "1 was not committed: gone" in consuming.texts()[0]
    assert commits(consuming.to(10_000)) == [(Q0, 1)]


# The end


def test_a_stop_commits_and_leaves_at_once_when_nothing_runs() -> None:
    consuming = Consuming().working(0)
    first, second = consuming.found(0, 1)
    consuming.run(first)

    consuming.do(consuming.machine.stop(10))

    assert not consuming.machine.started(second, 11)
    commit = consuming.one(CommitOffset)
    assert (commit.queue, commit.offset, commit.is_urgent) == (Q0, 1, True)
    assert consuming.machine.status().phase == Phase.STOPPING
    consuming.do(consuming.machine.committed(commit, 20))
    assert consuming.one(Unregister).group == "billing"
    assert consuming.machine.status().phase == Phase.STOPPED


def test_a_stop_waits_for_listeners_and_their_results_count() -> None:
    consuming = Consuming().working(0)
    first, second = consuming.found(0, 1)
    for batch in (first, second):
        assert consuming.machine.started(batch, 1)

    consuming.do(consuming.machine.stop(10))

    assert consuming.take(CommitOffset) == []
    assert consuming.machine.still_running() == [first, second]
    consuming.do(consuming.machine.consumed(first, None, 20))
    consuming.do(consuming.machine.consumed(second, Retry(), 30))
    ask = consuming.one(SendBack)
    assert consuming.take(Unregister) == []
    consuming.do(consuming.machine.sent_back(ask, 40))
    commit = consuming.one(CommitOffset)
    assert commit.offset == 2
    consuming.do(consuming.machine.commit_failed(commit, "gone", 50))
    assert len(consuming.take(Unregister)) == 1


def test_a_stop_that_takes_too_long_is_abandoned_with_what_is_settled() -> None:
    consuming = Consuming().working(0)
    first, second = consuming.found(0, 1)
    consuming.run(first)
    assert consuming.machine.started(second, 1)
    consuming.do(consuming.machine.stop(10))

    consuming.do(consuming.machine.abandon(30_010))

    assert commits(consuming) == [(Q0, 1)]
    assert len(consuming.take(Unregister)) == 1
    consuming.do(consuming.machine.consumed(second, None, 40_000))
    assert consuming.take(CommitOffset) == []
    assert consuming.machine.abandon(50_000) == ()


def test_nothing_is_shared_out_or_pulled_after_a_stop() -> None:
    consuming = Consuming().working(0)
    pull = consuming.pull_of()
    consuming.do(consuming.machine.notified(1))
    ask = consuming.one(AskMembers)
    consuming.do(consuming.machine.stop(10))
    consuming.actions.clear()

    consuming.do(consuming.machine.members_known(ask, ["me"], 20))
    consuming.do(consuming.machine.pull_answered(pull, NoNewMessage(at(5)), 20))
    consuming.do(consuming.machine.notified(30))
    consuming.do(consuming.machine.stop(40))

    assert consuming.actions == []


def test_batches_that_are_consumed_together_settle_like_one_after_the_other() -> None:
    one_by_one, together = Consuming().working(0), Consuming().working(0)
    for consuming in (one_by_one, together):
        batches = consuming.found(0, 1, 2) + consuming.found(0, 1, queue=Q1)
        first, *rest = batches
        consuming.run(first, Retry())  # its message is on its way back
        if consuming is together:
            assert consuming.machine.started_of(rest, 0) == rest
            consuming.do(consuming.machine.consumed_whole(rest, 5))
        else:
            for batch in rest:
                assert consuming.machine.started(batch, 0)
            assert consuming.machine.still_running() == rest
            for batch in rest:
                consuming.do(consuming.machine.consumed(batch, None, 5))

    assert together.machine.offsets() == one_by_one.machine.offsets() == {Q0: 0, Q1: 2}
    assert together.machine.still_running() == []
    assert (together.queue(Q0).cached_count, together.queue(Q1).cached_count) == (1, 0)
    together.do(together.machine.sent_back(together.one(SendBack), 6))
    assert together.machine.offsets()[Q0] == 3


def test_batches_of_a_queue_that_was_lost_meanwhile_count_for_nothing() -> None:
    consuming = Consuming().working(0)
    batches = consuming.found(0, 1)
    for batch in batches:
        assert consuming.machine.started(batch, 0)
    consuming.do(consuming.machine.notified(1))
    consuming.members("a", "b", "me")

    assert consuming.machine.started_of(batches, 2) == []
    consuming.do(consuming.machine.consumed_whole(batches, 2))

    assert Q0 not in consuming.machine.offsets()
    assert consuming.machine.still_running() == []
