"""Request-and-reply dialogues, written once and driven by anyone.

A `Conversation` is a generator: it yields the `Call` it wants made and is sent the answer,
or has the error of the call thrown into it.  It never sees a socket.  `net.drive` holds it on
a thread or on an event loop.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import msgspec

from flintmq.protocol.command import ANSWER_BIT, Command

T = TypeVar("T")


class Call(msgspec.Struct, frozen=True, gc=False):
    """One request to one peer.  A oneway request is sent and not waited for."""

    address: str
    request: Command
    timeout_ms: int


SENT = Command(flag=ANSWER_BIT)
"""What a conversation is sent for a oneway request: it left, and nothing more is known."""

Conversation: TypeAlias = Generator[Call, Command, T]


@dataclass(frozen=True, slots=True)
class Pause:
    """A wait between two calls.  The driver answers it with `SENT`."""

    wait_ms: int


PausingConversation: TypeAlias = Generator[Call | Pause, Command, T]
"""A conversation that may also wait, as one that backs off does."""
