"""Messages that appear only if the work they stand for was done, on asyncio.

    async with TransactionProducer("bank", check=look_up, namesrv=…) as producer:
        await producer.send_in_transaction(Message("paid", b"…"), book)

``execute(message, transaction_id)`` does the work after the message is safe but unseen, and says
how it went.  ``check(message)`` is for a broker that never heard: it looks up how it went, may be
asked in any process of the group, and more than once.  Either may be a coroutine function; a
plain ``check`` runs on a thread of its own, so that it may block.

An ``execute`` that raises leaves the end unknown, so the broker will ask; the exception comes out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from inspect import isawaitable, iscoroutinefunction
from typing import Any, Final, Self, TypeAlias, Unpack

from flintmq.client.engine.members import TransactionCheck
from flintmq.client.producer.producer import Producer
from flintmq.client.producer.producer_settings import SEND_MS, ProducerSettings
from flintmq.client.producer.trace_hooks import is_traced, is_wanted, trace_end
from flintmq.core.producer.receipt import SendReceipt
from flintmq.core.producer.send_draft import draft_half
from flintmq.core.producer.transaction import (
    TransactionReceipt,
    TransactionState,
    end_of,
    end_of_check,
    may_execute,
    state_of,
)
from flintmq.errors import FlintError
from flintmq.model.message import Message, ReceivedMessage

Execute: TypeAlias = Callable[
    [Message, str], TransactionState | Awaitable[TransactionState | None] | None
]
Check: TypeAlias = Callable[
    [ReceivedMessage], TransactionState | Awaitable[TransactionState | None] | None
]

CHECKS_MAX: Final = 2_000
"""Checks that may wait for their turn; brokers ask again for those that are dropped."""

CHECK_END_MS: Final = 3_000
"""How long a stop waits for a check that is under way."""


class TransactionProducer(Producer):
    """A producer whose messages can be part of a transaction."""

    def __init__(self, group: str, check: Check, **settings: Unpack[ProducerSettings]) -> None:
        super().__init__(group, **settings)
        self._ask = check
        self._checks: asyncio.Queue[TransactionCheck] = asyncio.Queue(CHECKS_MAX)
        self._thread: ThreadPoolExecutor | None = None
        self._looking: asyncio.Future[Any] | None = None

    async def start(self) -> Self:
        await super().start()
        self._engine.spawn(self._keep_checking(), "transaction checks")
        return self

    async def stop(self) -> None:
        await super().stop()
        thread, self._thread = self._thread, None
        if thread is None:
            return
        if self._looking is not None:
            await asyncio.wait([self._looking], timeout=CHECK_END_MS / 1000)
        is_idle = self._looking is None or self._looking.done()
        if not is_idle:
            self._engine.events.add("check", self.group, "a check still runs", logging.WARNING)
        thread.shutdown(wait=is_idle, cancel_futures=True)

    async def send_in_transaction(
        self, message: Message, execute: Execute, *, timeout_ms: int = SEND_MS
    ) -> TransactionReceipt:
        """Store a message unseen, do the work, and show or drop the message accordingly.

        A message that was not stored as safely as asked for is rolled back without the work.
        """
        receipt = await self.send_half(message, timeout_ms=timeout_ms)
        state, remark = TransactionState.ROLLBACK, ""
        try:
            if may_execute(receipt):
                state = TransactionState.UNKNOWN
                result = execute(message, receipt.transaction_id or receipt.message_id)
                state = state_of(await result if isawaitable(result) else result)
        except BaseException as error:
            remark = f"executeLocalTransactionBranch exception: {error!r}"
            raise
        finally:
            await self.end_half(receipt, message, state, remark)
        return TransactionReceipt(receipt, state)

    async def send_half(self, message: Message, *, timeout_ms: int = SEND_MS) -> SendReceipt:
        """Store a half message only: `end_half` has to follow, or a broker will ask."""
        self._engine.life.require_running()
        now_ms = self._engine.wall()
        draft = draft_half(
            message,
            self._engine.wire_name(message.topic),
            group=self._publisher.group,
            unique_id=self._ids.make(now_ms),
            now_ms=now_ms,
            rules=self._rules,
        )
        return await self._send(draft, timeout_ms, (message,))

    async def end_half(
        self, receipt: SendReceipt, message: Message, state: TransactionState, remark: str = ""
    ) -> None:
        """Tell the broker how a transaction ended.  If that fails the broker asks later."""
        wire_topic = self._engine.wire_name(message.topic)
        end = end_of(receipt, wire_topic, self._publisher.group, state, remark)
        address = self._engine.address_of(receipt.queue.broker)
        try:
            if address is None:
                raise LookupError(receipt.queue.broker)
            await self._engine.send_oneway(address, end)
        except (FlintError, LookupError) as error:
            text = f"{state} of {receipt.message_id} was not told: {error}"
            self._engine.events.add("transaction", receipt.queue.broker, text, logging.WARNING)
            return
        if self._tracer is not None and is_traced(receipt):
            trace_end(
                self._tracer,
                message,
                state,
                group=self.group,
                message_id=receipt.message_id,
                transaction_id=receipt.transaction_id,
                address=address,
                region=receipt.region,
            )

    def _check(self, check: TransactionCheck) -> None:
        try:
            self._checks.put_nowait(check)
        except asyncio.QueueFull:
            text = f"{CHECKS_MAX} checks wait already; the broker will ask again"
            self._engine.events.add("check", check.address, text, logging.WARNING)

    async def _keep_checking(self) -> None:
        while True:
            check = await self._checks.get()
            state, remark = TransactionState.UNKNOWN, ""
            message = check.message._replace(topic=self._engine.user_name(check.message.topic))
            try:
                state = await self._look_up(message)
            except Exception as error:
                remark = f"checkLocalTransactionState Exception: {error!r}"
                text = f"the check of {message.message_id} failed: {error!r}"
                self._engine.events.add("check", message.topic, text, logging.ERROR)
            await self._answer(check, message, state, remark)

    async def _look_up(self, message: ReceivedMessage) -> TransactionState:
        ask = self._ask
        if iscoroutinefunction(ask):
            answer: object = await ask(message)
            return state_of(answer)
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "flintmq-check")
        loop = asyncio.get_running_loop()
        self._looking = loop.run_in_executor(self._thread, ask, message)
        answer = await asyncio.shield(self._looking)
        return state_of(await answer if isawaitable(answer) else answer)

    async def _answer(
        self,
        check: TransactionCheck,
        message: ReceivedMessage,
        state: TransactionState,
        remark: str,
    ) -> None:
        """``message`` is the one of the check as the user knows it."""
        topic, message_id = check.message.topic, message.message_id
        end = end_of_check(check.header, topic, self._publisher.group, message_id, state, remark)
        try:
            await self._engine.send_oneway(check.address, end)
        except FlintError as error:
            self._engine.events.add("check", check.address, f"not answered: {error}")
            return
        if self._tracer is not None and is_wanted(message):
            trace_end(
                self._tracer,
                message,
                state,
                group=self.group,
                message_id=message_id,
                transaction_id=check.header.transaction_id,
                address=check.address,
                from_check=True,
            )
