"""The log of a running broker, read from its HA port as a slave would read it.

Nothing is ever acknowledged: what is reported again and again, so that the master does not close,
is the place where reading began.  A master serves peers from addresses that it knows as slaves'.
"""

from __future__ import annotations

import socket
from collections.abc import Generator

from flintmq.errors import MalformedFrame, Unreachable
from flintmq.model.queue import LogOffset
from flintmq.net.blocking.blocking import dial
from flintmq.net.clock import Clock, monotonic_ms
from flintmq.net.limits import CONNECT_MS
from flintmq.net.reasons import why
from flintmq.protocol.replication.ha_frames import Piece, PieceReader, encode_report

READ_BYTES = 1024 * 1024
REPORT_MS = 4_000
"""A little more often than slaves report, which is every 5 s."""

SILENCE_MS = 25_000
"""Masters send heartbeats every 5 s; one that sends nothing for so long has nothing to say."""

NOT_SERVED = (
    "it sent nothing and closed: this is no HA port, or it serves slaves from other addresses only "
    "(haAllowedSlaves of the broker lists more)"
)


def read_log(
    address: str,
    start: LogOffset | None,
    *,
    silence_ms: int = SILENCE_MS,
    clock: Clock = monotonic_ms,
) -> Generator[Piece]:
    """Pieces of a broker's log from ``start`` on, without an end; None is from its last file on.

    Close it when enough was read.  Raises `Unreachable`.
    """
    report = encode_report(LogOffset(0) if start is None else max(start, LogOffset(1)))
    with dial(address, None, None, CONNECT_MS) as sock:
        reader, has_heard = PieceReader(), False
        reported_ms = heard_ms = clock()
        sock.settimeout(REPORT_MS / 1000)
        try:
            sock.sendall(report)
            while True:
                data = _received(sock)
                now_ms = clock()
                if now_ms - reported_ms >= REPORT_MS:
                    sock.sendall(report)
                    reported_ms = now_ms
                if data is None:
                    if now_ms - heard_ms > silence_ms:
                        raise Unreachable(address, f"it sent nothing for {silence_ms} ms")
                    continue
                if not data:
                    raise Unreachable(address, "it closed" if has_heard else NOT_SERVED)
                has_heard, heard_ms = True, now_ms
                yield from reader.feed(data)
        except MalformedFrame as error:
            raise Unreachable(address, f"this is no HA port: {error}") from None
        except OSError as error:
            raise Unreachable(address, why(error)) from None


def _received(sock: socket.socket) -> bytes | None:
    """What has come; nothing at the end; None when it is time to report again."""
    try:
        return sock.recv(READ_BYTES)
    except TimeoutError:
        return None
