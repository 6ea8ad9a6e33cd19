"""A thread that sends alone asks by a socket of its own; whatever needs the loop goes there."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from flintmq import Message, Producer
from flintmq.client.engine.direct_line import DirectLine
from flintmq.core.conversation import Call
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import Unreachable, WrongState
from flintmq.net.blocking.blocking import BlockingChannels
from flintmq.net.blocking.blocking_channel import BlockingChannel
from flintmq.protocol.command import Command
from support.client.support import create_topic, nothing_left, stored


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The codes of requests that went past the loop."""
    codes: list[int] = []
    call = BlockingChannel.call

    def counted(channel: BlockingChannel, request: Command, timeout_ms: int) -> Command:
        if request.code in (310, 320):
            codes.append(request.code)
        return call(channel, request, timeout_ms)

    monkeypatch.setattr(BlockingChannel, "call", counted)
    return codes


def test_a_thread_alone_sends_past_the_loop_once_the_broker_knows_us(
    broker: EmbeddedBroker, direct: list[int]
) -> None:
    with nothing_left(), Producer("shop", namesrv=broker.namesrv) as producer:
        for number in range(3):
            producer.send(Message("past", str(number).encode()))
        receipts = producer.send_batch([Message("past", b"3"), Message("past", b"4")])

    assert direct == [310, 310, 320]
    assert len(receipts) == 2
    found = stored(broker, "past")
    assert sorted(message.body for message in found) == [b"0", b"1", b"2", b"3", b"4"]
    assert {receipt.message_id for receipt in receipts} < {each.message_id for each in found}


def test_a_choice_of_queue_hooks_and_times_of_delivery_are_for_the_loop(
    broker: EmbeddedBroker, direct: list[int]
) -> None:
    class Nothing:
        def before(self, _context: Any) -> None:
            pass

        after = before

    with Producer("shop", namesrv=broker.namesrv) as producer:
        producer.send(Message("chosen", b"x"))
        producer.send(Message("chosen", b"x"), sharding_key="k")
        producer.send(Message("chosen", b"x"), queue=producer.queues("chosen")[0])
        producer.send(Message("chosen", b"x", delay_ms=1))
    with Producer("shop", namesrv=broker.namesrv, send_hooks=(Nothing(),)) as producer:
        producer.send(Message("chosen", b"x"))
        producer.send(Message("chosen", b"x"))

    assert direct == []


def test_nobody_overtakes_what_send_async_has(broker: EmbeddedBroker, direct: list[int]) -> None:
    with Producer("shop", namesrv=broker.namesrv) as producer:
        producer.send(Message("order", b"x"))
        future = producer.send_async(Message("order", b"x"))
        producer.send(Message("order", b"x"))
        by_loop = not direct or future.done()
        future.result(60)
        producer.flush()
        producer.send(Message("order", b"x"))

    assert by_loop
    assert direct


def test_a_line_that_cannot_be_had_costs_no_try(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(_channels: object, address: str, _timeout_ms: int) -> BlockingChannel:
        raise Unreachable(address, "no more sockets")

    with Producer("shop", namesrv=broker.namesrv, retries=0) as producer:
        producer.send(Message("no-line", b"x"))
        with monkeypatch.context() as patch:
            patch.setattr(BlockingChannels, "reach", never)
            producer.send(Message("no-line", b"x"))

        assert producer.events("retry") == []
    assert len(stored(broker, "no-line")) == 2


def test_a_connection_that_breaks_is_a_try_that_failed_and_the_next_one_works(
    own_broker: EmbeddedBroker, direct: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(own_broker, "broken")
    make = DirectLine.make
    failures = iter([Unreachable("broker-a", "the peer reset the connection")])

    def breaking(line: DirectLine, call: Call) -> Command:
        for failure in failures:
            raise failure
        return make(line, call)

    with Producer("shop", namesrv=own_broker.namesrv) as producer:
        producer.send(Message("broken", b"x"))
        monkeypatch.setattr(DirectLine, "make", breaking)
        producer.send(Message("broken", b"y"))

        (event,) = producer.events("retry")
    assert "reset the connection" in event.text
    assert direct == [310]


def test_threads_that_send_at_once_all_get_through(broker: EmbeddedBroker) -> None:
    with nothing_left(), Producer("shop", namesrv=broker.namesrv) as producer:

        def work() -> None:
            for _ in range(20):
                producer.send(Message("many", b"x"))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    found = stored(broker, "many")
    assert len(found) == len({message.message_id for message in found}) == 160


def test_a_stop_hangs_up(broker: EmbeddedBroker, direct: list[int]) -> None:
    with nothing_left():
        producer = Producer("shop", namesrv=broker.namesrv).start()
        producer.send(Message("ends", b"x"))
        producer.send(Message("ends", b"x"))
        producer.stop()

        with pytest.raises(WrongState):
            producer.send(Message("ends", b"x"))
    assert direct == [310]
