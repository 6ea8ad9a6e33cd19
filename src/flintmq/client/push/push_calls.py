"""The calls of a push consumer: `BrokerCalls`, and those that its offset store takes part in.

Each call carries out one action of the group and raises a `FlintError` where that fails; none is
tried again here.

Invariant: an offset that goes along with a pull is in the store before the pull leaves, so a
commit that waits cannot take it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from flintmq.client.engine.broker_calls import BrokerCalls
from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.offsets.offset_store import OffsetStore, ReadFrom
from flintmq.client.push.push_settings import PushConfig
from flintmq.core.ask import refusal
from flintmq.core.group.actions import (
    COMMIT_TIMEOUT_MS,
    SEND_BACK_TIMEOUT_MS,
    AskStartOffset,
    CommitOffset,
    ConfirmOffset,
    DeadLetterRecord,
    SendBack,
)
from flintmq.core.group.pull_answers import OffsetMoved, PullAnswer, read_pull_answer
from flintmq.core.group.requests import dead_letter_request
from flintmq.core.group.start_offset import StartOffset, choose_start_offset
from flintmq.core.reading.pull_request import Pull, pull_request
from flintmq.errors import BrokerRefused, FlintError
from flintmq.model.queue import QueueOffset
from flintmq.protocol.codes import ResponseCode

_PASSING: Final = frozenset(
    {
        int(ResponseCode.SYSTEM_BUSY),
        int(ResponseCode.FLOW_CONTROL),
        int(ResponseCode.SERVICE_NOT_AVAILABLE),
    }
)
"""Answers that say nothing of the request, only that it is a bad time for it."""


class PushCalls(BrokerCalls):
    """The calls of one push consumer."""

    def __init__(self, engine: ClientEngine, config: PushConfig, store: OffsetStore) -> None:
        super().__init__(engine, config.wire_group, unit_mode=config.unit_mode)
        self._config = config
        self._store = store

    async def pull(self, pull: Pull) -> PullAnswer:
        """Pull once; the offset that goes along is put into the store."""
        if pull.commit_offset is not None:
            self._store.update(pull.queue, pull.commit_offset)
        return await super().pull(pull)

    async def send_back(self, ask: SendBack) -> None:
        """Report a message and send it back."""
        text = f"{ask.message.message_id} goes back: {ask.reason or 'not consumed'}"
        self._engine.events.add("retry", str(ask.queue), text)
        await super().send_back(ask)

    async def start_offset(self, ask: AskStartOffset) -> StartOffset:
        """The stored offset of the group in a queue, or the one where it wants to begin."""
        where = ReadFrom.STORE if self._config.is_clustering else ReadFrom.MEMORY_FIRST
        stored = await self._store.read(ask.queue, where)
        if stored is not None:
            return StartOffset(stored, is_stored=True)
        address = await self.master(ask.queue)
        start_at_ms = self._config.starts_at_ms(self._engine.wall())
        chosen = await self._engine.hold(
            choose_start_offset(address, ask.queue, self._config.start_from, start_at_ms)
        )
        return StartOffset(chosen, is_stored=False)

    async def dead_letter(self, ask: DeadLetterRecord) -> str | None:
        """Have a record that cannot be decoded stored as a dead letter; the refusal, or None."""
        address = await self.master(ask.queue)
        config = self._config
        tries_max = config.tries_max(ordered=config.ordered)
        asked = dead_letter_request(ask, self._group, tries_max, unit_mode=config.unit_mode)
        reply = await self._engine.call(address, asked, SEND_BACK_TIMEOUT_MS)
        if reply.code == ResponseCode.SUCCESS:
            return None
        if reply.code in _PASSING:
            raise refusal(reply, address)
        return str(refusal(reply, address))

    async def commit(self, commit: CommitOffset) -> None:
        """Commit one offset and wait until it is stored."""
        await self._store.put(commit.queue, commit.offset)

    async def commit_soon(
        self, commits: Sequence[CommitOffset]
    ) -> list[tuple[CommitOffset, FlintError]]:
        """Commit many offsets at once; those that are known to have failed."""
        for commit in commits:
            self._store.update(commit.queue, commit.offset, increase_only=False)
        failures = await self._store.persist([commit.queue for commit in commits])
        return [(commit, failures[commit.queue]) for commit in commits if commit.queue in failures]

    async def confirm(self, ask: ConfirmOffset) -> QueueOffset | None:
        """Pull, then read the committed offset (QUERY_CONSUMER_OFFSET, 14).

        None where the pull met a reset of the group, since then the reset counts.
        """
        address = await self.master(ask.queue)
        asked = pull_request(ask.pull, self._group)
        with suppress(BrokerRefused):
            reply = await self._engine.call(address, asked, COMMIT_TIMEOUT_MS)
            if isinstance(read_pull_answer(reply, ask.queue, address), OffsetMoved):
                return None
        return await self._store.read(ask.queue, ReadFrom.STORE)
