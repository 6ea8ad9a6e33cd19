"""What is asked of brokers in pop consumption: pops, acknowledgements, invisible times.

Push consumers, simple consumers and the proxy ask by these calls, each for a group of its choice.
Each call gives what the broker answered or raises a `FlintError`; none is tried again here.  Topics
and groups have their wire names.  Only masters are asked: a slave hands nothing out.

Several acknowledgements to one broker are one request (BATCH_ACK_MESSAGE, 200151).  A broker that
does not know it, as those before 5.1, is remembered and gets one request for each.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TypeAlias

from flintmq.client.engine.broker_calls import master_of
from flintmq.client.engine.client_engine import ClientEngine
from flintmq.core.ask import refusal
from flintmq.core.bad_record_rule import KIND, OnBadRecord
from flintmq.core.group.actions import MEMBERS_TIMEOUT_MS, SEND_BACK_TIMEOUT_MS
from flintmq.core.group.listener_results import DEAD_LETTER_LEVEL
from flintmq.core.group.rebalance import Assigned
from flintmq.core.pop.pop_request import (
    POP_PATIENCE_MS,
    SETTLE_TIMEOUT_MS,
    Pop,
    PopFound,
    ack_request,
    batch_ack_request,
    hide_request,
    is_without_pop,
    pop_refusal,
    pop_request,
    read_hidden,
    read_popped,
)
from flintmq.core.pop.simple_actions import BadPopped
from flintmq.errors import FlintError
from flintmq.model.queue import PopSource, QueueRef
from flintmq.protocol.bodies.pop import POP_MODE, Assignments, QueryAssignment
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.headers.group import SendBackHeader
from flintmq.protocol.pop.receipts import ReceiptHandle

PoppedTopic: TypeAlias = tuple[str, ReceiptHandle]
"""The topic that was popped, and the handle of a message."""


class PopCalls:
    """The calls, over one engine.  ``topic`` is always the one that was popped."""

    def __init__(self, engine: ClientEngine) -> None:
        self._engine = engine
        self._without_batches: set[str] = set()

    async def pop(self, group: str, pop: Pop) -> PopFound:
        """Pop once; the broker may hold it."""
        source = pop.source
        address = await self._master(source.topic, source.broker)
        asked = pop_request(pop, group)
        reply = await self._engine.call(address, asked, pop.hold_ms + POP_PATIENCE_MS)
        return read_popped(reply, pop, address)

    async def ack(self, group: str, topic: str, handle: ReceiptHandle) -> None:
        """Acknowledge one message."""
        address = await self._master(topic, handle.broker)
        await self._settle(address, ack_request(group, topic, handle))

    async def ack_many(
        self, group: str, broker: str, popped: Sequence[PoppedTopic]
    ) -> list[FlintError | None]:
        """Acknowledge messages of one broker; what went wrong with each."""
        topic, first = popped[0]
        try:
            address = await self._master(topic, broker)
            if len(popped) > 1 and address not in self._without_batches:
                try:
                    await self._settle(address, batch_ack_request(group, broker, popped))
                except FlintError as error:
                    if not is_without_pop(error):
                        raise
                    self._without_batches.add(address)
                else:
                    return [None] * len(popped)
            elif len(popped) == 1:
                await self._settle(address, ack_request(group, topic, first))
                return [None]
        except FlintError as error:
            return [error] * len(popped)
        return list(await asyncio.gather(*(self._outcome(group, *each) for each in popped)))

    async def hide(
        self, group: str, topic: str, handle: ReceiptHandle, invisible_ms: int
    ) -> ReceiptHandle:
        """Hide a message for so long from now on; the handle that counts then."""
        address = await self._master(topic, handle.broker)
        asked = hide_request(group, topic, handle, invisible_ms)
        reply = await self._engine.call(address, asked, SETTLE_TIMEOUT_MS)
        return read_hidden(reply, handle, address)

    async def bury(self, group: str, topic: str, handle: ReceiptHandle, message_id: str) -> None:
        """Make a dead letter of a message (CONSUMER_SEND_MSG_BACK, 36), then acknowledge it.

        The handle has the offset in the log: by that a broker finds the message.
        """
        assert handle.log_offset is not None
        header = SendBackHeader(
            offset=handle.log_offset,
            group=group,
            delay_level=DEAD_LETTER_LEVEL,
            origin_msg_id=message_id,
            origin_topic=handle.topic(group, topic),
            max_reconsume_times=0,
            broker_name=handle.broker,
        )
        await self._send_back(topic, handle.broker, header)
        await self.ack(group, topic, handle)

    async def lay_aside(self, group: str, laid: BadPopped, rule: OnBadRecord) -> None:
        """A record that cannot be decoded: a dead letter, then done.  What fails comes again."""
        bad, handle = laid.popped
        fate = "comes again" if handle is None else "skipped"
        try:
            if handle is not None and rule == "dead_letter":
                found = handle._replace(log_offset=bad.log_offset)
                await self.bury(group, laid.topic, found, bad.offset_message_id)
                fate = "goes to the dead letters"
            elif handle is not None:
                await self.ack(group, laid.topic, handle)
        except FlintError as error:
            fate = f"comes again: {error}"
        self._engine.events.add(KIND, laid.topic, f"{bad}; {fate}", logging.ERROR)

    async def assignment(self, group: str, topic: str) -> list[Assigned] | None:
        """What a broker of the topic assigns to us (QUERY_ASSIGNMENT, 400); None: no change."""
        address = await self._engine.some_broker(topic)
        body = QueryAssignment(client_id=self._engine.client_id, consumer_group=group, topic=topic)
        asked = request(RequestCode.QUERY_ASSIGNMENT, None, body.to_body())
        reply = await self._engine.call(address, asked, MEMBERS_TIMEOUT_MS)
        if reply.code != ResponseCode.SUCCESS:
            raise pop_refusal(reply, address)
        given = Assignments.from_body(reply.body).message_queue_assignments
        if given is None:
            return None
        return [
            Assigned(
                PopSource(topic, each.message_queue.broker_name, each.message_queue.queue_id),
                each.mode == POP_MODE,
            )
            for each in given
            if each.message_queue.topic == topic
        ]

    async def _outcome(self, group: str, topic: str, handle: ReceiptHandle) -> FlintError | None:
        try:
            await self.ack(group, topic, handle)
        except FlintError as error:
            return error
        return None

    async def _send_back(self, topic: str, broker: str, header: SendBackHeader) -> None:
        address = await self._master(topic, broker)
        asked = request(RequestCode.CONSUMER_SEND_MSG_BACK, header)
        reply = await self._engine.call(address, asked, SEND_BACK_TIMEOUT_MS)
        if reply.code != ResponseCode.SUCCESS:
            raise refusal(reply, address)

    async def _settle(self, address: str, asked: Command) -> None:
        reply = await self._engine.call(address, asked, SETTLE_TIMEOUT_MS)
        if reply.code != ResponseCode.SUCCESS:
            raise pop_refusal(reply, address)

    async def _master(self, topic: str, broker: str) -> str:
        return await master_of(self._engine, QueueRef(topic, broker, 0))
