"""``for message in consumer`` on threads: consumed when the next is asked for, ended by a stop."""

from __future__ import annotations

import logging
import threading
from collections import Counter

import pytest

from flintmq import PushConsumer
from flintmq.client.push import threaded_push
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import WrongState
from support.client.push_support import committed, filled, numbered
from support.client.support import create_topic, nothing_left, stored, wait_for


def consumer_of(servers: EmbeddedBroker, group: str, topic: str) -> PushConsumer:
    return PushConsumer(group, namesrv=servers.namesrv, start_from="first").subscribe(topic)


def test_a_message_is_consumed_when_the_next_is_asked_for(broker: EmbeddedBroker) -> None:
    filled(broker, "for", numbered(6), queues=1)
    bodies: list[bytes] = []

    with nothing_left(), consumer_of(broker, "for-loopers", "for") as consumer:
        for message in consumer:
            bodies.append(message.body)
            if len(bodies) == 4:
                break

    assert bodies == numbered(4)
    assert committed(broker, "for-loopers", "for") == {0: 3}  # the fourth was left unsettled


def test_a_loop_that_is_begun_anew_finds_the_message_it_was_left_with(
    broker: EmbeddedBroker,
) -> None:
    filled(broker, "for-anew", numbered(3), queues=1)
    bodies: list[bytes] = []

    with nothing_left(), consumer_of(broker, "for-anew-loopers", "for-anew") as consumer:
        for message in consumer:
            bodies.append(message.body)
            break
        for message in consumer:
            bodies.append(message.body)
            if len(bodies) == 4:
                consumer.stop()  # ends the loop

    assert bodies == [b"0000", *numbered(3)]
    assert committed(broker, "for-anew-loopers", "for-anew") == {0: 2}


def test_an_exception_that_leaves_the_block_sends_the_message_back() -> None:
    with EmbeddedBroker() as servers:
        filled(servers, "for-thrown", numbered(3), queues=1)

        def main() -> None:
            with consumer_of(servers, "for-throwers", "for-thrown") as consumer:
                for message in consumer:
                    if message.body == b"0001":
                        raise ValueError("away")

        with nothing_left(), pytest.raises(ValueError, match="away"):
            main()

        assert committed(servers, "for-throwers", "for-thrown") == {0: 2}
        servers.advance(60)
        (again,) = stored(servers, "%RETRY%for-throwers")
        assert (again.body, again.reconsume_times) == (b"0001", 1)


def test_a_stop_ends_the_loops_of_all_threads(broker: EmbeddedBroker) -> None:
    filled(broker, "for-many", numbered(60), queues=4)
    seen: list[bytes] = []
    consumer = consumer_of(broker, "for-many-loopers", "for-many")

    begun = threading.Barrier(5)

    def loop() -> None:
        messages = iter(consumer)
        begun.wait(60)
        for message in messages:
            seen.append(message.body)  # noqa: PERF401  # others read it meanwhile

    with nothing_left():
        with consumer:
            threads = [threading.Thread(target=loop) for _ in range(4)]
            for thread in threads:
                thread.start()
            begun.wait(60)
            wait_for(lambda: len(seen) == 60)
        for thread in threads:
            thread.join(60)

    assert not any(thread.is_alive() for thread in threads)
    assert Counter(seen) == Counter(numbered(60))


def test_who_has_listeners_has_nothing_to_loop_over(broker: EmbeddedBroker) -> None:
    create_topic(broker, "for-listened")
    consumer = PushConsumer("for-listeners", print, namesrv=broker.namesrv)

    with consumer.subscribe("for-listened"), pytest.raises(WrongState, match="its listeners"):
        iter(consumer)


def test_a_loop_needs_a_consumer_that_runs(broker: EmbeddedBroker) -> None:
    with pytest.raises(WrongState, match=r"not started|created"):
        iter(consumer_of(broker, "for-early", "for-any"))


def test_a_consumer_that_nobody_asks_for_messages_says_so(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    create_topic(broker, "for-nobody")
    monkeypatch.setattr(threaded_push, "UNHEARD_S", 0.01)

    with caplog.at_level(logging.WARNING), consumer_of(broker, "for-nobodies", "for-nobody"):
        wait_for(lambda: "no loop asks for its messages" in caplog.text)
