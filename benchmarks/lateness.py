"""How late delayed messages are on a running broker, while others wait and more are sent.

`flintmq serve` runs as its own process.  Ten thousand messages wait for minutes; a thousand a
second are sent with a delay of one second.  Lateness is when the record of the real topic was
stored minus when it was due by the sender's clock, so the send itself is part of it.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.at_rest import serving
from flintmq.net.channels.channel import Channel
from flintmq.net.channels.channel_pool import connect
from flintmq.net.clock import wall_ms
from flintmq.net.loop import run as run_loop
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.headers.pull import PullAnswer, PullFlag, PullMessage
from flintmq.protocol.headers.send import SendMessageV2
from flintmq.protocol.records.received import decode_messages

WAITING, WAITING_LEVEL = 10_000, 9
RATE, SECONDS = 1_000, 10
LEVEL, DELAY_MS = 1, 1_000
TICK_S = 0.01
TIMEOUT_MS = 10_000


def sending(topic: str, level: int) -> Command:
    header = SendMessageV2(
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=1,
        queue_id=0,
        sys_flag=0,
        born_timestamp=wall_ms(),
        flag=0,
        properties=f"DELAY\x01{level}\x02",
    )
    return request(RequestCode.SEND_MESSAGE_V2, header, b"x" * 128)


def pulling(topic: str, offset: int) -> Command:
    header = PullMessage(
        consumer_group="late",
        topic=topic,
        queue_id=0,
        queue_offset=offset,
        max_msg_nums=32,
        sys_flag=int(PullFlag.SUSPEND | PullFlag.SUBSCRIPTION),
        suspend_timeout_millis=5_000,
        subscription="*",
    )
    return request(RequestCode.PULL_MESSAGE, header)


async def send_many(channel: Channel, topic: str, level: int, count: int) -> None:
    calls = (channel.call(sending(topic, level), TIMEOUT_MS) for _ in range(count))
    answers = await asyncio.gather(*calls)
    assert all(answer.code == 0 for answer in answers), answers[0]


async def lateness(channel: Channel, topic: str, count: int) -> list[int]:
    """Milliseconds by which each message came after its time, in the order they came."""
    late: list[int] = []
    offset = 1  # behind the message that made the topic
    while len(late) < count:
        answer = await channel.call(pulling(topic, offset), TIMEOUT_MS)
        messages = decode_messages(answer.body, broker="b").messages
        late += [message.store_ms - message.born_ms - DELAY_MS for message in messages]
        offset = answer.header(PullAnswer).next_begin_offset
    return late


async def measured(directory: Path) -> list[dict[str, Any]]:
    with serving(directory) as (_, address):
        producer, consumer = await connect(address), await connect(address)
        for _ in range(WAITING // 500):
            await send_many(producer, "waits", WAITING_LEVEL, 500)
        await send_many(producer, "late", 0, 1)  # makes the topic; its time is not counted
        reading = asyncio.ensure_future(lateness(consumer, "late", RATE * SECONDS))
        loop = asyncio.get_running_loop()
        started = loop.time()
        sent = 0
        while sent < RATE * SECONDS:
            wanted = min(RATE * SECONDS, int((loop.time() - started) * RATE))
            await send_many(producer, "late", LEVEL, wanted - sent)
            sent = wanted
            await asyncio.sleep(TICK_S)
        late = sorted(await reading)
        await asyncio.gather(producer.close(0), consumer.close(0))
    return [
        {"name": "lateness, median", "value": late[len(late) // 2], "unit": "ms"},
        {
            "name": "lateness, p99",
            "value": late[len(late) * 99 // 100],
            "unit": "ms",
            "goal": "<= 100",
        },
        {"name": "lateness, worst", "value": late[-1], "unit": "ms"},
    ]


def run() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as directory:
        return run_loop(measured(Path(directory)))
