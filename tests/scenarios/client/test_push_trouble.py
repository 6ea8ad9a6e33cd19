"""Whatever happens to brokers and listeners: nothing is lost, order holds, nothing is left over."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from functools import partial

import pytest

from flintmq import PushConsumer
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.model.message import ReceivedMessage
from support.client.push_support import Ear, committed, filled, numbered, send
from support.client.support import (
    client_threads,
    create_topic,
    nothing_left,
    sockets,
    stored,
    wait_for,
)

RECONNECTS = 20
NEVER_MS = 600_000
"""A timeout that no test lives to see: whoever waits for it hangs."""


def reader(servers: EmbeddedBroker, group: str, ear: object, **more: object) -> PushConsumer:
    settings = {"start_from": "first", "pull_error_delay_ms": 20, **more}
    return PushConsumer(group, ear, namesrv=servers.namesrv, **settings)  # type: ignore[arg-type]


def cut_connections(servers: EmbeddedBroker) -> None:
    """Stop the broker and start it again: every connection is gone, every lock forgotten."""
    servers.stop_broker("broker-a")
    servers.start_broker("broker-a")


def test_many_reconnects_leave_no_thread_task_or_descriptor(own_broker: EmbeddedBroker) -> None:
    create_topic(own_broker, "cut", 2)
    ear = Ear()
    consumer = reader(own_broker, "cut-readers", ear, threads_max=1)  # none can be added
    with nothing_left(), consumer.subscribe("cut"):
        send(own_broker, "cut", [b"first"], queue=0)
        ear.wait_for(1)
        threads, before = client_threads(), sockets()
        for number in range(RECONNECTS):
            cut_connections(own_broker)
            body = b"%d" % number
            send(own_broker, "cut", [body], queue=number % 2)
            wait_for(partial(_heard, ear, body))
        wait_for(lambda: sockets() <= before)
        assert client_threads() == threads

    assert len(set(ear.bodies)) == RECONNECTS + 1


def _heard(ear: Ear, body: bytes) -> bool:
    return body in ear.bodies


def test_order_holds_when_the_broker_forgets_its_locks(own_broker: EmbeddedBroker) -> None:
    create_topic(own_broker, "forgotten", 2)
    seen: dict[int, list[int]] = defaultdict(list)
    lock = threading.Lock()

    def listen(messages: tuple[ReceivedMessage, ...]) -> None:
        with lock:
            seen[messages[0].queue_id].append(messages[0].queue_offset)

    def count() -> int:
        with lock:
            return sum(len(set(offsets)) for offsets in seen.values())

    consumer = reader(own_broker, "forgotten-readers", listen, ordered=True)
    with nothing_left(), consumer.subscribe("forgotten"):
        for number in range(5):
            for queue in (0, 1):
                send(own_broker, "forgotten", numbered(4, number * 4), queue=queue)
            wait_for(lambda: count() >= 4)
            cut_connections(own_broker)
        wait_for(lambda: count() == 40)

    for offsets in seen.values():
        first_seen = list(dict.fromkeys(offsets))
        assert first_seen == list(range(20))
    assert committed(own_broker, "forgotten-readers", "forgotten") == {0: 20, 1: 20}


def test_a_stop_without_a_broker_ends_and_leaves_nothing(own_broker: EmbeddedBroker) -> None:
    filled(own_broker, "no-broker", numbered(10))
    ear = Ear()
    with nothing_left():
        consumer = reader(own_broker, "no-broker", ear, call_timeout_ms=NEVER_MS)
        consumer.subscribe("no-broker").start()
        ear.wait_for(10)
        own_broker.stop_broker("broker-a")
        assert consumer.stop(timeout_s=5) == []


def test_a_message_whose_listener_takes_too_long_goes_back_and_others_get_it(
    own_broker: EmbeddedBroker, caplog: pytest.LogCaptureFixture
) -> None:
    filled(own_broker, "too-long", [b"slow"], queues=1)
    gate, ear = threading.Event(), Ear()

    def listen(messages: tuple[ReceivedMessage, ...]) -> None:
        ear(messages)
        if messages[0].reconsume_times == 0:
            gate.wait(60)

    consumer = reader(own_broker, "too-long", listen, consume_timeout_ms=1_000)
    with nothing_left(), consumer.subscribe("too-long"):
        ear.wait_for(1)
        wait_for(lambda: stored(own_broker, "SCHEDULE_TOPIC_XXXX"))
        own_broker.advance(15)
        ear.wait_for(2)
        wait_for(lambda: consumer.status().listeners[0].running_ms >= 1_000)  # it still runs
        wait_for(lambda: _settled(consumer) == 1)  # the queue went on without it
        gate.set()

    assert [message.reconsume_times for message in ear.messages] == [0, 1]
    assert len(stored(own_broker, "%RETRY%too-long")) == 1  # sent back once
    warnings = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert any("its listener runs for" in text and "try 2 of 17" in text for text in warnings)
    assert committed(own_broker, "too-long", "too-long") == {0: 1}


def _settled(consumer: PushConsumer) -> int | None:
    queues = consumer.status().queues
    return next((each.settled_to for each in queues if each.queue.topic == "too-long"), None)


def test_a_full_cache_is_told_with_its_limit_and_emptied_again(own_broker: EmbeddedBroker) -> None:
    filled(own_broker, "full", numbered(200), queues=1)
    gate, ear = threading.Event(), Ear()

    def listen(messages: tuple[ReceivedMessage, ...]) -> None:
        gate.wait(60)
        ear(messages)

    consumer = reader(own_broker, "full", listen, queue_count_max=40, threads_max=2)
    with consumer.subscribe("full"):
        wait_for(lambda: any(each.waits_for == "count" for each in consumer.status().queues))
        queue = next(each for each in consumer.status().queues if each.waits_for == "count")
        told = consumer.events("flow control")
        gate.set()
        ear.wait_for(200)

    assert "the limit is 40" in queue.why
    assert queue.cached_count == 64  # the second pull was made when 32 were cached
    assert "min 0, max 63, count 64" in told[0].text
    assert sorted(ear.bodies) == numbered(200)
