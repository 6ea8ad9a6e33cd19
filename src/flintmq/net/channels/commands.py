"""A session that answers command by command: what clients and simple servers need.

Each request goes to one handler, a function that gives the answer, None for no answer, or
an awaitable of either.  Awaitables run side by side, so answers leave in the order they are
ready.  A request whose connection is lost is given up: nobody could be answered.

The handler may raise: the peer is answered with code 1 and the error's text.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from flintmq.errors import FlintError, LocalProtocolError
from flintmq.logs import logger
from flintmq.net.channels.channel import Channel
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.command import ANSWER_BIT, Command, answer
from flintmq.protocol.frame import Frame
from flintmq.protocol.wire import decode_command

log = logger(__name__)

Outcome: TypeAlias = Command | None
Handler: TypeAlias = Callable[[Command, Channel], Outcome | Awaitable[Outcome]]

LOOK_EVERY = 16
"""Commands after which it is seen whether this turn has taken too long."""

REQUESTS_MAX = 1_024
"""Requests of one peer that may be under way at once; more are answered with code 2."""


def refuse(request: Command, _channel: Channel) -> Command:
    """The handler of those who serve nothing."""
    code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    return answer(request, code, remark=f" request type {request.code} not supported")


class CommandSession:
    """Decodes frames, routes answers to their calls and requests to the handler."""

    def __init__(self, channel: Channel, handler: Handler) -> None:
        self._channel = channel
        self._handler = handler
        self._tasks: set[asyncio.Task[None]] = set()

    def frames(self, frames: list[Frame]) -> None:
        channel = self._channel
        for number, frame in enumerate(frames, 1):
            command = decode_command(frame)
            if command.flag & ANSWER_BIT:
                channel.answered(command)
            else:
                self._serve(command)
            if not number % LOOK_EVERY and not channel.has_time():
                channel.later(frames[number:])
                return

    def lost(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def finish(self) -> None:
        tasks = list(self._tasks)
        try:
            if tasks:
                await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _serve(self, request: Command) -> None:
        if len(self._tasks) >= REQUESTS_MAX:
            self._reply(request, _busy(request))
            return
        try:
            outcome = self._handler(request, self._channel)
        except Exception as error:
            self._reply(request, self._failure(request, error))
            return
        if outcome is None or isinstance(outcome, Command):
            self._reply(request, outcome)
        else:
            task = asyncio.get_running_loop().create_task(self._reply_later(request, outcome))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _reply_later(self, request: Command, outcome: Awaitable[Outcome]) -> None:
        try:
            reply = await outcome
        except Exception as error:
            reply = self._failure(request, error)
        self._reply(request, reply)

    def _reply(self, request: Command, reply: Outcome) -> None:
        if reply is None:
            return
        try:
            self._channel.answer(request, reply)
        except LocalProtocolError as error:  # too large for a frame
            self._channel.answer(request, self._failure(request, error))

    def _failure(self, request: Command, error: Exception) -> Command:
        if isinstance(error, FlintError):
            log.info("%s: request %d failed: %s", self._channel.peer, request.code, error)
        else:
            log.error("%s: request %d failed", self._channel.peer, request.code, exc_info=error)
        remark = f"{type(error).__name__}: {error}"
        return answer(request, ResponseCode.SYSTEM_ERROR, remark=remark)


def _busy(request: Command) -> Command:
    remark = f"more than {REQUESTS_MAX} requests of this connection are under way"
    return answer(request, ResponseCode.SYSTEM_BUSY, remark=remark)
