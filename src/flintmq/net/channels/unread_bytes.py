"""What peers have not read of what was sent to them: bytes in our write buffers.

One connection may leave ``one_max`` unread, and all connections of a server ``all_max``.  Above the
first the connection is closed; above the second the one that left the most unread is.  Peers that
read are not in the table, or only for a moment.

Sizes in the table are those of the last write that left something unread: they only fall until the
next one.  Before anybody is closed for the sum, the sizes are read again.

Invariant: after `update` the sum of what is unread is at most ``all_max``.
"""

from __future__ import annotations

from typing import Protocol

from flintmq.logs import logger
from flintmq.net.refusals import Refusals

log = logger(__name__)

UNREAD_BYTES_MAX = 512 * 1024 * 1024
"""Of all connections.  A consumer that keeps up leaves some hundred kilobytes unread at most."""

ONE = "unreadBytesPerConnectionMax"
ALL = "unreadBytesMax"


class Writer(Protocol):
    """A connection, as it is seen here."""

    @property
    def peer(self) -> str: ...

    @property
    def unsent_bytes(self) -> int: ...

    def abort(self, reason: str) -> None: ...


class UnreadBytes:
    """The budget of one server, or of one connection of a client."""

    def __init__(
        self, one_max: int, all_max: int = UNREAD_BYTES_MAX, refusals: Refusals | None = None
    ) -> None:
        self._one_max = one_max
        self._all_max = all_max
        self._refusals = refusals or Refusals()
        self._table: dict[Writer, int] = {}
        self.total_bytes = 0

    def update(self, writer: Writer, unread_bytes: int) -> None:
        """So much is unread now of what was written to a connection."""
        self.total_bytes += unread_bytes - self._table.get(writer, 0)
        self._table[writer] = unread_bytes
        if unread_bytes > self._one_max:
            self._close(writer, ONE)
        if self.total_bytes > self._all_max:
            self._read_again()
        while self.total_bytes > self._all_max:
            self._close(max(self._table, key=self._table.__getitem__), ALL)

    def forget(self, writer: Writer) -> None:
        """A connection is closed."""
        self.total_bytes -= self._table.pop(writer, 0)

    def _read_again(self) -> None:
        self._table = {each: each.unsent_bytes for each in self._table if each.unsent_bytes}
        self.total_bytes = sum(self._table.values())

    def _close(self, writer: Writer, limit: str) -> None:
        unread_bytes = self._table.get(writer, 0)
        self._refusals.count(limit)
        log.warning("%s: closed, it left %d bytes unread (%s)", writer.peer, unread_bytes, limit)
        self.forget(writer)
        writer.abort(f"the peer left {unread_bytes} bytes unread")
