"""A connection as processors see it: who is at the other end, and which one it is.

Two peers are the same only when they are the same connection: a client that connects again is
another peer.  What can be sent to a peer goes through `BrokerState.outbox`.
"""

from __future__ import annotations

from flintmq.model.host import Host


class Peer:
    """One connection.  Compared by identity."""

    __slots__ = ("address", "host")

    def __init__(self, address: str) -> None:
        self.address = address
        """``ip:port`` of the other end."""
        self.host = Host.parse(address)

    def __repr__(self) -> str:
        return f"<Peer {self.address}>"
