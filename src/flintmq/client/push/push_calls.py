"""The calls of a push consumer: `BrokerCalls`, and those that its offset store takes part in.

Each call carries out one action of the group and raises a `FlintError` where that fails; none is
tried again here.

Invariant: an offset that goes along with a pull is in the store before the pull leaves, so a
commit that waits cannot take it back.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from time import time_ns
from typing import Final

from flintmq.client.engine.broker_calls import BrokerCalls
from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.hooks.receive_hooks import Watch, operation_of
from flintmq.client.offsets.offset_store import OffsetStore, ReadFrom
from flintmq.client.offsets.watched_offsets import watched
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
    SendToRetry,
)
from flintmq.core.group.pull_answers import MessagesFound, OffsetMoved, PullAnswer, read_pull_answer
from flintmq.core.group.redelivery import redelivery_delay
from flintmq.core.group.requests import dead_letter_request
from flintmq.core.group.retry_copy import copy_to_retry, is_given_up, short_reason
from flintmq.core.group.start_offset import StartOffset
from flintmq.core.reading.pull_request import Pull, pull_request
from flintmq.errors import BrokerRefused, FlintError
from flintmq.model.group import retry_topic
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
        self._watch = Watch(config.consume_hooks, config.group, config.namespace, engine.user_name)
        self._store = watched(store, self._watch)

    async def pull(self, pull: Pull) -> PullAnswer:
        """Pull once; the offset that goes along is put into the store."""
        if pull.commit_offset is not None:
            self._store.update(pull.queue, pull.commit_offset)
        if not self._watch:
            return await super().pull(pull)
        started_ns = time_ns()
        try:
            answer = await super().pull(pull)
        except FlintError as error:
            self._watch.received(pull.queue, (), started_ns, error)
            raise
        if isinstance(answer, MessagesFound):
            self._watch.received(pull.queue, answer.messages, started_ns)
        return answer

    async def send_back(self, ask: SendBack) -> None:
        """Send a message back; one that is given up goes to the dead letters with its reason."""
        with self._settling(ask):
            await self._send_back(ask)

    def _settling(self, ask: SendBack) -> AbstractContextManager[None]:
        if not self._watch:
            return nullcontext()
        operation = operation_of(is_given_up=is_given_up(ask))
        return self._watch.settling(operation, [ask.queue], [ask.message])

    async def _send_back(self, ask: SendBack) -> None:
        if not is_given_up(ask):
            await super().send_back(ask)
            self._report_retry(ask)
            return
        try:
            await super().send_copy(copy_to_retry(ask, retry_topic(self._group)))
        except FlintError as error:
            text = f"the reason of {ask.message.message_id} cannot be stored with it: {error}"
            self._engine.events.add("dead letter", str(ask.queue), text, logging.WARNING)
            await super().send_back(ask)
        self._report_dead(ask)

    async def send_copy(self, copy: SendToRetry) -> None:
        """Send a copy to the retry topic, where the message itself was not taken back."""
        with self._settling(copy.ask):
            await super().send_copy(copy)
        if is_given_up(copy.ask):
            self._report_dead(copy.ask)
        else:
            self._report_retry(copy.ask)

    def _report_retry(self, ask: SendBack) -> None:
        text = f"{ask.message.message_id} goes back: {ask.reason or 'not consumed'}"
        plan = redelivery_delay(ask.message, ask.delay_level, ask.tries_max)
        level = logging.WARNING if ask.is_overdue else logging.INFO
        self._engine.events.add("retry", str(ask.queue), f"{text}; {plan}", level)

    def _report_dead(self, ask: SendBack) -> None:
        message = ask.message
        tries = f"try {message.reconsume_times + 1}"
        text = (
            f"message {message.message_id} at offset {message.queue_offset} is a dead letter of "
            f"group {self._config.group!r} after {tries}: {short_reason(ask)}"
        )
        self._engine.events.add("dead letter", str(ask.queue), text, logging.WARNING)

    async def locate(self, ask: AskStartOffset) -> StartOffset:
        """The stored offset of the group in a queue, or the one where it wants to begin."""
        config = self._config
        where = ReadFrom.STORE if config.is_clustering else ReadFrom.MEMORY_FIRST
        stored = await self._store.read(ask.queue, where)
        return await self.start_offset(
            ask.queue,
            stored,
            config.start,
            config.starts_at_ms(self._engine.wall()),
            is_broker_s=config.is_clustering and config.offset_store is None,
        )

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
