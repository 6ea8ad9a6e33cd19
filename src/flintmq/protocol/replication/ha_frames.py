"""Frames of the HA connection, which a slave opens to its master.

    slave ─► master    8 bytes: the log offset up to which the slave has the master's log
    master ─► slave    12 bytes: a log offset and a size; then so many bytes of the log from there.
                       Size 0 is a heartbeat

Numbers are big-endian.  There is no preamble, no version and no authentication; 4.9 and 5.3 differ
in when they send, not in what.  A size that no master sends is refused, so a peer that speaks
another protocol is noticed at its first frame.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from flintmq.errors import MalformedFrame
from flintmq.model.queue import LogOffset

REPORT = Struct(">q")
HEADER = Struct(">qi")

TRANSFER_BYTES = 32 * 1024
"""haTransferBatchSize: what a master puts into one frame."""

TRANSFER_BYTES_MAX = 16 * 1024 * 1024
"""The largest frame a slave takes: any haTransferBatchSize that makes sense, with room."""


def encode_report(stop: LogOffset) -> bytes:
    """A slave says up to where it has the log."""
    return REPORT.pack(stop)


def encode_header(start: LogOffset, size_bytes: int) -> bytes:
    """What goes before bytes of the log, or alone as a heartbeat."""
    return HEADER.pack(start, size_bytes)


class ReportReader:
    """The reports of one slave, cut out of what its connection brings."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[LogOffset]:
        """The whole reports in the order they came; a part of one waits for the rest."""
        data = self._rest + data
        whole = len(data) - len(data) % REPORT.size
        self._rest = data[whole:]
        reports = [LogOffset(stop) for (stop,) in REPORT.iter_unpack(data[:whole])]
        if any(stop < 0 for stop in reports):
            raise MalformedFrame("a slave reports a negative log offset")
        return reports


class Piece(NamedTuple):
    """Bytes of the log at a place.  A heartbeat has none."""

    start: LogOffset
    octets: bytes


class PieceReader:
    """The frames of a master, as pieces of its log.

    A frame is given on as its bytes come, in as many pieces as that takes.
    """

    def __init__(self) -> None:
        self._head = b""
        self._at = LogOffset(0)
        self._left_bytes = 0

    def feed(self, data: bytes) -> Iterator[Piece]:
        """What came, piece by piece; a part of a header waits for the rest."""
        at = 0
        while at < len(data):
            if self._left_bytes:
                octets = data[at : at + self._left_bytes]
                yield Piece(self._at, octets)
                self._at = LogOffset(self._at + len(octets))
                self._left_bytes -= len(octets)
                at += len(octets)
                continue
            missing = HEADER.size - len(self._head)
            self._head += data[at : at + missing]
            at += missing
            if len(self._head) == HEADER.size:
                start, size_bytes = HEADER.unpack(self._head)
                self._head = b""
                if start < 0 or not 0 <= size_bytes <= TRANSFER_BYTES_MAX:
                    raise MalformedFrame(f"no master sends {size_bytes} bytes from {start} on")
                self._at, self._left_bytes = LogOffset(start), size_bytes
                if not size_bytes:
                    yield Piece(self._at, b"")
