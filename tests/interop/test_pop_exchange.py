"""Messages in flight go with their directory to a real 5.3.3 and back.

Ours hands messages out and stops; the real broker brings back those that were not acknowledged, at
their time, and no others.  Then it hands messages out itself, stops, and ours goes on.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.state.hand_over import hand_over
from flintmq.model.message import ReceivedMessage
from flintmq.protocol.fields import read_header
from flintmq.protocol.headers.pop import PopAnswer
from flintmq.protocol.pop.receipts import ReceiptHandle, receipts_of
from flintmq.protocol.records.received import decode_messages
from flintmq.store.files.store_config import StoreConfig
from support.broker.popping import BROKER, GROUP, TOPIC, ack, pop, saved, send
from support.broker.world import World
from support.interop.real import RealRocketMQ, ask

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("java")]

CONFIG = BrokerConfig(
    store=StoreConfig(
        commit_log_file_bytes=1024 * 1024,
        queue_file_bytes=20_000,
        index_slots=1_000,
        index_entries=5_000,
    )
)
WAIT_S = 120.0
HIDDEN_MS = 1_800_000
"""What the real broker hands out last is still hidden when it has stopped, however slow it is."""


def now() -> int:
    return int(time.time() * 1000)


def eventually(what: str, check: Callable[[], bool]) -> None:
    stop = time.monotonic() + WAIT_S
    while not check():
        assert time.monotonic() < stop, what
        time.sleep(0.2)


def pop_of_real(
    broker: str, invisible_ms: int, count: int = 32
) -> list[tuple[ReceivedMessage, ReceiptHandle]]:
    """What a real broker hands out."""
    fields: dict[str, Any] = {
        "consumerGroup": GROUP, "topic": TOPIC, "queueId": -1, "maxMsgNums": count,
        "invisibleTime": invisible_ms, "pollTime": 0, "bornTime": now(), "initMode": 0,
        "expType": "TAG", "exp": "*", "order": "false",
    }  # fmt: skip
    header, body = ask(broker, 200050, {name: str(value) for name, value in fields.items()})
    if header["code"] != 0:
        assert header["code"] == 210, header
        return []
    answer = read_header(PopAnswer, Raw(json.dumps(header["extFields"]).encode()))
    messages = decode_messages(body, broker=BROKER).messages
    receipts = receipts_of(answer, messages, BROKER)
    return [(each, receipt.handle) for each, receipt in zip(messages, receipts, strict=True)]


def ack_at_real(broker: str, handle: ReceiptHandle) -> None:
    fields = {
        "consumerGroup": GROUP,
        "topic": handle.topic(GROUP, TOPIC),
        "queueId": str(handle.queue_id),
        "extraInfo": handle.text,
        "offset": str(handle.queue_offset),
    }
    header, _ = ask(broker, 200051, fields)
    assert header["code"] == 0, header


def test_messages_in_flight_go_to_a_real_broker_and_come_back(tmp_path: Path) -> None:
    directory = tmp_path / "real" / "store"
    directory.parent.mkdir()
    world = World(directory, CONFIG, start_ms=now())
    world.state.topics.ensure(TOPIC, 1, world.now_ms)
    send(world, b"done", b"flying", b"acked", b"new")
    early = pop(world, max_msg_nums=1, invisible_time=1_000)
    ack(world, early.handles[0])
    first = pop(world, max_msg_nums=2, invisible_time=40_000)
    ack(world, first.handles[1])
    hand_over(world.state, world.now_ms)
    world.settle()
    saved(world)
    world.stop()

    rocketmq = RealRocketMQ(
        "5.3.3",
        tmp_path / "real",
        brokerName=BROKER,
        mappedFileSizeCommitLog=CONFIG.store.commit_log_file_bytes,
        mappedFileSizeConsumeQueue=CONFIG.store.queue_file_bytes,
        maxHashSlotNum=CONFIG.store.index_slots,
        maxIndexNum=CONFIG.store.index_entries,
    )
    came: dict[bytes, tuple[ReceiptHandle, int]] = {}
    with rocketmq:

        def take() -> bool:
            for message, handle in pop_of_real(rocketmq.broker, HIDDEN_MS):
                assert message.body not in came, f"{message.body!r} came twice"
                came[message.body] = handle, message.reconsume_times
            return {b"new", b"flying"} <= came.keys()

        eventually("what was in flight comes back", take)
        assert came.keys() == {b"new", b"flying"}
        assert came[b"flying"][1] == 1
        assert came[b"flying"][0].pop_ms >= first.handles[0].expires_ms
        ack_at_real(rocketmq.broker, came[b"flying"][0])

    with World(directory, CONFIG, start_ms=now()) as again:
        left = came[b"new"][0]
        assert pop(again).code == 210
        assert again.state.in_flight.message_count == 1
        again.advance(max(0, left.expires_ms - again.now_ms - 1))
        assert pop(again).code == 210
        again.advance(1)
        assert pop(again).bodies == [b"new"]
