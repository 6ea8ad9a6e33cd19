"""The two drivers of a `Conversation`: one blocks, one awaits.

``call`` carries one call out; the ``make`` of `BlockingChannels` and of `Channels` do.  Its
errors go into the conversation, which may try elsewhere or let them out.  A `Pause` is slept
through here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

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
