"""Broker servers on real sockets, and a disk that is slow."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.server import BrokerServer
from flintmq.net.address import Address
from flintmq.net.channels.channel import Channel
from flintmq.net.channels.channel_pool import connect
from flintmq.net.channels.commands import Handler, refuse
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.headers.pull import PullFlag, PullMessage
from flintmq.protocol.headers.send import SendMessageV2
from flintmq.protocol.records.received import decode_messages
from flintmq.store.files.disk import Disk
from flintmq.store.files.store_config import Flush
from support.broker.world import SMALL_STORE

LOOPBACK = Address("127.0.0.1", 0)


ASYNC = BrokerConfig(store=SMALL_STORE)


SYNC = BrokerConfig(store=replace(SMALL_STORE, flush=Flush.SYNC))


DEADLINE_S = 60.0


@asynccontextmanager
async def serving(
    directory: Path, config: BrokerConfig = ASYNC, *, disk: Disk | None = None
) -> AsyncIterator[BrokerServer]:
    broker = await BrokerServer.start(directory, config, listen=LOOPBACK, disk=disk)
    try:
        yield broker
    finally:
        await broker.stop()


async def connected(broker: BrokerServer, handler: Handler = refuse) -> Channel:
    return await connect(str(broker.address), handler=handler)


def sending(body: bytes = b"hello", *, topic: str = "T", queue_id: int = 0) -> Command:
    header = SendMessageV2(
        producer_group="producers",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
        properties="",
    )
    return request(RequestCode.SEND_MESSAGE_V2, header, body)


def pulling(offset: int, *, suspend_ms: int = 0, topic: str = "T") -> Command:
    flag = PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if suspend_ms else PullFlag(0))
    header = PullMessage(
        consumer_group="g",
        topic=topic,
        queue_id=0,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=int(flag),
        suspend_timeout_millis=suspend_ms,
        subscription="*",
    )
    return request(RequestCode.PULL_MESSAGE, header)


def bodies_of(reply: Command) -> list[bytes]:
    return [m.body for m in decode_messages(reply.body, broker="b").messages]


class SlowDisk(Disk):
    """Syncs wait until the test lets them go."""

    def __init__(self) -> None:
        super().__init__()
        self.may_sync = Event()
        self.may_sync.set()
        self.sync_count = 0

    def sync(self, path: Path) -> None:
        assert self.may_sync.wait(DEADLINE_S)
        self.sync_count += 1
        super().sync(path)
