"""Sends that share requests, on the loop: `core.producer.auto_batch` says which and when.

A message fails alone where it alone is at fault.  A request that was refused before anything was
stored, for what is in it, is taken apart and its messages are sent one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Protocol, TypeVar

import msgspec

from flintmq.client.producer.send_starter import Outcome
from flintmq.core.producer.auto_batch import Gathering, Lane, gathered_bytes
from flintmq.core.producer.receipt import SendReceipt
from flintmq.core.producer.send_draft import DraftRules
from flintmq.errors import (
    BodyTooLarge,
    BrokerRefused,
    InvalidSetting,
    LocalProtocolError,
    SendFailed,
)
from flintmq.model.message import Message
from flintmq.protocol.codes import ResponseCode


class Sends(Protocol):
    """The part of a producer that is needed here."""

    async def send(self, message: Message, *, timeout_ms: int) -> SendReceipt: ...

    async def send_batch(
        self, messages: Sequence[Message], *, timeout_ms: int
    ) -> list[SendReceipt]: ...


class WaitingSend(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A message, its deadline, and the callback that gets the ticket and the result.

    Nothing it refers to refers to it, so that the garbage collector need not know it.
    """

    message: Message
    timeout_ms: int
    until_ms: int
    done: Callable[[Any, Outcome], object]
    ticket: object


T = TypeVar("T")

_until_ms = attrgetter("until_ms")


class Gather:
    """The messages of one producer that may share requests."""

    def __init__(self, sends: Sends, rules: DraftRules, stopwatch: Callable[[], int]) -> None:
        self._sends = sends
        self._rules = rules
        self._stopwatch = stopwatch
        self._gathering: Gathering[WaitingSend] = Gathering(rules)
        self._is_leaving = False
        self._tasks: set[asyncio.Task[None]] = set()

    def add(
        self, message: Message, timeout_ms: int, done: Callable[[T, Outcome], object], ticket: T
    ) -> bool:
        """Send a message soon and call ``done(ticket, outcome)``; False when it has to go alone.

        On the loop.
        """
        size_bytes = gathered_bytes(message, self._rules)
        if size_bytes is None:
            return False
        until_ms = self._stopwatch() + timeout_ms
        waiting = WaitingSend(message, timeout_ms, until_ms, done, ticket)
        self._gathering.add(message, size_bytes, waiting)
        if not self._is_leaving:
            self._leave_soon()
        return True

    def _leave_soon(self) -> None:
        if not self._is_leaving:
            self._is_leaving = True
            asyncio.get_running_loop().call_soon(self._leave)

    def _leave(self) -> None:
        """Send what waits, at the end of a turn of the loop, so that it shares a request."""
        self._is_leaving = False
        for lane, group in self._gathering.next_groups():
            task = asyncio.get_running_loop().create_task(self._send(lane, group))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _send(self, lane: Lane, group: list[WaitingSend]) -> None:
        try:
            now_ms = self._stopwatch()
            if min(map(_until_ms, group)) <= now_ms:
                for each in group:
                    if each.until_ms <= now_ms:
                        each.done(each.ticket, _too_late(each, now_ms))
                group = [each for each in group if each.until_ms > now_ms]
            for each, outcome in zip(group, await self._outcomes(group, now_ms), strict=True):
                each.done(each.ticket, outcome)
        except asyncio.CancelledError as error:
            for each in group:
                each.done(each.ticket, error)
            raise
        finally:
            self._gathering.ended(lane)
            self._leave_soon()

    async def _outcomes(self, group: list[WaitingSend], now_ms: int) -> Sequence[Outcome]:
        if len(group) > 1:
            left_ms = min(map(_until_ms, group)) - now_ms
            messages = [each.message for each in group]
            try:
                return await self._sends.send_batch(messages, timeout_ms=left_ms)
            except Exception as error:
                if not _is_for_one(error):
                    return [error] * len(group)
        alone = (
            self._sends.send(each.message, timeout_ms=each.until_ms - now_ms) for each in group
        )
        return await asyncio.gather(*alone, return_exceptions=True)


def _is_for_one(error: Exception) -> bool:
    """Whether one message of a batch may be the reason why none of it was stored."""
    if isinstance(error, BrokerRefused):
        return error.code == ResponseCode.MESSAGE_ILLEGAL
    return isinstance(error, (BodyTooLarge, InvalidSetting, LocalProtocolError))


def _too_late(each: WaitingSend, now_ms: int) -> SendFailed:
    waited_ms = now_ms - each.until_ms + each.timeout_ms
    reason = f"{each.timeout_ms} ms are over, and it had not left"
    return SendFailed(each.message.topic, 0, waited_ms, "", 0, reason)
