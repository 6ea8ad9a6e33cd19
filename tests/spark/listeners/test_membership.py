"""A query is a member of its group like any other: it shares, gives up and takes over queues."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from flintmq.client.admin import Admin
from flintmq.client.push.threaded_push import PushConsumer
from flintmq.core.admin.spans import START
from flintmq.core.group.app import App
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.embedded.servers import Servers
from flintmq.errors import GroupConflict, WrongState
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.net.clock import wall_ms
from flintmq.spark.source.stream_offset import StreamOffset
from support.spark.late_servers import free_address, started_after
from support.spark.query import Query
from support.spark.support import BROKER, create_topic, lag, send, wait_for

Messages = tuple[ReceivedMessage, ...]


class Ear:
    """Remembers bodies, from whatever thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.heard: list[str] = []

    def __call__(self, messages: Messages) -> None:
        with self._lock:
            self.heard.extend(message.body.decode() for message in messages)

    @property
    def counts(self) -> Counter[str]:
        with self._lock:
            return Counter(self.heard)


def app_of(servers: EmbeddedBroker, name: str, ear: Any, **settings: Any) -> App:
    app = App(name, namesrv=servers.namesrv, start_from="first", batch_max=8, **settings)
    app.listener(name)(ear)
    return app


def member_of(servers: EmbeddedBroker, name: str, ear: Any, **settings: Any) -> PushConsumer:
    made = PushConsumer(name, ear, namesrv=servers.namesrv, start_from="first", **settings)
    return made.subscribe(name)


def owned(consumer: PushConsumer, topic: str) -> set[QueueRef]:
    return {queue for queue in consumer.queues() if queue.topic == topic}


def numbered(start: int, stop: int) -> list[str]:
    return [f"{number:04}" for number in range(start, stop)]


@contextmanager
def sending(servers: EmbeddedBroker, topic: str, count: int) -> Iterator[list[str]]:
    """Messages that keep coming, to all queues in turn, while something else happens."""
    sent = numbered(0, count)

    def go() -> None:
        for at in range(0, count, 20):
            send(servers, topic, sent[at : at + 20], queue_id=None)

    sender = threading.Thread(target=go)
    sender.start()
    try:
        yield sent
    finally:
        sender.join()


def test_a_query_and_a_consumer_on_threads_share_the_queues(broker: EmbeddedBroker) -> None:
    create_topic(broker, "shared", 4)
    on_spark, on_threads = Ear(), Ear()

    with Query(app_of(broker, "shared", on_spark)) as query:
        wait_for(lambda: len(query.queues("shared")) == 4)
        with member_of(broker, "shared", on_threads) as member:
            wait_for(lambda: len(query.queues("shared")) == len(owned(member, "shared")) == 2)
            assert not query.queues("shared") & owned(member, "shared")
            send(broker, "shared", numbered(0, 40), queue_id=None)
            wait_for(lambda: len(on_spark.heard) + len(on_threads.heard) >= 40)
            assert on_spark.heard
            assert on_threads.heard
        wait_for(lambda: len(query.queues("shared")) == 4)
        send(broker, "shared", numbered(40, 80), queue_id=None)
        wait_for(lambda: len(on_spark.heard) + len(on_threads.heard) >= 80)

    assert sorted(on_spark.heard + on_threads.heard) == numbered(0, 80)
    assert lag(broker, "shared") == 0


def test_nothing_is_lost_while_members_join_and_leave(broker: EmbeddedBroker) -> None:
    create_topic(broker, "moving", 4)
    ear = Ear()

    with (
        Query(app_of(broker, "moving", ear)) as query,
        sending(broker, "moving", 600) as sent,
    ):
        for _ in range(3):
            wait_for(lambda: len(query.queues("moving")) == 4)
            with member_of(broker, "moving", ear, pull_interval_ms=1) as member:
                wait_for(lambda m=member: len(owned(m, "moving")) == 2)  # type: ignore[misc]
                wait_for(lambda: len(query.queues("moving")) == 2)
        wait_for(lambda: set(sent) <= set(ear.counts))
        batch_max = max(batch.message_count for batch in query.batches)

    repeats = sum(ear.counts.values()) - len(sent)
    in_flight = 6 * (batch_max + 4 * 32)  # six changes, each with a batch and the pulls of threads
    assert set(ear.counts) == set(sent)
    assert repeats <= in_flight
    assert lag(broker, "moving") == 0


def test_the_group_stands_at_the_end_of_the_last_batch_also_when_idle(
    broker: EmbeddedBroker,
) -> None:
    create_topic(broker, "stands", 2)
    send(broker, "stands", numbered(0, 10), queue_id=None)
    ear = Ear()

    with Query(app_of(broker, "stands", ear)):
        wait_for(lambda: len(ear.heard) == 10)
        wait_for(lambda: lag(broker, "stands") == 0)


def test_a_queue_that_comes_back_starts_where_the_group_stands(broker: EmbeddedBroker) -> None:
    create_topic(broker, "back", 2)
    on_spark, on_threads = Ear(), Ear()
    with Query(app_of(broker, "back", on_spark)) as query:
        wait_for(lambda: len(query.queues("back")) == 2)
        send(broker, "back", ["0", "1"], queue_id=1)
        wait_for(lambda: len(on_spark.heard) == 2)
        wait_for(lambda: lag(broker, "back") == 0)
        with member_of(broker, "back", on_threads) as member:
            wait_for(lambda: len(query.queues("back")) == len(owned(member, "back")) == 1)
            (theirs,) = owned(member, "back")
            send(broker, "back", ["2", "3"], queue_id=theirs.queue_id)
            wait_for(lambda: len(on_threads.heard) == 2)
        wait_for(lambda: len(query.queues("back")) == 2)
        send(broker, "back", ["4"], queue_id=theirs.queue_id)
        wait_for(lambda: "4" in on_spark.heard)
        last = next(span for span in query.batches[-1].spans if span.queue == theirs)

    assert on_spark.heard == ["0", "1", "4"]
    assert len(last) == 1


def test_a_batch_runs_again_after_a_crash_from_where_the_group_stands(
    broker: EmbeddedBroker,
) -> None:
    create_topic(broker, "crashed")
    send(broker, "crashed", numbered(0, 10))
    first, second = Ear(), Ear()
    query = Query(app_of(broker, "crashed", first))
    end = query.stream.latestOffset(query.offset, query.stream.getDefaultReadLimit())
    wait_for(lambda: query.step() or query.batches)
    query.stream.stop()  # nobody was told that the batch is done

    again = Query(app_of(broker, "crashed", second))
    again.run_batch(query.offset)
    again.stream.commit(again.offset)
    again.stream.stop()

    assert end in (query.offset, again.stream.initialOffset())
    assert first.heard == second.heard == numbered(0, 10)
    assert lag(broker, "crashed") == 0


def test_a_checkpoint_ahead_of_the_group_is_believed_and_told(broker: EmbeddedBroker) -> None:
    create_topic(broker, "ahead")
    send(broker, "ahead", numbered(0, 10))
    ear = Ear()
    queue = QueueRef("ahead", BROKER, 0)
    start = StreamOffset.at({queue: QueueOffset(6)}).to_json()

    with Query(app_of(broker, "ahead", ear), start):
        wait_for(lambda: len(ear.heard) == 4)

    assert ear.heard == numbered(6, 10)


def test_a_member_that_wants_something_else_is_refused(broker: EmbeddedBroker) -> None:
    create_topic(broker, "disputed")
    app = App("disputed", namesrv=broker.namesrv)
    app.listener("disputed", tags="other")(Ear())
    query = Query(app)

    with member_of(broker, "disputed", Ear()), pytest.raises(GroupConflict):
        query.step()
    query.stream.stop()


def test_an_admin_sees_the_member_and_can_move_the_group(broker: EmbeddedBroker) -> None:
    create_topic(broker, "seen", 2)
    ear = Ear()
    with Query(app_of(broker, "seen", ear)) as query, Admin(namesrv=broker.namesrv) as admin:
        send(broker, "seen", numbered(0, 4))
        wait_for(lambda: len(ear.heard) == 4)
        wait_for(lambda: lag(broker, "seen") == 0)
        members = admin.members("seen")
        assert members is not None
        (member,) = members.members
        told = admin.describe_consumer("seen", member.client_id).running
        assert {queue for queue in told.mq_table if queue.topic == "seen"} == query.queues("seen")

        admin.apply_reset(admin.plan_reset("seen", "seen", START))
        wait_for(lambda: len(ear.heard) == 8)

    assert ear.heard == numbered(0, 4) * 2


# Ordered


def test_an_ordered_query_has_its_queues_alone(broker: EmbeddedBroker) -> None:
    create_topic(broker, "alone", 2)
    on_spark, on_threads = Ear(), Ear()
    with Query(app_of(broker, "alone", on_spark, ordered=True)) as query:
        wait_for(lambda: len(query.queues("alone")) == 2)
        send(broker, "alone", numbered(0, 10), queue_id=0)
        send(broker, "alone", numbered(10, 20), queue_id=1)
        wait_for(lambda: len(on_spark.heard) == 20)
        assert [each for each in on_spark.heard if each < "0010"] == numbered(0, 10)
        with member_of(broker, "alone", on_threads, ordered=True) as member:
            wait_for(lambda: owned(member, "alone"))
            (theirs,) = owned(member, "alone")
            send(broker, "alone", numbered(20, 30), queue_id=theirs.queue_id)
            wait_for(lambda: len(on_threads.heard) == 10)
        wait_for(lambda: len(query.queues("alone")) == 2)
        send(broker, "alone", numbered(30, 40), queue_id=theirs.queue_id)
        wait_for(lambda: len(on_spark.heard) == 30)

    assert on_threads.heard == numbered(20, 30)
    assert on_spark.heard[-10:] == numbered(30, 40)


def test_locks_are_free_as_soon_as_a_query_has_left(broker: EmbeddedBroker) -> None:
    create_topic(broker, "left", 2)
    first, second = Ear(), Ear()
    with Query(app_of(broker, "left", first, ordered=True)) as query:
        wait_for(lambda: len(query.queues("left")) == 2)
    send(broker, "left", ["0"])

    with member_of(broker, "left", second, ordered=True):
        wait_for(lambda: second.heard, 20)

    assert second.heard == ["0"]


def test_a_batch_whose_locks_were_lost_does_not_start_and_is_not_committed(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flintmq.core.consumer.queue_lock.RENEW_MS", 50)
    create_topic(broker, "stolen")
    send(broker, "stolen", numbered(0, 4))
    query = Query(app_of(broker, "stolen", Ear(), ordered=True))
    start, limit = query.offset, query.stream.getDefaultReadLimit()
    planned: list[dict[str, Any]] = []

    def plans() -> bool:
        planned[:] = [query.stream.latestOffset(start, limit)]
        return planned[0] != start

    wait_for(plans)
    _steal(broker, "stolen", QueueRef("stolen", BROKER, 0))
    wait_for(lambda: query.stream._driving()._joined(StreamOffset()).broken())

    with pytest.raises(WrongState, match="the lock of stolen/broker-a/0 is lost"):
        query.stream.partitions(start, planned[0])
    query.stream.commit(planned[0])
    query.stream.stop()
    assert lag(broker, "stolen") in (None, 4)


def _steal(servers: EmbeddedBroker, group: str, queue: QueueRef) -> None:
    """Somebody else has the lock, as after a driver that stood still for a minute."""

    def act(inside: Servers) -> None:
        (found,) = inside.brokers.values()
        owner = found.state.locks.owner(group, queue, wall_ms())
        assert owner is not None
        found.state.locks.unlock(group, owner, [queue])
        found.state.locks.lock(group, "a thief", [queue], wall_ms())

    servers.call(act)


def test_a_query_that_cannot_have_its_queues_says_why(broker: EmbeddedBroker) -> None:
    query = Query(app_of(broker, "nowhere", Ear()))
    query.stream._driving()._until = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flintmq.spark.listeners.membership.FIRST_S", 0)
        patch.setattr("flintmq.spark.listeners.membership.SETTLE_S", 0.2)
        with pytest.raises(WrongState, match="no route"):
            query.step()
    query.stream.stop()


def test_a_query_that_starts_before_its_servers_joins_when_they_are_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    namesrv, heard = free_address(), Ear()
    app = App("early", namesrv=str(namesrv), start_from="first")
    app.listener("early")(heard)
    asked = threading.Event()

    def fill(servers: EmbeddedBroker) -> None:
        create_topic(servers, "early")
        send(servers, "early", ["a"])

    def has_warned() -> bool:
        if "is not joined yet" in caplog.text or "the start waits" in caplog.text:
            asked.set()
        return asked.is_set()

    with started_after(asked, namesrv, fill), Query(app) as query:
        wait_for(has_warned)
        wait_for(lambda: heard.heard == ["a"] or query.error is not None)
