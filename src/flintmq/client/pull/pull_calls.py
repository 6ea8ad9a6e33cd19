"""Requests of consumers that pull by themselves, each to the broker it belongs to.

Queues are named as on the wire here.  A broker that is not known is looked for once more at the
name server; one that is not there either is `NoRoute`.
"""

from __future__ import annotations

from typing import Final

from flintmq.client.engine.client_engine import Engine
from flintmq.core.ask import refusal
from flintmq.core.group.actions import MEMBERS_TIMEOUT_MS, SEND_BACK_TIMEOUT_MS, SendBack
from flintmq.core.group.consumer_requests import members_request, read_members, send_back_request
from flintmq.core.group.pull_answers import PullAnswer, read_pull_answer
from flintmq.core.group.retry_copy import retry_properties
from flintmq.core.group.stream_requests import (
    StreamPull,
    check_filter,
    lite_pull_request,
    pull_request,
)
from flintmq.core.producer.publisher import Publisher
from flintmq.core.producer.send_draft import draft_stored
from flintmq.core.reading.broker_offsets import Extent, extent, max_offset, min_offset, offset_at
from flintmq.core.routes import Found
from flintmq.errors import FlintError, NoRoute
from flintmq.model.group import INNER_PRODUCER_GROUP, retry_topic
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.model.route import MASTER_ID
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.command import Command

SEND_MS: Final = 3_000
"""How long a copy may take that is sent because the broker could not store the message again."""


class Pulling:
    """The requests of one consumer.  ``group`` is the name on the wire."""

    def __init__(self, engine: Engine, group: str) -> None:
        self._engine = engine
        self._group = group
        self._suggested: dict[QueueRef, int] = {}
        self._publisher: Publisher | None = None

    # Pulls

    async def pull(
        self,
        pull: StreamPull,
        timeout_ms: int,
        *,
        is_lite: bool = False,
        broker_id: int | None = None,
    ) -> PullAnswer:
        """Pull once, from the replica that the last answer named or from ``broker_id``."""
        engine, queue = self._engine, pull.queue
        if broker_id is None:
            broker_id = self._suggested.get(queue, MASTER_ID)
        found = engine.locate(queue.broker, broker_id)
        if found is None:
            found = await self._find(queue, broker_id)
        if not is_lite and pull.subscription.sql is None:
            request = pull_request(pull, self._group)
        else:
            version = engine.known_version(found.address)
            if version is None:
                version = await engine.version_of(found.address)
            check_filter(pull.subscription, queue.broker, version)
            if is_lite:
                request = lite_pull_request(pull, self._group, version)
            else:
                request = pull_request(pull, self._group)
        reply = await engine.call(found.address, request, timeout_ms)
        return self.read(reply, queue, found.address)

    def prepare(self, pull: StreamPull) -> tuple[str, Command] | None:
        """Whom to ask what, as far as that is known without asking; for any thread."""
        queue = pull.queue
        found = self._engine.locate(queue.broker, self._suggested.get(queue, MASTER_ID))
        if found is None or pull.subscription.sql is not None:
            return None
        return found.address, pull_request(pull, self._group)

    def read(self, reply: Command, queue: QueueRef, address: str) -> PullAnswer:
        """What a broker said to a pull; whom to ask next is remembered.  For any thread."""
        answer = read_pull_answer(reply, queue, address)
        if answer.broker_id == MASTER_ID:
            self._suggested.pop(queue, None)
        else:
            self._suggested[queue] = answer.broker_id
        return answer

    # Where queues begin and end

    async def min_offset(self, queue: QueueRef) -> QueueOffset:
        return await self._engine.hold(min_offset(await self.master(queue), queue))

    async def max_offset(self, queue: QueueRef) -> QueueOffset:
        return await self._engine.hold(max_offset(await self.master(queue), queue))

    async def extent(self, queue: QueueRef) -> Extent:
        return await self._engine.hold(extent(await self.master(queue), queue))

    async def offset_at(self, queue: QueueRef, time_ms: int) -> QueueOffset:
        return await self._engine.hold(offset_at(await self.master(queue), queue, time_ms))

    # The group

    async def members(self, topic: str) -> tuple[str, ...]:
        """The client ids of the group, as some broker of the topic knows them."""
        address = await self._engine.some_broker(topic)
        question = members_request(self._group)
        reply = await self._engine.call(address, question, MEMBERS_TIMEOUT_MS)
        return read_members(reply, address)

    async def send_back(
        self, message: ReceivedMessage, delay_level: int, tries_max: int, *, unit_mode: bool
    ) -> None:
        """Have the broker store a message again for the group; send a copy where it cannot."""
        queue = QueueRef(message.topic, message.broker, message.queue_id)
        ask = SendBack(queue, message, delay_level, tries_max, "", None)
        request = send_back_request(ask, self._group, unit_mode=unit_mode)
        try:
            address = await self.master(queue)
            reply = await self._engine.call(address, request, SEND_BACK_TIMEOUT_MS)
            if reply.code != ResponseCode.SUCCESS:
                raise refusal(reply, address)
        except FlintError as error:
            self._engine.events.add("send back", str(queue), f"a copy is sent instead: {error}")
            await self._send_copy(message, delay_level, tries_max)

    # Addresses

    async def master(self, queue: QueueRef) -> str:
        """The master of a queue's broker, the only one that keeps offsets."""
        found = self._engine.locate(queue.broker, only=True)
        if found is None:
            await self._engine.refresh_route(queue.topic)
            found = self._engine.locate(queue.broker, only=True)
        if found is None:
            raise NoRoute(queue.topic, f"the broker {queue.broker} is unknown or has no master")
        return found.address

    # Inside

    async def _find(self, queue: QueueRef, broker_id: int) -> Found:
        await self._engine.refresh_route(queue.topic)
        found = self._engine.locate(queue.broker, broker_id)
        if found is None:
            raise NoRoute(queue.topic, f"the broker {queue.broker} is unknown")
        return found

    async def _send_copy(self, message: ReceivedMessage, delay_level: int, tries_max: int) -> None:
        engine = self._engine
        if self._publisher is None:
            self._publisher = Publisher(
                INNER_PRODUCER_GROUP,
                engine.routes,
                clock=engine.stopwatch,
                chance=engine.chance,
                version_of=engine.known_version,
            )
        topic = retry_topic(self._group)
        draft = draft_stored(
            topic,
            message.body,
            retry_properties(message, delay_level, tries_max),
            now_ms=engine.wall(),
            flag=message.flag,
        )
        queues = await engine.publish_queues(topic)
        await engine.hold(self._publisher.send(draft, queues, SEND_MS))
