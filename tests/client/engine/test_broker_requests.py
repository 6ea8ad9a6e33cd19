"""What brokers ask of a client reaches the member it is for, and is answered as in RocketMQ."""

from __future__ import annotations

import asyncio

from flintmq import aio
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.model.message import Message
from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies.client_call import ConsumerStatusTable as StatusBody
from flintmq.protocol.bodies.client_call import (
    DirectOutcome,
    DirectResult,
    ResetOffsets,
    RunningConsumer,
)
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import request
from flintmq.protocol.headers.client_call import (
    ConsumeDirectly,
    ConsumerStatusRequest,
    DescribeConsumer,
    ResetOffset,
)
from flintmq.protocol.headers.common_headers import OfConsumerGroup
from support.client.member import Consumer, ask, engine_handler, running
from support.client.support import create_topic, run
from support.net.support import until


def test_a_new_member_of_the_group_wakes_the_others(broker: EmbeddedBroker) -> None:
    create_topic(broker, "woken")

    async def main() -> None:
        first, second = Consumer("woken", "woken"), Consumer("woken", "woken")
        async with running(broker, first) as one:
            await one.route("woken")
            await one.heartbeat()
            count = first.notified_count
            async with running(broker, second) as two:
                await two.route("woken")
                await two.heartbeat()
                await until(lambda: first.notified_count > count)

    run(main())


def test_an_admin_is_told_all_about_a_consumer(broker: EmbeddedBroker) -> None:
    create_topic(broker, "told")

    async def main() -> None:
        consumer = Consumer("told", "told")
        async with running(broker, consumer) as engine:
            await engine.route("told")
            await engine.heartbeat()
            header = DescribeConsumer(
                consumer_group="told", client_id=engine.client_id, jstack_enable=True
            )
            reply = await ask(broker.broker, RequestCode.GET_CONSUMER_RUNNING_INFO, header)
            told = RunningConsumer.from_body(reply.body)
            assert told.properties["PROP_CLIENT_VERSION"] == "ours"
            assert consumer.stacks == [True]

            status = ConsumerStatusRequest(topic="told", group="told")
            reply = await ask(
                broker.broker, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, status
            )
            table = StatusBody.from_body(reply.body).consumer_table
            assert table == {engine.client_id: {QueueRef("told", "broker-a", 0): 7}}

    run(main())


def test_one_message_can_be_consumed_by_hand(broker: EmbeddedBroker) -> None:
    create_topic(broker, "direct")

    async def main() -> None:
        async with aio.Producer("p", namesrv=broker.namesrv) as producer:
            receipt = await producer.send(Message("direct", b"by hand"))
        async with running(broker, Consumer("direct", "direct")) as engine:
            await engine.route("direct")
            await engine.heartbeat()
            header = ConsumeDirectly(
                consumer_group="direct",
                client_id=engine.client_id,
                msg_id=receipt.offset_message_id,
                broker_name="broker-a",
                topic="direct",
            )
            reply = await ask(broker.broker, RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
            result = DirectResult.from_body(reply.body)
            assert (result.consume_result, result.remark) == (DirectOutcome.SUCCESS, "by hand")

    run(main())


def test_offsets_can_be_reset_from_outside(broker: EmbeddedBroker) -> None:
    async def main() -> None:
        consumer = Consumer("reset", "resetting")
        async with running(broker, consumer) as engine:
            offsets = {QueueRef("resetting", "broker-a", 0): 3}
            served = engine_handler(engine)
            header = ResetOffset(group="reset", topic="resetting", timestamp=0, is_force=True)
            command = request(
                RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
                header,
                ResetOffsets(offset_table=offsets).to_body(),
            )
            assert served(command) is None
            await until(lambda: consumer.resets == [("resetting", offsets)])

    create_topic(broker, "resetting")
    run(main())


def test_questions_for_a_group_that_is_not_here_are_answered_as_in_rocketmq(
    broker: EmbeddedBroker,
) -> None:
    async def main() -> None:
        async with running(broker, Consumer("here")) as engine:
            served = engine_handler(engine)
            for code, header in (
                (
                    RequestCode.GET_CONSUMER_RUNNING_INFO,
                    DescribeConsumer(consumer_group="away", client_id="x", jstack_enable=False),
                ),
                (RequestCode.CONSUME_MESSAGE_DIRECTLY, ConsumeDirectly(consumer_group="away")),
            ):
                reply = served(request(code, header))
                assert asyncio.iscoroutine(reply)
                answer = await reply
                assert answer.code == ResponseCode.SYSTEM_ERROR
                assert answer.remark == "The Consumer Group <away> not exist in this consumer"
            assert served(request(9_999)).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            notify = OfConsumerGroup(consumer_group="away")
            assert served(request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, notify)) is None

    run(main())
