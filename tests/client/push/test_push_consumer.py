"""The push consumer gives every message to its listener, and does what the listener says of it."""

from __future__ import annotations

import logging
import threading
from functools import partial

import pytest

from flintmq import Ack, DeadLetter, Message, Producer, PushConsumer, QueueRef, Retry
from flintmq.client.engine.lifecycle import State
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import GroupConflict, InvalidName, InvalidSetting, Unreachable, WrongState
from flintmq.model.message import ReceivedMessage
from support.client.push_support import Ear, committed, filled, numbered, send
from support.client.support import create_topic, nothing_left, stored, wait_for
from support.net.support import closed_port


def test_every_message_of_a_backlog_is_consumed_once(broker: EmbeddedBroker) -> None:
    filled(broker, "backlog", numbered(200))
    ear = Ear()

    with nothing_left():
        consumer = PushConsumer("backlog-readers", ear, namesrv=broker.namesrv, start_from="first")
        with consumer.subscribe("backlog"):
            ear.wait_for(200)

    assert sorted(ear.bodies) == numbered(200)
    assert committed(broker, "backlog-readers", "backlog") == {0: 50, 1: 50, 2: 50, 3: 50}


def test_messages_sent_later_arrive_too_and_in_the_order_of_their_queue(
    broker: EmbeddedBroker,
) -> None:
    create_topic(broker, "later", 1)
    ear = Ear()
    consumer = PushConsumer("later-readers", ear, namesrv=broker.namesrv, threads_max=1)

    with consumer.subscribe("later"):
        wait_for(consumer.queues)
        send(broker, "later", numbered(20), queue=0)
        ear.wait_for(20)

    assert ear.bodies == numbered(20)
    message = ear.messages[0]
    assert (message.topic, message.broker, message.queue_offset) == ("later", "broker-a", 0)


def test_a_listener_gets_immutable_batches_of_at_most_batch_max(broker: EmbeddedBroker) -> None:
    filled(broker, "batches", numbered(50), queues=1)
    ear = Ear()
    consumer = PushConsumer("batch-readers", namesrv=broker.namesrv, start_from="first")
    consumer.subscribe("batches", listener=ear, batch_max=8)

    with consumer:
        ear.wait_for(50)

    assert {type(batch) for batch in ear.batches} == {tuple}
    assert max(map(len, ear.batches)) == 8
    assert sorted(ear.bodies) == numbered(50)


def test_tags_choose_messages(broker: EmbeddedBroker) -> None:
    create_topic(broker, "tagged")
    for tag in ("paid", "sent", "lost"):
        send(broker, "tagged", [tag.encode()], tags=tag)
    ear = Ear()
    consumer = PushConsumer("tag-readers", namesrv=broker.namesrv, start_from="first")
    consumer.subscribe("tagged", tags="paid || lost", listener=ear)

    with consumer:
        ear.wait_for(2)
        send(broker, "tagged", [b"last"], tags="paid")
        ear.wait_for(3)

    assert sorted(ear.bodies) == [b"last", b"lost", b"paid"]


def test_sql_chooses_messages(broker: EmbeddedBroker) -> None:
    create_topic(broker, "by-sql")
    for price in ("5", "50"):
        send(broker, "by-sql", [price.encode()], properties={"price": price})
    ear = Ear()
    consumer = PushConsumer("sql-readers", namesrv=broker.namesrv, start_from="first")
    consumer.subscribe("by-sql", sql="price > 10", listener=ear)

    with consumer:
        ear.wait_for(1)
        send(broker, "by-sql", [b"99"], properties={"price": "99"})
        ear.wait_for(2)

    assert sorted(ear.bodies) == [b"50", b"99"]


def test_sql_that_the_broker_cannot_read_is_refused_at_the_start(broker: EmbeddedBroker) -> None:
    create_topic(broker, "bad-sql")
    consumer = PushConsumer("bad-sql-readers", Ear(), namesrv=broker.namesrv)
    consumer.subscribe("bad-sql", sql="price >")

    with nothing_left(), pytest.raises(InvalidSetting, match="sql 'price >'"):
        consumer.start()

    assert consumer.state is State.FAILED


def test_a_message_that_fails_comes_again_and_ends_in_the_dead_letters(
    own_broker: EmbeddedBroker,
) -> None:
    filled(own_broker, "failing", [b"bad"], queues=1)
    ear = Ear(*[ValueError("no")] * 10)
    consumer = PushConsumer(
        "failing-readers", ear, namesrv=own_broker.namesrv, start_from="first", retry_max=2
    )

    with consumer.subscribe("failing"):
        ear.wait_for(1)
        for tries in (2, 3):
            wait_for(lambda: stored(own_broker, "SCHEDULE_TOPIC_XXXX"))
            wait_for(partial(_advanced, own_broker, ear, tries))
        wait_for(lambda: stored(own_broker, "%DLQ%failing-readers"))

    assert [message.reconsume_times for message in ear.messages] == [0, 1, 2]
    assert {message.topic for message in ear.messages} == {"failing"}
    (dead,) = stored(own_broker, "%DLQ%failing-readers")
    assert (dead.body, dead.properties["DLQ_REASON"]) == (b"bad", "ValueError('no')")
    assert (dead.properties["RETRY_TOPIC"], dead.reconsume_times) == ("failing", 3)


def test_a_listener_that_raises_and_a_dead_letter_are_warnings(
    own_broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    filled(own_broker, "noisy", [b"bad"], queues=1)
    ear = Ear(ValueError("boom"), DeadLetter("no order"))
    consumer = PushConsumer(
        "noisy-readers", ear, namesrv=own_broker.namesrv, start_from="first", retry_max=5
    )

    with consumer.subscribe("noisy"):
        ear.wait_for(1)
        wait_for(lambda: stored(own_broker, "SCHEDULE_TOPIC_XXXX"))
        wait_for(partial(_advanced, own_broker, ear, 2))
        wait_for(lambda: consumer.events("dead letter"))
        (retry,) = consumer.events("retry")

    warnings = [each for each in caplog.records if each.levelno >= logging.WARNING]
    failed, dead = (each for each in warnings if "noisy" in each.getMessage())
    first = ear.messages[0]
    assert failed.getMessage() == (
        "listener Ear of group 'noisy-readers' failed: ValueError('boom'); topic 'noisy', queue "
        f"noisy/broker-a/0, offset 0, message {first.message_id}: redelivered in 10 s, try 2 of 6"
    )
    assert "Traceback" in (failed.exc_text or "")
    assert retry.text.endswith("redelivered in 10 s, try 2 of 6")
    assert dead.getMessage().endswith(
        f"message {first.message_id} at offset 0 is a dead letter of group 'noisy-readers' "
        "after try 2: no order"
    )


def _advanced(servers: EmbeddedBroker, ear: Ear, count: int) -> bool:
    servers.advance(60)
    return len(ear.messages) >= count


def test_what_a_listener_returns_decides_about_each_message(own_broker: EmbeddedBroker) -> None:
    filled(own_broker, "decided", numbered(4), queues=1)
    ear = Ear([None, Retry(delay_level=1), DeadLetter("broken"), Ack()])
    consumer = PushConsumer("deciders", namesrv=own_broker.namesrv, start_from="first")
    consumer.subscribe("decided", listener=ear, batch_max=4)

    with consumer:
        ear.wait_for(4)
        wait_for(lambda: _advanced(own_broker, ear, 5))
        wait_for(lambda: stored(own_broker, "%DLQ%deciders"))
        wait_for(lambda: committed(own_broker, "deciders", "decided") == {0: 4} or _wait(consumer))

    assert ear.bodies[4:] == [b"0001"]
    (dead,) = stored(own_broker, "%DLQ%deciders")
    assert (dead.body, dead.properties["DLQ_REASON"]) == (b"0002", "broken")


def _wait(consumer: PushConsumer) -> bool:
    return all(
        queue.settled_to == 4
        for queue in consumer.status().queues
        if "RETRY" not in queue.queue.topic
    )


def test_an_acknowledgement_up_to_an_index_sends_the_rest_back(own_broker: EmbeddedBroker) -> None:
    filled(own_broker, "partly", numbered(4), queues=1)
    ear = Ear(Ack(up_to=1))
    consumer = PushConsumer("partly-readers", namesrv=own_broker.namesrv, start_from="first")
    consumer.subscribe("partly", listener=ear, batch_max=4)

    with consumer:
        ear.wait_for(4)
        wait_for(lambda: _advanced(own_broker, ear, 6))

    assert sorted(ear.bodies[4:]) == [b"0002", b"0003"]


def test_a_value_that_means_nothing_is_an_event_and_the_message_comes_again(
    own_broker: EmbeddedBroker,
) -> None:
    filled(own_broker, "odd", [b"odd"], queues=1)
    ear = Ear("done")
    consumer = PushConsumer("odd-readers", ear, namesrv=own_broker.namesrv, start_from="first")

    with consumer.subscribe("odd"):
        wait_for(lambda: _advanced(own_broker, ear, 2))
        told = consumer.events("result")

    assert "'done' is no result" in told[0].text


def test_each_topic_may_have_a_listener_of_its_own(broker: EmbeddedBroker) -> None:
    filled(broker, "first-topic", [b"1"])
    filled(broker, "second-topic", [b"2"])
    filled(broker, "third-topic", [b"3"])
    consumer = PushConsumer("many-topics", namesrv=broker.namesrv, start_from="first")
    usual, own = Ear(), Ear()
    consumer.listener(usual)
    consumer.listener("second-topic")(own)
    consumer.subscribe("first-topic").subscribe("third-topic")

    with consumer:
        usual.wait_for(2)
        own.wait_for(1)

    assert sorted(usual.bodies) == [b"1", b"3"]
    assert own.bodies == [b"2"]


def test_a_paused_consumer_gets_nothing_until_it_is_resumed(broker: EmbeddedBroker) -> None:
    create_topic(broker, "paused", 1)
    ear = Ear()
    consumer = PushConsumer("paused-readers", ear, namesrv=broker.namesrv)
    queue = QueueRef("paused", "broker-a", 0)

    with consumer.subscribe("paused"):
        wait_for(lambda: queue in consumer.queues())
        consumer.pause()
        send(broker, "paused", [b"one"], queue=0)  # may be caught by the pull under way
        wait_for(lambda: _waits_for(consumer, queue) == "paused")
        wait_for(lambda: not any(each.cached_count for each in consumer.status().queues))
        before = len(ear.messages)
        send(broker, "paused", [b"two"], queue=0)
        assert _waits_for(consumer, queue) == "paused"
        assert len(ear.messages) == before

        consumer.resume()
        ear.wait_for(2)
        consumer.pause([queue])
        send(broker, "paused", [b"three"], queue=0)
        wait_for(lambda: _waits_for(consumer, queue) == "paused")
        consumer.resume([queue])
        ear.wait_for(3)

    assert ear.bodies == [b"one", b"two", b"three"]


def _waits_for(consumer: PushConsumer, queue: QueueRef) -> str:
    queues = consumer.status().queues
    return next((each.waits_for for each in queues if each.queue == queue), "")


def test_a_topic_that_is_made_later_is_found(own_broker: EmbeddedBroker) -> None:
    ear = Ear()
    consumer = PushConsumer("early", ear, namesrv=own_broker.namesrv, start_from="first")

    with consumer.subscribe("made-later"):
        assert consumer.status().troubles["made-later"] == "the topic has no route"
        filled(own_broker, "made-later", [b"here"])
        ear.wait_for(1)

    assert ear.bodies == [b"here"]


def test_a_namespace_is_put_on_and_taken_off(own_broker: EmbeddedBroker) -> None:
    ear = Ear(ValueError("once"))
    with Producer("ns-senders", namesrv=own_broker.namesrv, namespace="shop") as producer:
        producer.send(Message("orders", b"in a namespace"))
    consumer = PushConsumer(
        "ns-readers", ear, namesrv=own_broker.namesrv, namespace="shop", start_from="first"
    )

    with consumer.subscribe("orders"):
        wait_for(lambda: _advanced(own_broker, ear, 2))
        assert {queue.topic for queue in consumer.queues()} == {"orders", "%RETRY%ns-readers"}

    assert {message.topic for message in ear.messages} == {"orders"}
    assert [message.reconsume_times for message in ear.messages] == [0, 1]


# Threads


def test_the_pool_changes_its_size_while_it_runs(broker: EmbeddedBroker) -> None:
    filled(broker, "resized", numbered(3), queues=1)
    gate, inside = threading.Event(), []

    def wait(messages: tuple[ReceivedMessage, ...]) -> None:
        inside.append(messages)
        gate.wait(60)

    consumer = PushConsumer(
        "resized-readers", wait, namesrv=broker.namesrv, start_from="first", threads_max=1
    )
    with consumer.subscribe("resized"):
        wait_for(lambda: len(inside) == 1)
        assert consumer.status().waiting_batches == 2
        consumer.resize_pool(3)
        wait_for(lambda: len(inside) == 3)
        assert consumer.status().threads == 3
        consumer.resize_pool(1)
        gate.set()
        wait_for(lambda: consumer.status().threads == 1)


def test_the_status_tells_where_a_listener_is_stuck(broker: EmbeddedBroker) -> None:
    filled(broker, "stuck", [b"stuck"], queues=1)
    gate = threading.Event()

    def wait_in_here(_messages: tuple[ReceivedMessage, ...]) -> None:
        gate.wait(60)

    consumer = PushConsumer(
        "stuck-readers", wait_in_here, namesrv=broker.namesrv, start_from="first"
    )
    with consumer.subscribe("stuck"):
        wait_for(lambda: consumer.status().listeners)
        (listener,) = consumer.status().listeners
        queue = next(each for each in consumer.status().queues if each.listeners)
        gate.set()

    assert "wait_in_here" in listener.stack
    assert (listener.count, listener.first_offset) == (1, 0)
    assert queue.queue == listener.queue == QueueRef("stuck", "broker-a", 0)
    assert queue.cached_count == 1


# Life


def test_calls_out_of_time_say_so(broker: EmbeddedBroker) -> None:
    consumer = PushConsumer("untimely", Ear(), namesrv=broker.namesrv).subscribe("untimely")

    with pytest.raises(WrongState, match="is created: start it first"):
        consumer.pause()
    with consumer:
        with pytest.raises(WrongState, match="was started before"):
            consumer.start()
        with pytest.raises(WrongState, match="subscribe before it is started"):
            consumer.subscribe("another")
    for call in (consumer.status, consumer.resume, consumer.queues, consumer.start):
        with pytest.raises(WrongState, match="stopped"):
            call()
    assert consumer.stop() == []


def test_a_start_that_fails_may_be_tried_again(own_broker: EmbeddedBroker) -> None:
    ear = Ear()
    nowhere = PushConsumer("nowhere", ear, namesrv=closed_port(), start_timeout_ms=0).subscribe("t")

    with nothing_left():
        for _ in range(2):
            with pytest.raises(Unreachable):
                nowhere.start()
            assert nowhere.state is State.FAILED
        nowhere.stop()


def test_a_second_consumer_with_the_same_id_and_group_is_refused(broker: EmbeddedBroker) -> None:
    create_topic(broker, "twice")
    one = PushConsumer("twice", Ear(), namesrv=broker.namesrv, instance_name="same")
    two = PushConsumer("twice", Ear(), namesrv=broker.namesrv, instance_name="same")

    with (
        one.subscribe("twice"),
        pytest.raises(GroupConflict, match="another live consumer has the client id"),
    ):
        two.subscribe("twice").start()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"threads_max": 1001}, "threads_max '1001': is out of range, 1 to 1000"),
        ({"threads_min": 0}, "threads_min '0'"),
        ({"batch_max": 0}, "batch_max '0'"),
        ({"batch_max": 1025}, "batch_max '1025'"),
        ({"pull_batch_max": 2000}, "pull_batch_max"),
        ({"queue_mib_max": 0}, "queue_mib_max"),
        ({"model": "both"}, "model 'both': is one of clustering, broadcasting"),
        ({"start_from": "middle"}, "start_from 'middle': give first"),
        ({"on_conflict": "ignore"}, "on_conflict 'ignore'"),
        ({"bach_max": 3}, "did you mean batch_max"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_its_name(
    settings: dict[str, object], text: str
) -> None:
    with pytest.raises(InvalidSetting, match=text):
        PushConsumer("settings", **settings)  # type: ignore[arg-type]  # that is the point


def test_a_consumer_needs_a_group_a_topic_and_a_listener_for_each(
    broker: EmbeddedBroker,
) -> None:
    with pytest.raises(InvalidName, match="is blank"):
        PushConsumer(" ")
    with pytest.raises(InvalidSetting, match="needs at least one"):
        PushConsumer("no-topic", Ear(), namesrv=broker.namesrv).start()
    some = PushConsumer("some-listeners", namesrv=broker.namesrv)
    some.subscribe("heard", listener=Ear()).subscribe("unheard")
    with pytest.raises(InvalidSetting, match="listener 'unheard': this topic has none"):
        some.start()


def test_a_listener_that_fails_is_logged_with_its_traceback(
    own_broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    filled(own_broker, "logged", [b"x"], queues=1)
    ear = Ear(ValueError("look at me"))
    consumer = PushConsumer("loggers", ear, namesrv=own_broker.namesrv, start_from="first")

    with caplog.at_level(logging.WARNING, "flintmq"), consumer.subscribe("logged"):
        wait_for(lambda: "look at me" in caplog.text)

    assert "Traceback" in caplog.text
