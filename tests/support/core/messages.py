"""Messages as a consumer gets them, made by hand."""

from __future__ import annotations

from typing import Any

from flintmq.core.consumer.settle_concurrent import SettleRules
from flintmq.model.host import Host
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import LogOffset, QueueOffset, QueueRef

QUEUE = QueueRef("orders", "broker-a", 0)
HOST = Host.parse("127.0.0.1:10911")
RULES = SettleRules(
    batch_max=1,
    tries_max=16,
    retry_topic="%RETRY%billing",
    consume_timeout_ms=1_000,
    suspend_ms=1_000,
)


def received(
    offset: int,
    *,
    queue: QueueRef = QUEUE,
    body: bytes = b"hello",
    tags: str | None = None,
    times: int = 0,
    **properties: str,
) -> ReceivedMessage:
    named: dict[str, Any] = {"UNIQ_KEY": f"{offset:032X}", **properties}
    if tags is not None:
        named["TAGS"] = tags
    return ReceivedMessage(
        topic=queue.topic,
        broker=queue.broker,
        queue_id=queue.queue_id,
        queue_offset=QueueOffset(offset),
        log_offset=LogOffset(1_000 + offset),
        body=body,
        properties=named,
        flag=0,
        sys_flag=0,
        born_ms=0,
        born_host=HOST,
        store_ms=0,
        store_host=HOST,
        reconsume_times=times,
        prepared_offset=LogOffset(0),
        stored_bytes=200,
    )


def several(*offsets: int, **more: Any) -> list[ReceivedMessage]:
    return [received(offset, **more) for offset in offsets]


def offsets_of(messages: Any) -> list[int]:
    return [message.queue_offset for message in messages]
