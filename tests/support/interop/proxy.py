"""A TCP proxy that cuts both directions of every connection into frames and keeps them.

    with RecordingProxy(rocketmq.namesrv) as proxy:
        …                            # a client is told proxy.address
    for frame in proxy.take(): …

Whole frames are forwarded, in order and unchanged, unless a ``rewrite`` is given: it may replace
bytes of what the connecting side sends (never their number), and what is kept is the original.
``rewrite_answers`` does the same with what the other side sends.  A broker registers its own port,
and has it in every message it stores, and clients must come through the proxy all the same.

Refused: anything that is not framed as RocketMQ frames are.  TLS is therefore never recorded.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from support.interop.real import LOOPBACK, free_port

FRAME_BYTES_MAX = 16 * 1024 * 1024  # RocketMQ's own limit
RECEIVE_BYTES = 64 * 1024
CONNECT_TIMEOUT_S = 5.0
JOIN_TIMEOUT_S = 5.0

Rewrite = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class RecordedFrame:
    """One frame as it was received, with its length field."""

    connection: int
    to_server: bool  # sent by the side that connected
    frame: bytes


class RecordingProxy:
    """Listens on a port of its own and leads to ``upstream``."""

    def __init__(
        self,
        upstream: str,
        *,
        rewrite: Rewrite | None = None,
        rewrite_answers: Rewrite | None = None,
    ) -> None:
        host, _, port = upstream.rpartition(":")
        self._upstream = (host, int(port))
        self._rewrite, self._rewrite_answers = rewrite, rewrite_answers
        self.port = free_port()
        self.address = f"{LOOPBACK}:{self.port}"
        self._lock = threading.Lock()
        self._frames: list[RecordedFrame] = []
        self._failures: list[Exception] = []
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.connection_count = 0
        """How many connections were made; the last one has this number."""

    def __enter__(self) -> Self:
        listener = socket.create_server((LOOPBACK, self.port), backlog=64)
        self._sockets.append(listener)
        self._spawn(self._accept, listener)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            sockets, threads = list(self._sockets), list(self._threads)
        for open_socket in sockets:
            _shut(open_socket)
        for thread in threads:
            thread.join(JOIN_TIMEOUT_S)
        for open_socket in sockets:
            open_socket.close()
        if self._failures and error is None:
            raise self._failures[0]

    def take(self) -> list[RecordedFrame]:
        """All frames since the last call, in the order they came."""
        with self._lock:
            taken, self._frames = self._frames, []
            return taken

    def _spawn(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        with self._lock:
            self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                return  # closed by __exit__
            try:
                far = socket.create_connection(self._upstream, CONNECT_TIMEOUT_S)
            except OSError:
                near.close()  # what a client sees when nobody listens
                continue
            far.settimeout(None)
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._sockets += [near, far]
            self.connection_count += 1
            self._spawn(self._carry, self.connection_count, near, far)

    def _carry(self, connection: int, near: socket.socket, far: socket.socket) -> None:
        """Both directions of a connection, until both have ended."""
        back = threading.Thread(target=self._pump, args=(connection, False, far, near), daemon=True)
        back.start()
        self._pump(connection, True, near, far)
        back.join()
        with self._lock:
            for end in (near, far):
                self._sockets.remove(end)
                end.close()

    def _pump(
        self, connection: int, to_server: bool, source: socket.socket, target: socket.socket
    ) -> None:
        pending = bytearray()
        try:
            while received := source.recv(RECEIVE_BYTES):
                pending += received
                while (frame := _cut(pending)) is not None:
                    with self._lock:
                        self._frames.append(RecordedFrame(connection, to_server, frame))
                    rewrite = self._rewrite if to_server else self._rewrite_answers
                    target.sendall(frame if rewrite is None else _changed(frame, rewrite))
        except OSError:
            pass  # either end may go away at any time
        except ValueError as error:
            self._failures.append(error)
        finally:
            _shut(source)
            _shut(target)


def _changed(frame: bytes, rewrite: Rewrite) -> bytes:
    changed = rewrite(frame)
    if len(changed) != len(frame):
        raise ValueError("a rewrite must keep the length of the frame")
    return changed


def _cut(pending: bytearray) -> bytes | None:
    """Take one whole frame from the front, or None when it is not all there yet."""
    if len(pending) < 4:
        return None
    (length,) = struct.unpack_from(">I", pending)
    if not 4 <= length <= FRAME_BYTES_MAX:
        raise ValueError(f"not a frame: length {length}")
    if len(pending) < 4 + length:
        return None
    frame = bytes(pending[: 4 + length])
    del pending[: 4 + length]
    return frame


def _shut(open_socket: socket.socket) -> None:
    with contextlib.suppress(OSError):  # already gone
        open_socket.shutdown(socket.SHUT_RDWR)
