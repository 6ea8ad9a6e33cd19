"""The drivers of a `Conversation`: one blocks, one awaits, and one is driven on by answers.

``call`` carries one call out; the ``make`` of `BlockingChannels` and of `Channels` do.  Its
errors go into the conversation, which may try elsewhere or let them out.  A `Pause` is slept
through here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

from flintmq.core.conversation import SENT, Call, Pause, PausingConversation
from flintmq.errors import FlintError
from flintmq.protocol.command import Command

T = TypeVar("T")


def drive(conversation: PausingConversation[T], call: Callable[[Call], Command]) -> T:
    """Hold the conversation on this thread.  Spark tasks and the command line do."""
    try:
        wanted = next(conversation)
        while True:
            if isinstance(wanted, Pause):
                time.sleep(wanted.wait_ms / 1000)
                wanted = conversation.send(SENT)
                continue
            try:
                reply = call(wanted)
            except FlintError as error:
                wanted = conversation.throw(error)
            else:
                wanted = conversation.send(reply)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        conversation.close()


async def drive_async(
    conversation: PausingConversation[T], call: Callable[[Call], Awaitable[Command]]
) -> T:
    """Hold the conversation on the running loop.  The same lines, awaited."""
    try:
        wanted = next(conversation)
        while True:
            if isinstance(wanted, Pause):
                await asyncio.sleep(wanted.wait_ms / 1000)
                wanted = conversation.send(SENT)
                continue
            try:
                reply = await call(wanted)
            except FlintError as error:
                wanted = conversation.throw(error)
            else:
                wanted = conversation.send(reply)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        conversation.close()


class Calls(Protocol):
    """What carries calls out for a `Driven` conversation."""

    def begin(self, call: Call, waiter: Driven[Any], /) -> bool:
        """Send it and have its answer given to ``waiter``; False where it has to be awaited."""

    def make(self, call: Call, /) -> Awaitable[Command]:
        """Carry it out, whatever that takes."""


class Driven(Generic[T]):
    """A conversation on the running loop that nobody awaits: each answer drives it on.

    It needs no task and no future for a call that can be sent at once.  ``ended`` gets what the
    conversation comes to, or the exception that ended it.
    """

    __slots__ = ("_calls", "_conversation", "_ended", "_task")

    def __init__(
        self,
        conversation: PausingConversation[T],
        calls: Calls,
        ended: Callable[[T | BaseException], object],
    ) -> None:
        self._conversation = conversation
        self._calls = calls
        self._ended = ended
        self._task: asyncio.Future[Command] | None = None

    def start(self) -> None:
        """Make the first call."""
        try:
            wanted = next(self._conversation)
        except StopIteration as end:
            outcome: T | BaseException = end.value
        except Exception as error:
            outcome = error
        else:
            self._make(wanted)
            return
        self._ended(outcome)

    def answered(self, answer: Command, /) -> None:
        """The last call was answered: go on."""
        try:
            wanted = self._conversation.send(answer)
        except StopIteration as end:
            outcome: T | BaseException = end.value
        except Exception as error:
            outcome = error
        else:
            self._make(wanted)
            return
        self._ended(outcome)

    def failed(self, error: Exception, /) -> None:
        """The last call failed: go on, if the conversation knows how."""
        try:
            wanted = self._conversation.throw(error)
        except StopIteration as end:
            outcome: T | BaseException = end.value
        except Exception as raised:
            outcome = raised
        else:
            self._make(wanted)
            return
        self._ended(outcome)

    def _make(self, wanted: Call | Pause) -> None:
        """Carry out what the conversation wants; its end drives it on."""
        if isinstance(wanted, Pause):
            loop = asyncio.get_running_loop()
            loop.call_later(wanted.wait_ms / 1000, self.answered, SENT)
            return
        try:
            if self._calls.begin(wanted, self):
                return
            self._task = asyncio.ensure_future(self._calls.make(wanted))
            self._task.add_done_callback(self._made)
        except FlintError as error:
            self.failed(error)
        except Exception as error:
            self._conversation.close()
            self._ended(error)

    def _made(self, task: asyncio.Future[Command]) -> None:
        self._task = None
        if task.cancelled():
            self._conversation.close()
            self._ended(asyncio.CancelledError())
        elif error := task.exception():
            if isinstance(error, FlintError):
                self.failed(error)
            else:
                self._conversation.close()
                self._ended(error)
        else:
            self.answered(task.result())
