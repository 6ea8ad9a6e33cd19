"""What a consuming group asks of brokers, carried out over the engine.

One coroutine for each action that has an answer.  Each comes back with what the broker said or
raises a `FlintError`; none tries again, since when to do that is for `core` to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from flintmq.client.engine.client_engine import Engine
from flintmq.client.offsets.offset_store import OffsetStore, ReadFrom
from flintmq.client.push.push_settings import PushConfig
from flintmq.core.ask import refusal
from flintmq.core.group.actions import (
    COMMIT_TIMEOUT_MS,
    LOCK_TIMEOUT_MS,
    MEMBERS_TIMEOUT_MS,
    SEND_BACK_TIMEOUT_MS,
    AskMembers,
    AskStartOffset,
    CommitOffset,
    ConfirmOffset,
    DeadLetterRecord,
    LockQueues,
    Pull,
    SendBack,
    SendToRetry,
    UnlockQueues,
)
from flintmq.core.group.consumer_requests import (
    check_broker_filters,
    dead_letter_request,
    lock_request,
    members_request,
    pull_request,
    read_locked,
    read_members,
    send_back_request,
    unlock_request,
)
from flintmq.core.group.pull_answers import OffsetMoved, PullAnswer, read_pull_answer
from flintmq.core.group.start_offset import StartOffset, choose_start_offset
from flintmq.core.producer.publisher import Publisher
from flintmq.core.producer.send_draft import draft_stored
from flintmq.core.routes import Found
from flintmq.errors import BrokerRefused, FlintError, NoRoute
from flintmq.model.group import INNER_PRODUCER_GROUP
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.protocol.codes import ResponseCode

_PASSING: Final = frozenset(
    {
        int(ResponseCode.SYSTEM_BUSY),
        int(ResponseCode.FLOW_CONTROL),
        int(ResponseCode.SERVICE_NOT_AVAILABLE),
    }
)
"""Answers that say nothing of the request, only that it is a bad time for it."""


class PushCalls:
    """The calls of one consumer."""

    def __init__(self, engine: Engine, config: PushConfig, store: OffsetStore) -> None:
        self._engine = engine
        self._config = config
        self._group = config.wire_group
        self._store = store
        self._copies = Publisher(
            INNER_PRODUCER_GROUP, engine.routes, clock=engine.stopwatch, chance=engine.chance
        )

    async def pull(self, pull: Pull) -> PullAnswer:
        """11, to the replica that was suggested last, or whoever stands in for it."""
        engine, queue = self._engine, pull.queue
        found = engine.locate(queue.broker, pull.broker_id)
        if found is None:
            found = await self._find(queue, pull.broker_id)
        if pull.subscription.sql is not None:
            version = await engine.version_of(found.address)
            if version is not None:
                check_broker_filters(pull, version)
        if pull.commit_offset is not None:  # else a commit that waits would take it back
            self._store.update(queue, pull.commit_offset)
        asked = pull_request(pull, self._group, is_slave=found.is_slave)
        reply = await engine.call(found.address, asked, pull.timeout_ms)
        return read_pull_answer(reply, queue, found.address)

    async def members(self, ask: AskMembers) -> tuple[str, ...]:
        """38."""
        address = await self._engine.some_broker(ask.topic)
        reply = await self._engine.call(address, members_request(self._group), MEMBERS_TIMEOUT_MS)
        return read_members(reply, address)

    async def start_offset(self, ask: AskStartOffset) -> StartOffset:
        """Where the group stands in a queue, or wants to begin: 14, then 30 or 29."""
        where = ReadFrom.STORE if self._config.is_clustering else ReadFrom.MEMORY_FIRST
        stored = await self._store.read(ask.queue, where)
        if stored is not None:
            return StartOffset(stored, is_stored=True)
        address = await master_of(self._engine, ask.queue)
        start_at_ms = self._config.starts_at_ms(self._engine.wall())
        chosen = await self._engine.hold(
            choose_start_offset(address, ask.queue, self._config.start_from, start_at_ms)
        )
        return StartOffset(chosen, is_stored=False)

    async def send_back(self, ask: SendBack) -> None:
        """36."""
        text = f"{ask.message.message_id} goes back: {ask.reason or 'not consumed'}"
        self._engine.events.add("retry", str(ask.queue), text)
        address = await master_of(self._engine, ask.queue)
        asked = send_back_request(ask, self._group, unit_mode=self._config.unit_mode)
        reply = await self._engine.call(address, asked, SEND_BACK_TIMEOUT_MS)
        if reply.code != ResponseCode.SUCCESS:
            raise refusal(reply, address)

    async def dead_letter(self, ask: DeadLetterRecord) -> str | None:
        """36 for a record that cannot be decoded; why it was refused, None if it was stored."""
        address = await master_of(self._engine, ask.queue)
        config = self._config
        tries_max = config.tries_max(ordered=config.ordered)
        asked = dead_letter_request(ask, self._group, tries_max, unit_mode=config.unit_mode)
        reply = await self._engine.call(address, asked, SEND_BACK_TIMEOUT_MS)
        if reply.code == ResponseCode.SUCCESS:
            return None
        if reply.code in _PASSING:
            raise refusal(reply, address)
        return str(refusal(reply, address))

    async def send_copy(self, copy: SendToRetry) -> None:
        """An ordinary send, to any broker that has the retry topic."""
        engine, message = self._engine, copy.ask.message
        draft = draft_stored(
            copy.topic, message.body, copy.properties, now_ms=engine.wall(), flag=message.flag
        )
        queues = await engine.publish_queues(copy.topic)
        await engine.hold(self._copies.send(draft, queues, SEND_BACK_TIMEOUT_MS))

    async def commit(self, commit: CommitOffset) -> None:
        """One offset, until it is taken."""
        await self._store.put(commit.queue, commit.offset)

    async def commit_soon(
        self, commits: Sequence[CommitOffset]
    ) -> list[tuple[CommitOffset, FlintError]]:
        """Many offsets at once; those that are known to have failed."""
        for commit in commits:
            self._store.update(commit.queue, commit.offset, increase_only=False)
        failures = await self._store.persist([commit.queue for commit in commits])
        return [(commit, failures[commit.queue]) for commit in commits if commit.queue in failures]

    async def confirm(self, ask: ConfirmOffset) -> QueueOffset | None:
        """11, then 14; None where a reset waited for the pull, since then that counts."""
        address = await master_of(self._engine, ask.queue)
        asked = pull_request(ask.pull, self._group)
        with suppress(BrokerRefused):
            reply = await self._engine.call(address, asked, COMMIT_TIMEOUT_MS)
            if isinstance(read_pull_answer(reply, ask.queue, address), OffsetMoved):
                return None
        return await self._store.read(ask.queue, ReadFrom.STORE)

    async def lock(self, ask: LockQueues) -> tuple[QueueRef, ...]:
        """41."""
        address = await master_of(self._engine, ask.queues[0])
        asked = lock_request(ask, self._group, self._engine.client_id)
        reply = await self._engine.call(address, asked, LOCK_TIMEOUT_MS)
        return read_locked(reply, address)

    async def unlock(self, unlock: UnlockQueues) -> None:
        """42, oneway."""
        address = await master_of(self._engine, unlock.queues[0])
        asked = unlock_request(unlock, self._group, self._engine.client_id)
        await self._engine.tell(address, asked, LOCK_TIMEOUT_MS)

    async def _find(self, queue: QueueRef, broker_id: int) -> Found:
        await self._engine.refresh_route(queue.topic)
        found = self._engine.locate(queue.broker, broker_id)
        if found is None:
            raise NoRoute(queue.topic, f"broker {queue.broker} is not there now")
        return found


async def master_of(engine: Engine, queue: QueueRef) -> str:
    """Where the master of a queue's broker listens; its route is asked for once more."""
    address = engine.address_of(queue.broker)
    if address is None:
        await engine.refresh_route(queue.topic)
        address = engine.address_of(queue.broker)
    if address is None:
        raise NoRoute(queue.topic, f"broker {queue.broker} has no master now")
    return address
