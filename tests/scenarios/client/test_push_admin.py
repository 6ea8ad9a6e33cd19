"""What others may ask of a running consumer, and what hooks and statistics tell of it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from flintmq import PushConsumer, QueueRef, Retry
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.client.hooks.consume_hooks import ConsumeContext
from flintmq.core.group.listener_results import ReturnKind
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.model.message import ReceivedMessage
from flintmq.net.blocking.blocking import BlockingChannels
from flintmq.protocol.bodies.client_call import (
    ConsumerStatusTable,
    DirectOutcome,
    DirectResult,
    RunningConsumer,
)
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.fields import Header
from flintmq.protocol.headers import client_call
from support.client.push_support import Ear, committed, filled, numbered, send
from support.client.support import CALL_MS, nothing_left, stored, wait_for


def asked(servers: EmbeddedBroker, code: int, header: Header) -> Command:
    """The answer of the broker, which asks the client."""
    with BlockingChannels() as channels:
        reply = channels.call(servers.broker, request(code, header), CALL_MS)
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return reply


def reader(servers: EmbeddedBroker, group: str, ear: object, **more: object) -> PushConsumer:
    settings = {"start_from": "first", **more}
    return PushConsumer(group, ear, namesrv=servers.namesrv, **settings)  # type: ignore[arg-type]


def test_a_consumer_tells_all_about_itself(broker: EmbeddedBroker) -> None:
    filled(broker, "described", numbered(10))
    gate = threading.Event()
    ear = Ear()

    def listen_in_here(messages: tuple[ReceivedMessage, ...]) -> None:
        ear(messages)
        if messages[0].body == b"0009":
            gate.wait(60)

    with reader(broker, "described", listen_in_here).subscribe("described", tags="*") as consumer:
        wait_for(lambda: len(ear.messages) == 10 and consumer.status().rates["described"].ok == 9)
        header = client_call.DescribeConsumer(
            consumer_group="described", client_id=consumer.client_id, jstack_enable=True
        )
        reply = asked(broker, RequestCode.GET_CONSUMER_RUNNING_INFO, header)
        gate.set()

    told = RunningConsumer.from_body(reply.body)
    assert {queue for queue in told.mq_table if queue.topic == "described"} == {
        QueueRef("described", "broker-a", number) for number in range(4)
    }
    assert told.status_table["described"].consume_ok_tps > 0
    assert told.status_table["described"].pull_tps > 0
    assert told.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert told.properties["PROP_CONSUMEORDERLY"] == "false"
    assert int(told.properties["PROP_CONSUMER_START_TIMESTAMP"]) > 0
    assert told.properties["batch_max"] == "1"
    assert {wish.topic for wish in told.subscription_set} == {"described", "%RETRY%described"}
    assert "listen_in_here" in (told.jstack or "")
    started_ms = int(told.properties["PROP_CONSUMER_START_TIMESTAMP"])
    for queue, state in told.mq_table.items():
        if queue.topic == "described":
            assert started_ms <= state.last_pull_timestamp <= started_ms + 60_000
            assert started_ms <= state.last_consume_timestamp <= started_ms + 60_000


def test_a_message_is_consumed_by_hand(own_broker: EmbeddedBroker) -> None:
    filled(own_broker, "by-hand", [b"x"], queues=1)
    (message,) = stored(own_broker, "by-hand")
    ear = Ear(None, None, ValueError("by hand"), Retry(), "nonsense")
    results = []

    with reader(own_broker, "hands", ear).subscribe("by-hand") as consumer:
        ear.wait_for(1)
        for _ in range(4):
            header = client_call.ConsumeDirectly(
                consumer_group="hands",
                client_id=consumer.client_id,
                msg_id=message.offset_message_id,
                broker_name="broker-a",
            )
            reply = asked(own_broker, RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
            results.append(DirectResult.from_body(reply.body))

    assert [result.consume_result for result in results] == [
        DirectOutcome.SUCCESS,
        DirectOutcome.THREW,
        DirectOutcome.LATER,
        DirectOutcome.RETURNED_NULL,
    ]
    assert "ValueError: by hand" in (results[1].remark or "")
    assert {m.topic for m in ear.messages} == {"by-hand"}
    assert committed(own_broker, "hands", "by-hand") == {0: 1}
    assert stored(own_broker, "%RETRY%hands") == []


def test_offsets_are_told_and_reset() -> None:
    with EmbeddedBroker(config=BrokerConfig(server_side_reset=False)) as servers:
        filled(servers, "reset", numbered(8), queues=1)
        ear, again = Ear(), Ear()
        consumer = reader(servers, "resetters", ear, commit_interval_ms=100).subscribe("reset")
        with consumer:
            wait_for(lambda: _settled(consumer) == 8)
            wait_for(lambda: committed(servers, "resetters", "reset") == {0: 8})
            status = client_call.ConsumerStatusRequest(topic="reset", group="resetters")
            reply = asked(servers, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, status)
            header = client_call.ResetOffset(
                group="resetters", topic="reset", timestamp=0, is_force=True
            )
            asked(servers, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
            wait_for(lambda: _waits_for(consumer) == "offset moved")
        with reader(servers, "resetters", again).subscribe("reset"):
            again.wait_for(8)

    table = ConsumerStatusTable.from_body(reply.body).consumer_table
    assert table == {consumer.client_id: {QueueRef("reset", "broker-a", 0): 8}}
    assert "begins anew at 0" in consumer.events("reset")[-1].text
    assert sorted(again.bodies) == numbered(8)


def _settled(consumer: PushConsumer) -> int | None:
    queues = consumer.status().queues
    return next((q.settled_to for q in queues if q.queue.topic == "reset"), None)


def _waits_for(consumer: PushConsumer) -> str:
    queues = consumer.status().queues
    return next((q.waits_for for q in queues if q.queue.topic == "reset"), "")


class Hook:
    """Remembers every context."""

    def __init__(self) -> None:
        self.before_count = 0
        self.after_contexts: list[ConsumeContext] = []

    def before(self, context: ConsumeContext) -> None:
        self.before_count += 1
        context.properties["mine"] = self.before_count

    def after(self, context: ConsumeContext) -> None:
        self.after_contexts.append(context)


class BrokenHook:
    def before(self, _context: ConsumeContext) -> None:
        raise RuntimeError("before")

    def after(self, _context: ConsumeContext) -> None:
        raise RuntimeError("after")


def test_hooks_see_every_call_and_how_it_ended(broker: EmbeddedBroker) -> None:
    filled(broker, "hooked", numbered(5), queues=1)
    hook = Hook()
    ear = Ear(None, Retry(), ValueError("no"), "nonsense")
    consumer = reader(
        broker, "hooked", ear, consume_hooks=(BrokenHook(), hook), threads_max=1
    ).subscribe("hooked")

    with nothing_left(), consumer:
        wait_for(lambda: len(hook.after_contexts) == 5)

    kinds = [context.kind for context in hook.after_contexts]
    assert kinds == [
        ReturnKind.SUCCESS,
        ReturnKind.FAILED,
        ReturnKind.EXCEPTION,
        ReturnKind.NULL,
        ReturnKind.SUCCESS,
    ]
    first, _, third, *_ = hook.after_contexts
    assert (first.group, first.queue, first.success) == (
        "hooked",
        QueueRef("hooked", "broker-a", 0),
        True,
    )
    assert first.properties == {"mine": 1, "ConsumeContextType": "SUCCESS"}
    assert isinstance(third.error, ValueError)


def test_a_filter_hook_leaves_messages_out_for_good(broker: EmbeddedBroker) -> None:
    filled(broker, "sieved", numbered(10), queues=1)
    ear = Ear()

    def even(_queue: QueueRef, messages: Sequence[ReceivedMessage]) -> Sequence[ReceivedMessage]:
        return [message for message in messages if message.queue_offset % 2 == 0]

    consumer = reader(broker, "sievers", ear, filter_hooks=(even,)).subscribe("sieved")
    with consumer:
        ear.wait_for(5)
        send(broker, "sieved", [b"last"], queue=0)
        ear.wait_for(6)

    assert sorted(ear.bodies) == [*numbered(10)[::2], b"last"]
    assert committed(broker, "sievers", "sieved") == {0: 11}
