"""What the owner of a channel makes of it: the face that `Channel` calls.

There is one session for each channel.  `NO_SESSION` stands in before there is one and after the
connection is closed, so that neither keeps the other in memory.
"""

from __future__ import annotations

from typing import Protocol

from flintmq.protocol.frame import Frame


class Session(Protocol):
    """The handler of the frames of a channel.  There is one session for each channel."""

    def frames(self, frames: list[Frame]) -> None:
        """All frames of one read.  What is written meanwhile leaves in one write.

        A `RemoteProtocolError` that comes out closes the channel.
        """

    def lost(self) -> None:
        """The connection is closed; nothing more can be sent."""

    async def finish(self) -> None:
        """The channel is about to be closed: come back when nothing is owed to the peer.

        It is cancelled when that takes too long.
        """


class NoSession:
    """Stands for a session before there is one and after it has ended, so that it can be freed."""

    def frames(self, frames: list[Frame]) -> None:
        """Nobody is there to read them."""

    def lost(self) -> None:
        """Nobody is there to be informed."""

    async def finish(self) -> None:
        """Nothing is owed."""


NO_SESSION = NoSession()


def no_session(_channel: object) -> Session:
    return NO_SESSION
