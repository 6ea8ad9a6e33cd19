"""A connection as processors see it: who is at the other end, and which one it is.

Two peers are the same only when they are the same connection: a client that connects again is
another peer.  What can be sent to a peer goes through `BrokerState.outbox`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from flintmq.access.rules import User
from flintmq.model.host import Host

BEHIND_BYTES: Final = 4 * 1024 * 1024
"""With more than this unread, or on its way, a peer gets no more messages until it has read."""

BEHIND_MS: Final = 10
"""How long a request of a peer that is behind waits at least."""


class Peer:
    """One connection.  Compared by identity."""

    __slots__ = ("_turn_ms", "address", "host", "ip", "owed_bytes", "unsent_bytes", "user")

    def __init__(self, address: str) -> None:
        self.address = address
        """``ip:port`` of the other end."""
        self.host = Host.parse(address)
        self.ip = self.host.ip
        self.user: User | None = None
        """Who signed the request that is served; None where access control asks nobody."""
        self.owed_bytes = 0
        """Of answers that are ready and wait for the log."""
        self.unsent_bytes: Callable[[], int] = _nothing
        """What was sent and the peer has not read; the owner of the connection says so."""
        self._turn_ms = 0

    @property
    def account(self) -> str | None:
        """The name of that user."""
        return None if self.user is None else self.user.name

    @property
    def is_behind(self) -> bool:
        """Whether the peer has to read before it gets more messages."""
        return self.owed_bytes + self.unsent_bytes() > BEHIND_BYTES

    def next_turn_ms(self, now_ms: int) -> int:
        """When to look again at a request that waits because the peer is behind.

        Each has its turn, one a millisecond: many that wait cost no more than a few, and none is
        passed over.
        """
        self._turn_ms = max(self._turn_ms + 1, now_ms + BEHIND_MS)
        return self._turn_ms

    def may_ask(self, account: str | None) -> bool:
        """Whether what this peer asks for is passed on to a client of an account.

        Admins may ask every client, others those of their own account.
        """
        user = self.user
        return user is None or user.is_super or user.is_admin or account == user.name

    def __repr__(self) -> str:
        return f"<Peer {self.address}>"


def _nothing() -> int:
    return 0
