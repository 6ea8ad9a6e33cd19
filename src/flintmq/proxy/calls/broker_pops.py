"""What the proxy asks of brokers about popped messages: take, acknowledge, hide, bury.

Handles that clients hold have the offset in the log as a ninth field: with it a message can be
made a dead letter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from flintmq.client.engine.client_engine import ClientEngine
from flintmq.core.ask import refusal
from flintmq.core.group.listener_results import DEAD_LETTER_LEVEL
from flintmq.core.pop.pop_request import (
    Pop,
    PoppedBad,
    ack_request,
    hide_request,
    pop_request,
    read_hidden,
    read_popped,
)
from flintmq.errors import FlintError, MalformedHeader, NoRoute
from flintmq.logs import logger
from flintmq.model import properties as names
from flintmq.model.message import ReceivedMessage
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.headers.group import SendBackHeader
from flintmq.protocol.pop.receipts import ReceiptHandle
from flintmq.proxy.wire.grpc_codes import Code
from flintmq.proxy.wire.statuses import JAVA_NAME, StatusRefusal

log = logger(__name__)

POP_PATIENCE_MS: Final = 5_000
"""How much longer than a broker may hold a pop its answer is waited for."""

SETTLE_MS: Final = 3_000
"""How long an acknowledgement, a change or a dead letter may take."""


class ChosenFilter(NamedTuple):
    """What a client wants of a topic."""

    expression_type: str
    text: str


@dataclass(frozen=True, slots=True)
class PopWish:
    """One pop of a group, at the address of a broker."""

    group: str
    address: str
    pop: Pop

    @property
    def topic(self) -> str:
        return self.pop.source.topic


@dataclass(frozen=True, slots=True)
class DeliveredMessage:
    """A message and the handle of its delivery."""

    message: ReceivedMessage
    handle: ReceiptHandle

    @property
    def reconsume_times(self) -> int:
        return self.message.reconsume_times


@dataclass(frozen=True, slots=True)
class PopOutcome:
    """What a pop brought; ``is_full``: the broker holds no more pops."""

    messages: list[DeliveredMessage] = field(default_factory=list)
    is_full: bool = False


class BrokerPops:
    """The calls, over the engine of the proxy."""

    def __init__(self, engine: ClientEngine) -> None:
        self._engine = engine

    async def pop(self, wish: PopWish) -> PopOutcome:
        """Take messages (POP_MESSAGE, 200050)."""
        asked = pop_request(wish.pop, wish.group)
        timeout_ms = wish.pop.hold_ms + POP_PATIENCE_MS
        reply = await self._engine.call(wish.address, asked, timeout_ms)
        found = read_popped(reply, wish.pop, wish.address)
        for bad in found.bad:
            await self._set_aside(bad, wish)
        if found.fault is not None:
            log.warning("%s: the rest of a pop: %s", wish.pop.source, found.fault)
        return PopOutcome([_delivered(each) for each in found.messages], found.is_full)

    async def _set_aside(self, popped: PoppedBad, wish: PopWish) -> None:
        """Make a dead letter of a record that cannot be read: it would come back for ever."""
        bad, handle = popped.bad, popped.handle
        log.error("%s: a popped record is set aside: %s", wish.pop.source, bad.reason)
        if handle is not None:
            handle = handle._replace(log_offset=bad.log_offset)
            try:
                await self.bury(wish.group, wish.topic, handle, bad.offset_message_id)
            except FlintError as error:
                log.warning("%s: it comes back: %s", wish.pop.source, error)

    async def ack(self, group: str, topic: str, handle: ReceiptHandle) -> None:
        """Acknowledge a message (ACK_MESSAGE, 200051); ``topic`` is the one that was popped."""
        await self._settle(handle, topic, ack_request(group, topic, _bare(handle)))

    async def hide(
        self, group: str, topic: str, handle: ReceiptHandle, invisible_ms: int
    ) -> ReceiptHandle:
        """Hide a message from now on for so long; the handle that counts from then on."""
        asked = hide_request(group, topic, _bare(handle), invisible_ms)
        reply = await self._settle(handle, topic, asked)
        return read_hidden(reply, handle, handle.broker)

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


def _bare(handle: ReceiptHandle) -> ReceiptHandle:
    return handle._replace(log_offset=None)


def _delivered(message: ReceivedMessage) -> DeliveredMessage:
    handle = ReceiptHandle.parse(message.properties[names.POP_CK])
    return DeliveredMessage(message, handle._replace(log_offset=message.log_offset))
