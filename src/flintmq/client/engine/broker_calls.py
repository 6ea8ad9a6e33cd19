"""What consumers ask of brokers, over the engine: pulls, members, locks, send-backs, offsets.

Push consumers, pull consumers and the group member of a Spark query make the same requests by
the same rules.  Each call gives what the broker answered or raises a `FlintError`; none is tried
again here, since when to do that is decided in `core`.  Queues and groups have their wire names.

A broker that is not known is looked up at the name server once more; one that is not there either
is `NoRoute`.  A broker of unknown version is not asked to filter by SQL92.
"""

from __future__ import annotations

from flintmq.client.engine.client_engine import ClientEngine
from flintmq.core.ask import refusal
from flintmq.core.group.actions import (
    COPY_TIMEOUT_MS,
    LOCK_TIMEOUT_MS,
    MEMBERS_TIMEOUT_MS,
    SEND_BACK_TIMEOUT_MS,
    LockQueues,
    SendBack,
    SendToRetry,
    UnlockQueues,
)
from flintmq.core.group.pull_answers import PullAnswer, read_pull_answer
from flintmq.core.group.requests import (
    lock_request,
    members_request,
    read_locked,
    read_members,
    send_back_request,
    unlock_request,
)
from flintmq.core.group.retry_copy import copy_to_retry, near
from flintmq.core.group.start_offset import StartOffset, choose_start_offset, is_committed
from flintmq.core.producer.publisher import Publisher
from flintmq.core.producer.send_draft import draft_copy
from flintmq.core.reading.broker_offsets import extent, max_offset, min_offset, offset_at
from flintmq.core.reading.pull_request import Pull, check_filter, pull_request
from flintmq.core.routes import FoundRoute
from flintmq.errors import FlintError, NoRoute
from flintmq.model.group import INNER_PRODUCER_GROUP, retry_topic
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import Extent, QueueOffset, QueueRef
from flintmq.model.route import MASTER_ID
from flintmq.model.start_point import StartPoint
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.command import Command


class BrokerCalls:
    """The calls of one consumer of ``group``."""

    def __init__(self, engine: ClientEngine, group: str, *, unit_mode: bool = False) -> None:
        self._engine = engine
        self._group = group
        self._unit_mode = unit_mode
        self._suggested: dict[QueueRef, int] = {}
        self._copies = Publisher(
            INNER_PRODUCER_GROUP, engine.routes, clock=engine.stopwatch, chance=engine.chance
        )

    # Pulls

    async def pull(self, pull: Pull) -> PullAnswer:
        """Pull once, from the replica that is wanted or from one that stands in for it."""
        engine, queue = self._engine, pull.queue
        broker_id = self._replica(pull)
        found = engine.locate(queue.broker, broker_id)
        if found is None:
            found = await self._find(queue, broker_id)
        version = None
        if pull.depends_on_version:
            version = engine.known_version(found.address)
            if version is None:
                version = await engine.version_of(found.address)
            check_filter(pull.subscription, queue.broker, version)
        asked = pull_request(pull, self._group, is_slave=found.is_slave, broker_version=version)
        reply = await engine.call(found.address, asked, pull.timeout_ms)
        return self.read(reply, pull, found.address)

    def prepare(self, pull: Pull) -> tuple[str, Command] | None:
        """The address and request of a pull; None where a server has to be asked before.

        For any thread.
        """
        found = self._engine.locate(pull.queue.broker, self._replica(pull))
        if found is None or pull.depends_on_version:
            return None
        return found.address, pull_request(pull, self._group, is_slave=found.is_slave)

    def read(self, reply: Command, pull: Pull, address: str) -> PullAnswer:
        """The answer to a pull; the replica it suggests is remembered.  For any thread."""
        answer = read_pull_answer(reply, pull.queue, address)
        if pull.broker_id is None:
            if answer.broker_id == MASTER_ID:
                self._suggested.pop(pull.queue, None)
            else:
                self._suggested[pull.queue] = answer.broker_id
        return answer

    def _replica(self, pull: Pull) -> int:
        if pull.broker_id is not None:
            return pull.broker_id
        return self._suggested.get(pull.queue, MASTER_ID)

    # Where queues begin and end

    async def min_offset(self, queue: QueueRef) -> QueueOffset:
        return await self._engine.hold(min_offset(await self.reader(queue), queue))

    async def max_offset(self, queue: QueueRef) -> QueueOffset:
        return await self._engine.hold(max_offset(await self.reader(queue), queue))

    async def extent(self, queue: QueueRef) -> Extent:
        return await self._engine.hold(extent(await self.reader(queue), queue))

    async def offset_at(self, queue: QueueRef, time_ms: int) -> QueueOffset:
        return await self._engine.hold(offset_at(await self.reader(queue), queue, time_ms))

    async def start_offset(
        self,
        queue: QueueRef,
        stored: QueueOffset | None,
        start: StartPoint,
        start_at_ms: int,
        *,
        is_broker_s: bool,
    ) -> StartOffset:
        """Where a group begins in a queue: at ``stored``, or by ``start`` if nothing is.

        ``is_broker_s``: it is the broker that said what is stored, and 0 may mean nothing.
        """
        may_be_nothing = stored == 0 and start.is_exact and is_broker_s
        if stored is not None and not may_be_nothing:
            return StartOffset(stored, is_stored=True)
        address = await self.master(queue)
        if may_be_nothing:
            version = await self._engine.version_of(address)
            if await self._engine.hold(is_committed(address, self._group, queue, version)):
                return StartOffset(QueueOffset(0), is_stored=True)
        choosing = choose_start_offset(address, queue, start, start_at_ms)
        return StartOffset(await self._engine.hold(choosing), is_stored=False)

    # The group

    async def members(self, topic: str) -> tuple[str, ...]:
        """The client ids of the group, as some broker of the topic knows them."""
        address = await self._engine.some_broker(topic)
        reply = await self._engine.call(address, members_request(self._group), MEMBERS_TIMEOUT_MS)
        return read_members(reply, address)

    async def lock(self, ask: LockQueues) -> tuple[QueueRef, ...]:
        """Lock queues of one broker; those that are locked for this client now."""
        address = await self.master(ask.queues[0])
        asked = lock_request(ask, self._group, self._engine.client_id)
        reply = await self._engine.call(address, asked, LOCK_TIMEOUT_MS)
        return read_locked(reply, address)

    async def unlock(self, unlock: UnlockQueues) -> None:
        """Unlock queues of one broker; it does not answer."""
        address = await self.master(unlock.queues[0])
        asked = unlock_request(unlock, self._group, self._engine.client_id)
        await self._engine.send_oneway(address, asked, LOCK_TIMEOUT_MS)

    # Messages that are consumed again

    async def send_back(self, ask: SendBack) -> None:
        """Have the master of a queue store a message for redelivery to the group."""
        address = await self.master(ask.queue)
        asked = send_back_request(ask, self._group, unit_mode=self._unit_mode)
        reply = await self._engine.call(address, asked, SEND_BACK_TIMEOUT_MS)
        if reply.code != ResponseCode.SUCCESS:
            raise refusal(reply, address)

    async def send_copy(self, copy: SendToRetry) -> None:
        """Send a message as a new one to a broker that has the retry topic: its own, or any."""
        engine = self._engine
        queues = near(copy.ask.queue, await engine.publish_queues(copy.topic))
        draft = draft_copy(copy, now_ms=engine.wall())
        await engine.hold(self._copies.send(draft, queues, COPY_TIMEOUT_MS))

    async def redeliver(self, message: ReceivedMessage, delay_level: int, tries_max: int) -> None:
        """Send a message back; send a copy to the retry topic where the broker refuses."""
        queue = QueueRef(message.topic, message.broker, message.queue_id)
        ask = SendBack(queue, message, delay_level, tries_max, "", None)
        try:
            await self.send_back(ask)
        except FlintError as error:
            self._engine.events.add("send back", str(queue), f"a copy is sent instead: {error}")
            await self.send_copy(copy_to_retry(ask, retry_topic(self._group)))

    # Addresses

    async def master(self, queue: QueueRef) -> str:
        """The address of the master of a queue's broker: only masters keep offsets and locks."""
        return await master_of(self._engine, queue)

    async def reader(self, queue: QueueRef) -> str:
        """The address to ask about a queue: the master, or a slave while there is none."""
        return await reader_of(self._engine, queue)

    async def _find(self, queue: QueueRef, broker_id: int) -> FoundRoute:
        await self._engine.refresh_route(queue.topic)
        found = self._engine.locate(queue.broker, broker_id)
        if found is None:
            raise NoRoute(queue.topic, f"broker {queue.broker} is not there now")
        return found


async def master_of(engine: ClientEngine, queue: QueueRef) -> str:
    """The address of the master of a queue's broker, from a new route if it is not known."""
    address = engine.address_of(queue.broker)
    if address is None:
        await engine.refresh_route(queue.topic)
        address = engine.address_of(queue.broker)
    if address is None:
        raise NoRoute(queue.topic, f"broker {queue.broker} has no master now")
    return address


async def reader_of(engine: ClientEngine, queue: QueueRef) -> str:
    """The address of the master of a queue's broker, or of a slave while there is none.

    A slave knows what a group has committed up to some seconds ago, so a group that begins there
    gets some messages again.  Where it knows nothing, only the master can say where to begin.
    """
    try:
        return await master_of(engine, queue)
    except NoRoute:
        found = engine.locate(queue.broker)
        if found is None:
            raise
        return found.address
