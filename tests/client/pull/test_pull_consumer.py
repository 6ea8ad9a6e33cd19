"""A pull consumer gives what a queue has, from where it is told, and keeps its offsets."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from flintmq import MessageModel, PullConsumer, PullStatus, QueueRef, aio
from flintmq.client.engine.lifecycle import State
from flintmq.client.pull.pull_consumer import COUNT_MAX
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import (
    BrokerRefused,
    InvalidExpression,
    InvalidName,
    InvalidSetting,
    NoRoute,
    WrongState,
)
from flintmq.model.group import ConsumeType
from flintmq.model.queue import LogOffset
from flintmq.net.address import Address
from flintmq.net.channels.channel import Channel
from flintmq.net.servers.server import serve_commands
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.command import Command, answer
from support.client.pulling_support import BROKER, fill, send
from support.client.support import create_topic, nothing_left, run, stored, wait_for
from support.net.support import until


def test_queues_are_pulled_from_where_the_program_says(broker: EmbeddedBroker) -> None:
    sent = fill(broker, "all", 100, queues=2)
    with nothing_left(), PullConsumer("readers", namesrv=broker.namesrv) as consumer:
        queues = consumer.queues("all")
        pulled = []
        for queue in queues:
            offset = consumer.min_offset(queue)
            while offset < consumer.max_offset(queue):
                result = consumer.pull(queue, offset)
                assert result.status is PullStatus.FOUND
                assert len(result.messages) <= 32
                pulled += [message.body for message in result.messages]
                offset = result.next_offset

        assert queues == [QueueRef("all", BROKER, 0), QueueRef("all", BROKER, 1)]
        assert sorted(pulled) == sorted(sent)


def test_one_pull_gives_many_where_many_are_asked_for(broker: EmbeddedBroker) -> None:
    fill(broker, "many", 600)
    with PullConsumer("readers", namesrv=broker.namesrv) as consumer:
        result = consumer.pull(QueueRef("many", BROKER, 0), 100, count_max=450)

        assert [message.queue_offset for message in result.messages] == list(range(100, 550))
        assert (result.next_offset, result.min_offset, result.max_offset) == (550, 0, 600)


def test_an_end_is_no_error(broker: EmbeddedBroker) -> None:
    fill(broker, "ends", 3)
    queue = QueueRef("ends", BROKER, 0)
    with PullConsumer("readers", namesrv=broker.namesrv) as consumer:
        at_the_end = consumer.pull(queue, 3)
        beyond = consumer.pull(queue, 50)

        assert (at_the_end.status, at_the_end.next_offset) == (PullStatus.NO_NEW_MESSAGE, 3)
        assert (beyond.status, beyond.next_offset) == (PullStatus.OFFSET_MOVED, 3)
        assert not at_the_end.messages
        assert not beyond.messages


def test_messages_are_chosen_by_tags_or_by_sql(broker: EmbeddedBroker) -> None:
    fill(broker, "chosen", 9, tags=["paid", "open", "lost"])
    queue = QueueRef("chosen", BROKER, 0)
    with PullConsumer("readers", namesrv=broker.namesrv) as consumer:
        by_tags = consumer.pull(queue, 0, tags="paid || lost")
        by_sql = consumer.pull(queue, 0, sql="n BETWEEN 3 AND 5")
        none = consumer.pull(queue, 0, tags="stolen")

        assert [message.queue_offset for message in by_tags.messages] == [0, 2, 3, 5, 6, 8]
        assert [message.queue_offset for message in by_sql.messages] == [3, 4, 5]
        assert (none.status, none.next_offset) == (PullStatus.NONE_MATCHED, 9)


def test_a_blocking_pull_comes_back_with_the_next_message(broker: EmbeddedBroker) -> None:
    create_topic(broker, "waits", 1)
    queue = QueueRef("waits", BROKER, 0)
    with PullConsumer("readers", namesrv=broker.namesrv) as consumer:
        results = []
        thread = threading.Thread(target=lambda: results.append(consumer.pull_blocking(queue, 0)))
        thread.start()
        wait_for(lambda: broker.call(lambda servers: len(servers.brokers[BROKER].state.held)))

        send(broker, "waits", [7])
        thread.join(60)

        assert [message.body for message in results[0].messages] == [b"7"]


def test_a_blocking_pull_is_given_up_by_the_broker(broker: EmbeddedBroker) -> None:
    create_topic(broker, "silence", 1)
    with PullConsumer("readers", namesrv=broker.namesrv, hold_ms=50) as consumer:
        result = consumer.pull_blocking(QueueRef("silence", BROKER, 0), 0)

        assert result.status is PullStatus.NO_NEW_MESSAGE


# Offsets


def test_offsets_are_found_by_time(broker: EmbeddedBroker) -> None:
    fill(broker, "timed", 3)
    queue = QueueRef("timed", BROKER, 0)
    with PullConsumer("readers", namesrv=broker.namesrv) as consumer:
        first = consumer.pull(queue, 0).messages[0]

        assert consumer.offset_at(queue, first.store_ms) == 0
        assert consumer.offset_at(queue, first.store_ms + 3_600_000) >= 2
        assert (consumer.min_offset(queue), consumer.max_offset(queue)) == (0, 3)


def test_a_commit_is_stored_when_it_comes_back(broker: EmbeddedBroker) -> None:
    fill(broker, "commits", 5)
    queue = QueueRef("commits", BROKER, 0)
    with (
        PullConsumer("committers", namesrv=broker.namesrv) as consumer,
        PullConsumer("committers", namesrv=broker.namesrv) as other,
    ):
        consumer.commit(queue, 4)

        assert other.committed(queue) == 4


def test_an_update_counts_at_once_and_is_stored_at_the_end(broker: EmbeddedBroker) -> None:
    fill(broker, "updates", 5)
    queue = QueueRef("updates", BROKER, 0)
    with PullConsumer("updaters", namesrv=broker.namesrv, commit_interval_ms=600_000) as consumer:
        consumer.commit(queue, 1)

        consumer.update_offset(queue, 3)
        consumer.update_offset(queue, 2, increase_only=True)

        assert consumer.committed(queue) == 3
        with PullConsumer("updaters", namesrv=broker.namesrv) as other:
            assert other.committed(queue) == 1
    with PullConsumer("updaters", namesrv=broker.namesrv) as consumer:
        assert consumer.committed(queue) == 3


def test_an_update_is_stored_after_a_while(broker: EmbeddedBroker) -> None:
    fill(broker, "soon", 5)
    queue = QueueRef("soon", BROKER, 0)
    with (
        PullConsumer("soon", namesrv=broker.namesrv, commit_interval_ms=100) as consumer,
        PullConsumer("soon", namesrv=broker.namesrv) as other,
    ):
        consumer.update_offset(queue, 4)

        wait_for(lambda: other.committed(queue, from_store=True) == 4)


def test_only_what_was_updated_here_is_stored(broker: EmbeddedBroker) -> None:
    fill(broker, "others", 5)
    queue = QueueRef("others", BROKER, 0)
    with (
        PullConsumer("others", namesrv=broker.namesrv) as consumer,
        PullConsumer("others", namesrv=broker.namesrv) as reader,  # it stops first
    ):
        consumer.commit(queue, 1)
        assert reader.committed(queue) == 1
        consumer.commit(queue, 5)
    with PullConsumer("others", namesrv=broker.namesrv) as consumer:
        assert consumer.committed(queue) == 5


def test_broadcasting_keeps_offsets_in_a_file(broker: EmbeddedBroker, tmp_path: Path) -> None:
    fill(broker, "cast", 5)
    queue = QueueRef("cast", BROKER, 0)

    def consumer() -> PullConsumer:
        return PullConsumer(
            "casters",
            namesrv=broker.namesrv,
            model=MessageModel.BROADCASTING,
            offsets_dir=tmp_path,
        )

    with consumer() as first:
        first.update_offset(queue, 2)
        with pytest.raises(InvalidSetting, match="already has a consumer"):
            consumer().start()

    assert first.client_id.endswith("@DEFAULT@STREAM")
    assert (tmp_path / first.client_id / "casters" / "offsets.json").exists()
    with consumer() as second:
        assert second.committed(queue, from_store=True) == 2


# The group


def test_brokers_see_a_consumer_that_pulls(broker: EmbeddedBroker) -> None:
    create_topic(broker, "seen", 1)
    with PullConsumer("seen", namesrv=broker.namesrv) as consumer:
        consumer.share_topic("seen")
        wait_for(lambda: consumer.own_queues("seen"))
        group = broker.call(lambda s: s.brokers[BROKER].state.clients.consumer_group("seen"))

        assert group is not None
        assert group.consume_type is ConsumeType.PULL
        assert group.client_ids == [consumer.client_id]
        assert consumer.client_id.endswith("@STREAM")
        subscription = group.subscriptions["seen"]
        assert (subscription.sub_string, subscription.sub_version) == ("*", 0)
    gone = broker.call(lambda s: s.brokers[BROKER].state.clients.consumer_group("seen"))
    assert gone is None


def test_every_request_carries_the_mark_of_a_stream() -> None:
    heard: list[Command] = []

    def serve(request: Command, _channel: Channel) -> Command:
        heard.append(request)
        return answer(request, ResponseCode.TOPIC_NOT_EXIST)

    async def main() -> None:
        server = await serve_commands(Address("127.0.0.1", 0), serve)
        async with server, aio.PullConsumer("g", namesrv=str(server.address)) as consumer:
            with pytest.raises(NoRoute):
                await consumer.queues("t")

    run(main())

    assert heard
    assert all(request.field_texts()["ReqT"] == "0" for request in heard)


def test_queues_are_shared_out_and_listeners_are_told(broker: EmbeddedBroker) -> None:
    create_topic(broker, "shared", 4)
    told: list[tuple[str, int, int]] = []

    def listener(topic: str, queues: object, own: object) -> None:
        assert isinstance(queues, tuple)
        assert isinstance(own, tuple)
        told.append((topic, len(queues), len(own)))

    with nothing_left(), PullConsumer("sharers", namesrv=broker.namesrv) as first:
        first.on_queues_changed("shared", listener)
        wait_for(lambda: told == [("shared", 4, 4)])

        with PullConsumer("sharers", namesrv=broker.namesrv) as second:
            second.share_topic("shared")
            wait_for(lambda: len(second.own_queues("shared")) == 2)
            wait_for(lambda: told[-1] == ("shared", 4, 2))
            assert not set(first.own_queues("shared")) & set(second.own_queues("shared"))

        wait_for(lambda: told[-1] == ("shared", 4, 4))


def test_a_listener_that_fails_stops_nothing(broker: EmbeddedBroker) -> None:
    create_topic(broker, "fails", 2)

    def listener(*_: object) -> None:
        raise RuntimeError("no")

    with PullConsumer("failing", namesrv=broker.namesrv) as consumer:
        consumer.on_queues_changed("fails", listener)

        wait_for(lambda: consumer.events("listener"))
        assert "RuntimeError: no" in consumer.events("listener")[0].text
        assert len(consumer.own_queues("fails")) == 2


def test_a_topic_that_comes_later_is_shared_out_then(broker: EmbeddedBroker) -> None:
    with PullConsumer("early", namesrv=broker.namesrv) as consumer:
        consumer.share_topic("later")
        assert consumer.own_queues("later") == []

        create_topic(broker, "later", 2)

        wait_for(lambda: len(consumer.own_queues("later")) == 2)


# Messages that come again


def test_a_message_that_is_sent_back_comes_again(own_broker: EmbeddedBroker) -> None:
    fill(own_broker, "again", 1)
    with PullConsumer("again", namesrv=own_broker.namesrv) as consumer:
        (message,) = consumer.pull(QueueRef("again", BROKER, 0), 0).messages

        consumer.send_back(message, delay_level=1)
        own_broker.advance(2)

        (queue,) = consumer.queues(consumer.retry_topic)
        (retried,) = consumer.pull_blocking(queue, 0).messages
        assert (retried.topic, retried.body, retried.reconsume_times) == ("again", b"0", 1)


def test_a_message_of_no_use_becomes_a_dead_letter(own_broker: EmbeddedBroker) -> None:
    fill(own_broker, "useless", 1)
    with PullConsumer("useless", namesrv=own_broker.namesrv) as consumer:
        (message,) = consumer.pull(QueueRef("useless", BROKER, 0), 0).messages

        consumer.send_back(message, delay_level=-1)

        wait_for(lambda: stored(own_broker, "%DLQ%useless"))


def test_a_copy_is_sent_where_the_broker_does_not_have_the_message(
    own_broker: EmbeddedBroker,
) -> None:
    fill(own_broker, "copied", 1)
    with PullConsumer("copied", namesrv=own_broker.namesrv) as consumer:
        (message,) = consumer.pull(QueueRef("copied", BROKER, 0), 0).messages
        consumer.send_back(message)  # so that the retry topic is there

        consumer.send_back(message._replace(log_offset=LogOffset(10**9)), delay_level=1)
        own_broker.advance(2)

        wait_for(lambda: stored(own_broker, consumer.retry_topic))
        (copy,) = stored(own_broker, consumer.retry_topic)
        assert (copy.body, copy.reconsume_times) == (b"0", 1)
        assert copy.properties["RETRY_TOPIC"] == "copied"
        assert consumer.events("send back")


# Names, states, errors


def test_a_namespace_is_not_seen(broker: EmbeddedBroker) -> None:
    fill(broker, "ns%spaced", 2)
    with PullConsumer("g", namesrv=broker.namesrv, namespace="ns") as consumer:
        (queue,) = consumer.queues("spaced")
        result = consumer.pull(queue, 0)
        consumer.commit(queue, 2)
        consumer.share_topic("spaced")
        wait_for(lambda: consumer.own_queues("spaced") == [queue])

        assert queue.topic == "spaced"
        assert [message.topic for message in result.messages] == ["spaced", "spaced"]
    offsets = broker.call(lambda s: s.brokers[BROKER].state.offsets)
    assert offsets.query("ns%g", "ns%spaced", 0) == 2


def test_calls_at_the_wrong_time_say_so(broker: EmbeddedBroker) -> None:
    queue = QueueRef("t", BROKER, 0)
    consumer = PullConsumer("states", namesrv=broker.namesrv)
    with pytest.raises(WrongState, match="start it first"):
        consumer.pull(queue, 0)

    with consumer:
        assert consumer.state is State.RUNNING
        with pytest.raises(WrongState, match="started before"):
            consumer.start()

    consumer.stop()
    with pytest.raises(WrongState, match="make a new one"):
        consumer.committed(queue)


def test_wrong_arguments_are_named(broker: EmbeddedBroker) -> None:
    create_topic(broker, "t", 1)
    queue = QueueRef("t", BROKER, 0)
    with PullConsumer("arguments", namesrv=broker.namesrv) as consumer:
        with pytest.raises(InvalidSetting, match="offset"):
            consumer.pull(queue, -1)
        with pytest.raises(InvalidSetting, match="count_max"):
            consumer.pull(queue, 0, count_max=0)
        with pytest.raises(InvalidSetting, match="count_max"):
            consumer.pull(queue, 0, count_max=COUNT_MAX + 1)
        with pytest.raises(InvalidSetting, match="not both"):
            consumer.pull(queue, 0, tags="a", sql="a > 1")
        with pytest.raises(InvalidExpression):
            consumer.pull(queue, 0, sql="a >")
        with pytest.raises(InvalidName):
            consumer.queues("no topic")
        consumer.pull(queue, 0)
        with pytest.raises(NoRoute, match="nowhere"):
            consumer.pull(QueueRef("t", "nowhere", 0), 0)
        with pytest.raises(NoRoute):
            consumer.queues("unknown")
        with pytest.raises(BrokerRefused, match="not exist"):
            consumer.pull(QueueRef("arguments-unknown", BROKER, 0), 0)
    with pytest.raises(InvalidName, match="nobody"):
        PullConsumer("DEFAULT_CONSUMER")
    with pytest.raises(InvalidSetting, match="did you mean hold_ms"):
        PullConsumer("g", suspend=1)  # type: ignore[call-arg]


def test_pulls_work_again_after_the_broker_was_restarted(own_broker: EmbeddedBroker) -> None:
    fill(own_broker, "restarts", 3)
    queue = QueueRef("restarts", BROKER, 0)
    with nothing_left(), PullConsumer("restarts", namesrv=own_broker.namesrv) as consumer:
        assert len(consumer.pull(queue, 0).messages) == 3
        own_broker.stop_broker(BROKER)
        own_broker.start_broker(BROKER)

        def works() -> bool:
            try:
                return len(consumer.pull(queue, 0).messages) == 3
            except Exception:
                return False

        wait_for(works)


def test_the_face_for_asyncio_has_the_same_names(broker: EmbeddedBroker) -> None:
    fill(broker, "awaited", 5)

    async def main() -> None:
        told = asyncio.Event()

        async def listener(*_: object) -> None:
            told.set()

        async with aio.PullConsumer("awaited", namesrv=broker.namesrv) as consumer:
            consumer.on_queues_changed("awaited", listener)
            (queue,) = await consumer.queues("awaited")
            result = await consumer.pull(queue, await consumer.min_offset(queue))
            assert len(result.messages) == 5
            consumer.update_offset(queue, result.next_offset)
            assert await consumer.committed(queue) == 5
            await until(told.is_set)
            assert consumer.own_queues("awaited") == [queue]

    run(main())
    threaded = {name for name in dir(PullConsumer) if not name.startswith("_")}
    awaited = {name for name in dir(aio.PullConsumer) if not name.startswith("_")}
    assert threaded <= awaited
