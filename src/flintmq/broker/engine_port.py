"""What an engine needs of its owner: answers sent, clients asked, topics registered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from flintmq.broker.requests.outcome import Answer
from flintmq.broker.requests.peer import Peer
from flintmq.protocol.command import Command
from flintmq.protocol.typed_request import TypedRequest

Request: TypeAlias = TypedRequest[Any]


class Port(Protocol):
    """What the owner of an engine does for it."""

    def answer(self, peer: Peer, request: Request, answer: Answer) -> None:
        """Send an answer to a peer, if it is still connected."""

    def send_oneway(self, peer: Peer, request: Command) -> None:
        """Send a request that takes no answer, if the peer is still connected."""

    def ask_client(
        self,
        peer: Peer | None,
        request: Command,
        timeout_ms: int,
        then: Callable[[Command | None], None],
    ) -> None:
        """Send a request to a client, or for None to a name server.

        ``then`` gets the answer, or None without one, in a later turn.
        """

    def close(self, peer: Peer, reason: str) -> None:
        """End a connection."""

    def announce(self, topics: set[str], then: Callable[[], None]) -> None:
        """Register changed topics with the name servers; call ``then`` when it is done, or soon."""
