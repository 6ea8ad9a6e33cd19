"""A connection as processors see it: who is at the other end, and which one it is.

Two peers are the same only when they are the same connection: a client that connects again is
another peer.  What can be sent to a peer goes through `BrokerState.outbox`.
"""

from __future__ import annotations

from flintmq.access.rules import User
from flintmq.model.host import Host


class Peer:
    """One connection.  Compared by identity."""

    __slots__ = ("address", "host", "ip", "user")

    def __init__(self, address: str) -> None:
        self.address = address
        """``ip:port`` of the other end."""
        self.host = Host.parse(address)
        self.ip = self.host.ip
        self.user: User | None = None
        """Who signed the request that is served; None where access control asks nobody."""

    @property
    def account(self) -> str | None:
        """The name of that user."""
        return None if self.user is None else self.user.name

    def may_ask(self, account: str | None) -> bool:
        """Whether what this peer asks for is passed on to a client of an account.

        Admins may ask every client, others those of their own account.
        """
        user = self.user
        return user is None or user.is_super or user.is_admin or account == user.name

    def __repr__(self) -> str:
        return f"<Peer {self.address}>"
