"""What a producer learns of a message that was stored."""

from __future__ import annotations

from enum import StrEnum
from itertools import count, repeat
from typing import Final

import msgspec

from flintmq.core.producer.send_draft import Draft
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.command import Command
from flintmq.protocol.headers.send import SendAnswer


class SendStatus(StrEnum):
    """How safe a message that was stored is, by RocketMQ's names."""

    OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"


STORED: Final = {
    int(ResponseCode.SUCCESS): SendStatus.OK,
    int(ResponseCode.FLUSH_DISK_TIMEOUT): SendStatus.FLUSH_DISK_TIMEOUT,
    int(ResponseCode.SLAVE_NOT_AVAILABLE): SendStatus.SLAVE_NOT_AVAILABLE,
    int(ResponseCode.FLUSH_SLAVE_TIMEOUT): SendStatus.FLUSH_SLAVE_TIMEOUT,
}


class SendReceipt(msgspec.Struct, frozen=True, gc=False):
    """Where a message was stored.

    ``message_id`` is ours and the same for every try; ``offset_message_id`` says where the
    record is.  A delayed message is not in its queue yet: ``queue_offset`` is its place among the
    delayed ones, and its own offset is given to it later.  ``recall_handle`` is given for a timed
    message by brokers from 5.3 on.
    """

    status: SendStatus
    message_id: str
    offset_message_id: str
    queue: QueueRef
    queue_offset: QueueOffset
    transaction_id: str | None = None
    region: str | None = None
    trace_on: bool = True
    recall_handle: str | None = None


def receipt_of(answer: Command, draft: Draft, queue: QueueRef, status: SendStatus) -> SendReceipt:
    """What the answer to a send says.  It may name another queue than the one asked for."""
    header = answer.header(SendAnswer)
    if header.queue_id != queue.queue_id:
        queue = QueueRef(queue.topic, queue.broker, max(0, header.queue_id))
    return SendReceipt(
        status,
        draft.message_id,
        header.msg_id,
        queue,
        QueueOffset(header.queue_offset),
        header.transaction_id,
        header.region,
        header.trace_on != "false",
        header.recall_handle,
    )


def receipts_of_batch(receipt: SendReceipt) -> list[SendReceipt]:
    """The receipt of a batch as one for each of its messages."""
    ids = receipt.message_id.split(",")
    places = receipt.offset_message_id.split(",")
    if len(places) != len(ids):  # one record holds the whole batch
        places = [receipt.offset_message_id] * len(ids)
    return list(
        map(
            SendReceipt,
            repeat(receipt.status),
            ids,
            places,
            repeat(receipt.queue),
            count(receipt.queue_offset),
            repeat(receipt.transaction_id),
            repeat(receipt.region),
            repeat(receipt.trace_on),
            repeat(receipt.recall_handle),
        )
    )
