"""How much SQL92 the broker compiles for whom, and for all together.

A new text costs up to 40 ms of CPU; one that was compiled before costs nothing.  So every
connection has an allowance of characters, and the broker has one for all of them, which fill up
again with time.  A text that finds none left is not compiled now: a pull is answered that the
broker is busy, and a heartbeat registers the filter with one of its next.

Invariant: what one request makes the broker compile is never more than `PEER_CHARACTERS`.
"""

from __future__ import annotations

from flintmq.broker.requests.peer import Peer
from flintmq.errors import Overloaded

PEER_CHARACTERS = 8_192
"""Of new texts a second for one connection: at worst 5 % of a core.  Forty texts of 200."""

BROKER_CHARACTERS = 65_536
"""Of new texts a second for all connections: at worst a third of a core."""

TEXT_CHARACTERS = 4_096
"""A longer text counts for so many: it is long because of texts in it, which are cheap."""


class CompileBudget:
    """The allowances of all connections."""

    def __init__(self) -> None:
        self._broker = _Allowance(BROKER_CHARACTERS)
        self._peers: dict[Peer, _Allowance] = {}

    def __len__(self) -> int:
        return len(self._peers)

    def spend(self, peer: Peer, text: str, now_ms: int) -> bool:
        """Whether a new text may be compiled for a connection now; if so it is counted."""
        cost = min(len(text), TEXT_CHARACTERS)
        own = self._peers.get(peer)
        if own is None:
            own = self._peers[peer] = _Allowance(PEER_CHARACTERS)
        if not (own.has(cost, now_ms) and self._broker.has(cost, now_ms)):
            return False
        own.spend(cost)
        self._broker.spend(cost)
        return True

    def require(self, peer: Peer, text: str, now_ms: int) -> None:
        """Count a new text.  Raises `Overloaded` when there is nothing left."""
        if not self.spend(peer, text, now_ms):
            raise Overloaded("new SQL92 texts a second", PEER_CHARACTERS, "PEER_CHARACTERS")

    def forget(self, peer: Peer) -> None:
        """A connection was lost."""
        self._peers.pop(peer, None)


class _Allowance:
    """So many a second, and no more than that at once."""

    __slots__ = ("_left", "_seen_ms", "_size")

    def __init__(self, size: int) -> None:
        self._size = size
        self._left = size
        self._seen_ms = 0

    def has(self, cost: int, now_ms: int) -> bool:
        elapsed_ms = max(0, now_ms - self._seen_ms)
        self._seen_ms = now_ms
        self._left = min(self._size, self._left + self._size * elapsed_ms // 1_000)
        return cost <= self._left

    def spend(self, cost: int) -> None:
        self._left -= cost
