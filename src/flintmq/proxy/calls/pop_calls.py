"""What the proxy asks of brokers about popped messages: take, acknowledge, hide, bury.

Handles that clients hold have the offset in the log as a ninth field: with it a message can be
made a dead letter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from flintmq.client.engine.client_engine import ClientEngine
from flintmq.core.ask import refusal
from flintmq.core.group.listener_results import DEAD_LETTER_LEVEL
from flintmq.errors import MalformedHeader, NoRoute
from flintmq.logs import logger
from flintmq.model.message import ReceivedMessage
from flintmq.protocol.bodies.client import SQL92, TAG
from flintmq.protocol.bodies.common_bodies import ANY_QUEUE_ID
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.headers.group import SendBackHeader
from flintmq.protocol.headers.pop import (
    AckMessage,
    ChangeInvisibleTime,
    InvisibleTimeAnswer,
    PopAnswer,
    PopMessage,
)
from flintmq.protocol.pop.receipts import ReceiptHandle, receipts_of
from flintmq.protocol.records.received import decode_messages
from flintmq.proxy.wire.codes import Code
from flintmq.proxy.wire.statuses import JAVA_NAME, StatusRefusal

log = logger(__name__)

POP_PATIENCE_MS: Final = 5_000
"""How much longer than a broker may hold a pop its answer is waited for."""

SETTLE_MS: Final = 3_000
"""How long an acknowledgement, a change or a dead letter may take."""

START_AT_END: Final = 1

_EMPTY: Final = frozenset(
    {
        int(ResponseCode.POLLING_TIMEOUT),
        int(ResponseCode.POLLING_FULL),
        int(ResponseCode.PULL_NOT_FOUND),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PopWish:
    """One pop of all queues of a topic at one broker."""

    topic: str
    group: str
    broker: str
    address: str
    count_max: int
    invisible_ms: int
    hold_ms: int
    expression: str
    is_sql: bool
    is_ordered: bool
    attempt_id: str | None


@dataclass(frozen=True, slots=True)
class PoppedMessage:
    """A message and the handle of its delivery."""

    message: ReceivedMessage
    handle: ReceiptHandle
    reconsume_times: int


@dataclass(frozen=True, slots=True)
class PopOutcome:
    """What a pop brought; ``is_full``: the broker holds no more pops."""

    messages: list[PoppedMessage] = field(default_factory=list)
    is_full: bool = False


class PopCalls:
    """The calls, over the engine of the proxy."""

    def __init__(self, engine: ClientEngine) -> None:
        self._engine = engine

    async def pop(self, wish: PopWish) -> PopOutcome:
        """POP_MESSAGE (200050).  The broker takes the time of its own clock."""
        header = PopMessage(
            consumer_group=wish.group,
            topic=wish.topic,
            queue_id=ANY_QUEUE_ID,
            max_msg_nums=wish.count_max,
            invisible_time=wish.invisible_ms,
            poll_time=wish.hold_ms,
            born_time=0,
            init_mode=START_AT_END,
            exp_type=SQL92 if wish.is_sql else TAG,
            exp=wish.expression,
            order=wish.is_ordered,
            attempt_id=wish.attempt_id,
            broker_name=wish.broker,
        )
        asked = request(RequestCode.POP_MESSAGE, header)
        reply = await self._engine.call(wish.address, asked, wish.hold_ms + POP_PATIENCE_MS)
        if reply.code in _EMPTY:
            return PopOutcome(is_full=reply.code == ResponseCode.POLLING_FULL)
        if reply.code != ResponseCode.SUCCESS:
            raise refusal(reply, wish.address)
        return _read(reply, wish)

    async def ack(self, group: str, topic: str, handle: ReceiptHandle) -> None:
        """ACK_MESSAGE (200051).  ``topic`` is the one that was popped."""
        header = AckMessage(
            consumer_group=group,
            topic=handle.topic(group, topic),
            queue_id=handle.queue_id,
            extra_info=_bare(handle),
            offset=handle.queue_offset,
            broker_name=handle.broker,
        )
        await self._settle(handle, topic, request(RequestCode.ACK_MESSAGE, header))

    async def hide(
        self, group: str, topic: str, handle: ReceiptHandle, invisible_ms: int
    ) -> ReceiptHandle:
        """CHANGE_MESSAGE_INVISIBLETIME (200053); the handle that counts from now on."""
        header = ChangeInvisibleTime(
            consumer_group=group,
            topic=handle.topic(group, topic),
            queue_id=handle.queue_id,
            extra_info=_bare(handle),
            offset=handle.queue_offset,
            invisible_time=invisible_ms,
            broker_name=handle.broker,
        )
        asked = request(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, header)
        reply = await self._settle(handle, topic, asked)
        return handle.renewed(reply.header(InvisibleTimeAnswer))

    async def bury(self, group: str, topic: str, handle: ReceiptHandle, message_id: str) -> None:
        """Make a dead letter of a message (CONSUMER_SEND_MSG_BACK, 36), then acknowledge it."""
        if handle.log_offset is None:
            text = f"{JAVA_NAME}commit log offset is empty"
            raise StatusRefusal(Code.INVALID_RECEIPT_HANDLE, text)
        header = SendBackHeader(
            offset=handle.log_offset,
            group=group,
            delay_level=DEAD_LETTER_LEVEL,
            origin_msg_id=message_id,
            origin_topic=handle.topic(group, topic),
            max_reconsume_times=0,
            broker_name=handle.broker,
        )
        await self._settle(handle, topic, request(RequestCode.CONSUMER_SEND_MSG_BACK, header))
        await self.ack(group, topic, handle)

    async def _settle(self, handle: ReceiptHandle, topic: str, asked: Command) -> Command:
        engine = self._engine
        address = engine.address_of(handle.broker)
        if address is None:
            await engine.refresh_route(topic)
            address = engine.address_of(handle.broker)
        if address is None:
            raise NoRoute(topic, f"broker {handle.broker} has no master now")
        reply = await engine.call(address, asked, SETTLE_MS)
        if reply.code != ResponseCode.SUCCESS:
            raise refusal(reply, address)
        return reply


def read_handle(text: str) -> ReceiptHandle:
    """A handle of a client; `StatusRefusal` for what is none."""
    try:
        return ReceiptHandle.parse(text)
    except MalformedHeader as error:
        raise StatusRefusal(Code.INVALID_RECEIPT_HANDLE, f"{JAVA_NAME}{error.reason}") from None


def _bare(handle: ReceiptHandle) -> str:
    return handle._replace(log_offset=None).text


def _read(reply: Command, wish: PopWish) -> PopOutcome:
    received = decode_messages(reply.body, broker=wish.broker)
    for bad in received.bad:
        log.warning("%s: a popped record of %s cannot be read: %s", wish.broker, wish.topic, bad)
    if received.fault is not None:
        log.warning("%s: the rest of a pop of %s: %s", wish.broker, wish.topic, received.fault)
    receipts = receipts_of(reply.header(PopAnswer), received.messages, wish.broker)
    return PopOutcome(
        [
            PoppedMessage(
                message,
                receipt.handle._replace(log_offset=message.log_offset),
                receipt.reconsume_times,
            )
            for message, receipt in zip(received.messages, receipts, strict=True)
        ]
    )
