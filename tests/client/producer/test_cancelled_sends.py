"""Whoever cancels a send waits no longer; the message goes on, and its place is given back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from flintmq import Message, Producer, aio
from flintmq.net.address import Address
from flintmq.net.channels.channel import Channel
from flintmq.net.servers.server import serve_commands
from flintmq.protocol.bodies.route import BrokerEntry, QueueEntry, TopicRoute
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command, answer
from flintmq.protocol.headers.send import SendAnswer
from support.client.support import run
from support.net.support import until

SENDS = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)


class SlowBroker:
    """Name server and broker in one: it answers sends when it is told to."""

    def __init__(self) -> None:
        self.address = ""
        self.bodies: list[bytes] = []
        self.may_answer = asyncio.Event()

    async def serve(self, request: Command, _channel: Channel) -> Command:
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            queues = QueueEntry(broker_name="a", perm=6, read_queue_nums=1, write_queue_nums=1)
            route = TopicRoute(
                broker_datas=(BrokerEntry(broker_name="a", broker_addrs={0: self.address}),),
                queue_datas=(queues,),
            )
            return answer(request, 0, body=route.to_body())
        if request.code in SENDS:
            self.bodies.append(request.body)
            await self.may_answer.wait()
            stored = SendAnswer(msg_id="M", queue_id=0, queue_offset=len(self.bodies))
            return answer(request, 0, stored)
        return answer(request, 0)


@asynccontextmanager
async def slow_broker() -> AsyncIterator[SlowBroker]:
    broker = SlowBroker()
    server = await serve_commands(Address("127.0.0.1", 0), broker.serve)
    broker.address = str(server.address)
    async with server:
        try:
            yield broker
        finally:
            broker.may_answer.set()


@pytest.mark.parametrize("auto_batch", [False, True])
def test_a_send_under_way_keeps_its_place_when_its_future_is_cancelled(auto_batch: bool) -> None:
    async def main() -> None:
        async with (
            slow_broker() as broker,
            aio.Producer(
                "shop", namesrv=broker.address, in_flight_max=1, auto_batch=auto_batch
            ) as producer,
        ):
            first = await producer.send_async(Message("t", b"first"))
            await until(lambda: len(broker.bodies) == 1)
            assert first.cancel()
            waits = asyncio.create_task(producer.send_async(Message("t", b"never")))
            next_one = asyncio.create_task(producer.send_async(Message("t", b"second")))
            flushed = asyncio.create_task(producer.flush())
            await asyncio.sleep(0)
            assert not waits.done()  # the one that was cancelled is still under way
            waits.cancel()  # before it has a place: it is not sent at all
            await asyncio.sleep(0)
            assert not flushed.done()

            broker.may_answer.set()
            second = await (await next_one)

            assert first.cancelled()  # the late answer changes nothing
            assert second.queue_offset == 2
            assert waits.cancelled()
            await flushed
            await (await producer.send_async(Message("t", b"third")))  # there is room again
            assert len(broker.bodies) == 3
            assert all(b"never" not in body for body in broker.bodies)

    run(main())


def test_a_send_that_is_awaited_can_be_cancelled_and_is_not_tried_again() -> None:
    async def main() -> None:
        async with (
            slow_broker() as broker,
            aio.Producer("shop", namesrv=broker.address) as producer,
        ):
            send = asyncio.create_task(producer.send(Message("t", b"first")))
            await until(lambda: len(broker.bodies) == 1)
            send.cancel()
            with pytest.raises(asyncio.CancelledError):
                await send
            broker.may_answer.set()
            assert (await producer.send(Message("t", b"second"))).queue_offset == 2
            assert len(broker.bodies) == 2

    run(main())


def test_a_future_on_threads_can_be_cancelled_too() -> None:
    async def main() -> None:
        async with slow_broker() as broker:
            producer = Producer("shop", namesrv=broker.address, in_flight_max=1)
            await asyncio.to_thread(producer.start)
            heard: list[object] = []
            first = producer.send_async(Message("t", b"first"), callback=heard.append)
            await until(lambda: len(broker.bodies) == 1)
            assert first.cancel()
            broker.may_answer.set()
            second = await asyncio.to_thread(producer.send_async, Message("t", b"second"))
            assert (await asyncio.wrap_future(second)).queue_offset == 2
            await asyncio.to_thread(producer.stop)
            assert first.cancelled()
            assert len(heard) == 1  # a callback hears how it ended

    run(main())
