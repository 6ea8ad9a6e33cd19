"""Topics that keep batches, used by our own clients: a batch comes out message by message."""

from __future__ import annotations

from flintmq import (
    ConsumeFromWhere,
    LitePullConsumer,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    QueueRef,
    ReceivedMessage,
)
from flintmq.client.admin_aio import Admin
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.fields import read_header
from flintmq.protocol.headers.send import SendAnswer, SendMessageV2
from flintmq.protocol.records.batch import BatchEntry, encode_batch
from support.client.pulling_support import BROKER, polled
from support.client.support import run, wait_for
from support.embedded.asking import ask

FIRST = ConsumeFromWhere.FIRST_OFFSET


def send_inner_batch(broker: EmbeddedBroker, topic: str, number: int, bodies: list[bytes]) -> None:
    """A batch as 5.x producers send it: with a unique id of its own."""
    header = SendMessageV2(
        producer_group="p",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
        properties=f"UNIQ_KEY\x01U{number}\x02",
        is_batch=True,
    )
    entries = [BatchEntry(body, b"TAGS\x01t\x02") for body in bodies]
    reply = ask(broker.broker, RequestCode.SEND_BATCH_MESSAGE, header, encode_batch(entries))
    assert read_header(SendAnswer, reply.fields).batch_uniq_id == f"U{number}"


def filled(broker: EmbeddedBroker, topic: str, batches: int = 6) -> list[bytes]:
    """A topic of one queue with batches of five messages and single ones in turn."""

    async def make() -> None:
        async with Admin(namesrv=broker.namesrv) as admin:
            await admin.create_topic(topic, queues=1, attributes={"queue.type": "BatchCQ"})

    run(make())
    sent = []
    with Producer("p", namesrv=broker.namesrv) as producer:
        for number in range(batches):
            bodies = [b"%d/%d" % (number, part) for part in range(5)]
            send_inner_batch(broker, topic, number, bodies)
            single = b"%d" % number
            assert producer.send(Message(topic, single, tags="t")).queue_offset == 6 * number + 5
            sent += [*bodies, single]
    return sent


def test_every_message_of_every_batch_is_pulled_once(broker: EmbeddedBroker) -> None:
    sent = filled(broker, "pulled")
    with LitePullConsumer("pulled", namesrv=broker.namesrv, start_from=FIRST) as consumer:
        consumer.subscribe("pulled")

        assert polled(consumer, len(sent)) == sent


def test_a_pull_from_inside_a_batch_gives_the_whole_batch(broker: EmbeddedBroker) -> None:
    filled(broker, "inside")
    with PullConsumer("inside", namesrv=broker.namesrv) as consumer:
        result = consumer.pull(QueueRef("inside", BROKER, 0), 8, count_max=6)

    assert [message.queue_offset for message in result.messages] == [6, 7, 8, 9, 10, 11]
    assert (result.next_offset, result.max_offset) == (12, 36)


def test_a_message_of_a_batch_that_fails_is_tried_again_alone(own_broker: EmbeddedBroker) -> None:
    sent = filled(own_broker, "again", 1)
    seen: list[tuple[bytes, int]] = []

    def listen(messages: tuple[ReceivedMessage, ...]) -> None:
        (message,) = messages
        seen.append((message.body, message.reconsume_times))
        if message.body == b"0/2" and message.reconsume_times == 0:
            raise RuntimeError("not this time")

    consumer = PushConsumer("again", listen, namesrv=own_broker.namesrv, start_from=FIRST)
    with consumer.subscribe("again"):
        wait_for(lambda: own_broker.delayed() == 1)
        own_broker.advance(10)
        wait_for(lambda: (b"0/2", 1) in seen or len(seen) > 2 * len(sent))

    assert sorted(body for body, times in seen if times == 0) == sorted(sent)
    assert [body for body, times in seen if times] == [b"0/2"]
