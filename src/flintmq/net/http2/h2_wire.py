"""The bytes of a connection of HTTP/2: what is written, what is held, and whether to read.

Memory is bounded both ways.  In: header blocks, one message of each call, what methods did not
read yet, and all of those together over every connection (`PartialFrames`).  Out: a client that
does not read is not read from either, so it can ask for no more; what it is owed counts
(`UnreadBytes`).

Invariant: frames leave whole, in the order in which they were written, once a turn.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Final

from flintmq.logs import logger
from flintmq.net.http2.call_server import CallServer
from flintmq.net.http2.grpc_call import GrpcCall
from flintmq.net.http2.open_calls import OpenCalls
from flintmq.net.http2.receive_window import ReceiveWindow
from flintmq.protocol.http2 import h2_frames as frames

log = logger(__name__)

CONNECTION_WINDOW_BYTES: Final = 16 * 1024 * 1024
"""How much a client may send on all calls before it is told to go on."""


class H2Wire(asyncio.Protocol):
    """A connection as its calls see it.  It belongs to the loop it was made on."""

    def __init__(self, server: CallServer, peer: str) -> None:
        self.peer = peer
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        """Done once the connection is closed."""
        self.window_bytes = frames.WINDOW_BYTES
        """What the client still takes on all calls."""
        self.calls = OpenCalls(self, server, peer)
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._window = ReceiveWindow(CONNECTION_WINDOW_BYTES)
        self._held_bytes = self._reported_bytes = self._unread_bytes = self._owed_bytes = 0
        self._out: list[bytes] = []
        self._is_full = self._is_behind = self._is_reading = self._is_over = False
        self._full_since_s = monotonic()

    def report(self) -> None:
        """Permit the client more, and tell the server what is held."""
        if more := self._window.permit(self._unread_bytes):
            self.write(frames.window_update(0, more))
        if self._held_bytes != self._reported_bytes and not self._is_over:
            is_new = self._held_bytes < self._reported_bytes
            self._reported_bytes = self._held_bytes
            self._server.partial.update(self, self._held_bytes, is_new=is_new)

    def write(self, data: bytes) -> None:
        """Queue whole frames.  They leave at the end of this turn."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(data)

    def hold(self, more_bytes: int, unread_bytes: int = 0) -> None:
        self._held_bytes += more_bytes
        self._unread_bytes += unread_bytes

    def owe(self, more_bytes: int) -> None:
        self._owed_bytes += more_bytes
        if more_bytes > 0 and not self._is_over:
            self._server.unread.update(self, self.unsent_bytes)

    @property
    def unsent_bytes(self) -> int:
        """What the client has not read yet."""
        transport = self._transport
        return self._owed_bytes + (0 if transport is None else transport.get_write_buffer_size())

    def has_room(self) -> bool:
        return not self._is_full

    def wait_for_room(self, call: GrpcCall) -> None:
        self.calls.blocked[call] = None

    def _flush(self) -> None:
        out = self._out
        if not out:
            return
        self._out = []
        transport = self._transport
        if transport is not None and not transport.is_closing():
            transport.write(out[0] if len(out) == 1 else b"".join(out))
            if transport.get_write_buffer_size():
                self._server.unread.update(self, self.unsent_bytes)

    def abort(self, reason: str) -> None:
        """Close at once."""
        log.info("%s: cut: %s", self.peer, reason)
        self._is_over = True
        if self._transport is not None:
            self._transport.abort()
        else:
            self.connection_lost(None)  # nobody else will say so

    # The transport

    def connection_lost(self, _error: Exception | None) -> None:
        self._is_over = True
        self.calls.cut_all()
        self._server.partial.forget(self)
        self._server.unread.forget(self)
        if not self.ended.done():
            self.ended.set_result(None)

    def pause_writing(self) -> None:
        self._is_full, self._full_since_s = True, monotonic()
        self._read_or_not()  # it can ask for no more

    def resume_writing(self) -> None:
        self._is_full = False
        self._read_or_not()
        self.calls.pump()

    def _read_or_not(self) -> None:
        wanted, transport = not (self._is_full or self._is_behind), self._transport
        if transport is None or transport.is_closing() or wanted == self._is_reading:
            return
        self._is_reading = wanted
        if wanted:
            transport.resume_reading()
        else:
            transport.pause_reading()
