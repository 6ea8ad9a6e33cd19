"""The two drivers of a `Conversation`: one blocks, one awaits.

``call`` carries one call out; the ``make`` of `BlockingChannels` and of `Channels` do.  Its
errors go into the conversation, which may try elsewhere or let them out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from flintmq.core.conversation import Call, Conversation
from flintmq.errors import FlintError
from flintmq.protocol.command import Command

T = TypeVar("T")


def drive(conversation: Conversation[T], call: Callable[[Call], Command]) -> T:
    """Hold the conversation on this thread.  Spark tasks and the command line do."""
    try:
        wanted = next(conversation)
        while True:
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
    conversation: Conversation[T], call: Callable[[Call], Awaitable[Command]]
) -> T:
    """Hold the conversation on the running loop.  The same lines, awaited."""
    try:
        wanted = next(conversation)
        while True:
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
