"""Members for an engine under test, and an admin who asks about them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from flintmq.client.engine.client_config import ClientConfig
from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.engine.members import TransactionCheck
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueRef
from flintmq.net.channels.channel_pool import Channels
from flintmq.protocol.bodies.client import ConsumerGroup, ConsumerIds, Subscription
from flintmq.protocol.bodies.client_call import DirectOutcome, DirectResult, RunningConsumer
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.fields import Header
from flintmq.protocol.headers.common_headers import OfConsumerGroup
from support.client.support import CALL_MS


class Consumer:
    """A member that remembers what it was asked."""

    def __init__(self, group: str, topic: str = "t") -> None:
        self.group = group
        self.topic = topic
        self.notified_count = 0
        self.resets: list[tuple[str, Mapping[QueueRef, int]]] = []
        self.stacks: list[bool] = []

    def heartbeat(self) -> ConsumerGroup:
        return ConsumerGroup(
            group_name=self.group, subscription_data_set=(Subscription(topic=self.topic),)
        )

    def notified(self) -> None:
        self.notified_count += 1

    async def reset_offsets(self, topic: str, offsets: Mapping[QueueRef, int]) -> None:
        self.resets.append((topic, offsets))

    def consume_status(self, topic: str) -> Mapping[QueueRef, int]:
        return {QueueRef(topic, "broker-a", 0): 7}

    async def running_info(self, *, with_stacks: bool) -> RunningConsumer:
        self.stacks.append(with_stacks)
        return RunningConsumer(properties={"PROP_CLIENT_VERSION": "ours"})

    def consume_directly(self, message: ReceivedMessage) -> DirectResult | Awaitable[DirectResult]:
        return DirectResult(consume_result=DirectOutcome.SUCCESS, remark=message.body.decode())


class Producer:
    """A producer member that waits for nothing."""

    def __init__(self, group: str) -> None:
        self.group = group

    def check_transaction(self, check: TransactionCheck) -> None:
        raise AssertionError(check)

    def take_reply(self, correlation_id: str, reply: ReceivedMessage) -> bool:
        return False


@asynccontextmanager
async def running(
    servers: EmbeddedBroker, *members: Consumer | Producer, config: ClientConfig | None = None
) -> AsyncIterator[ClientEngine]:
    engine = ClientEngine(config or ClientConfig(namesrv=servers.namesrv))
    for member in members:
        if isinstance(member, Consumer):
            engine.add_consumer(member)
        else:
            engine.add_producer(member)
    engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


async def ask(address: str, code: RequestCode, header: Header, body: bytes = b"") -> Command:
    """Ask a broker as an admin does, by a connection of its own."""
    channels = Channels()
    try:
        return await channels.call(address, request(code, header, body), CALL_MS)
    finally:
        await channels.close()


async def members_of(address: str, group: str) -> tuple[str, ...]:
    reply = await ask(
        address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, OfConsumerGroup(consumer_group=group)
    )
    if reply.code != ResponseCode.SUCCESS:
        return ()
    return ConsumerIds.from_body(reply.body).consumer_id_list


def engine_handler(engine: ClientEngine) -> Callable[[Command], Any]:
    """What the engine answers a broker with."""
    served: Any = engine.links._channels._dialer._handler

    class Peer:
        peer = "127.0.0.1:1"

    return lambda command: served(command, Peer())
