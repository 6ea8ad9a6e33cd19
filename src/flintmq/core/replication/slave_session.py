"""One connection of a slave to its master: what to report, and which bytes to take.

RocketMQ's protocol does not tell a slave whether its log is still that of its master.  A master
that lost its last records, or that was once a slave itself, goes on where the slave ends, and then
two logs differ with equal offsets.  So a slave asks for its own last bytes first: it reports an end
`OVERLAP_BYTES` before its own, compares what comes with what it has, and takes what comes behind.

    connected ─► comparing ──── the same ────► following
                    ├─ other bytes ──────────► LogMismatch
                    └─ two heartbeats, no data ► LogMismatch: the master has nothing there

An empty slave reports 0, and the master begins with its last file.  A report of 0 means just that,
so a slave whose whole log is asked for again reports 1.

Invariant: a report never names a byte that was not stored, nor one that was not compared.
"""

from __future__ import annotations

from flintmq.errors import LogMismatch
from flintmq.model.queue import LogOffset
from flintmq.protocol.replication.ha_frames import Piece

OVERLAP_BYTES = 64 * 1024
"""How much of a slave's log is compared: two frames, and mostly many records, each of which has its
store time, its place and the id of its message."""

EMPTY_HEARTBEATS_MAX = 2
"""A master may send one heartbeat before the data it has; a second one says that it has none."""


class SlaveSession:
    """``tail`` is the end of the slave's log, which ends at ``end``."""

    def __init__(self, end: LogOffset, tail: bytes) -> None:
        self.is_empty = end == 0
        """Whether the log may begin wherever the master does."""
        start = max(end - len(tail), min(end, 1))
        self._tail = tail[len(tail) - (end - start) :]
        self._end = end
        self.position = LogOffset(start)
        """The next byte that must come."""
        self._heartbeats = 0

    @property
    def is_comparing(self) -> bool:
        """Whether bytes of the slave's own log have not come yet."""
        return self.position < self._end

    def report(self, stored_to: LogOffset) -> LogOffset:
        """What to tell the master when everything before ``stored_to`` is stored."""
        return self.position if self.is_comparing else stored_to

    def receive(self, piece: Piece) -> bytes:
        """The bytes of a piece that are to be stored.  Raises `LogMismatch`."""
        start, octets = piece
        if self.is_empty:
            self.position = self._end = start
            self.is_empty = False
        if start != self.position:
            reason = f"the master sends from there, and {self.position} is what follows"
            raise LogMismatch(start, reason)
        if not octets:
            self._heartbeats += 1
            if self.is_comparing and self._heartbeats >= EMPTY_HEARTBEATS_MAX:
                raise LogMismatch(start, self._nothing())
            return b""
        self._heartbeats = 0
        self.position = LogOffset(start + len(octets))
        known = self._end - start
        if known <= 0:
            return octets
        at = len(self._tail) - known
        mine = self._tail[at : at + len(octets)]
        if octets[:known] != mine:
            raise LogMismatch(_first_difference(start, mine, octets), _DIVERGED)
        return octets[known:]

    def _nothing(self) -> str:
        return (
            f"the master has nothing there, and this slave's log ends at {self._end}: the "
            "master's log is shorter, or retention has removed that part of it"
        )


_DIVERGED = "the master has other bytes there than this slave: the two logs have diverged"


def _first_difference(start: LogOffset, mine: bytes, theirs: bytes) -> LogOffset:
    pairs = enumerate(zip(mine, theirs, strict=False))
    return LogOffset(start + next(at for at, (one, other) in pairs if one != other))
