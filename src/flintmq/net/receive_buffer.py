"""Where a blocking socket's bytes land, and the frames found there.

`FrameReader` takes bytes that an event loop has already put somewhere.  Here we choose where
they go, so a large body is copied once, from the buffer into the frame.

Invariant: what is held is at most one incomplete frame and the read that came with it.
"""

from __future__ import annotations

from collections.abc import Callable

from flintmq.protocol.frame import PREFIX_BYTES, Frame, read_prefix

READ_BYTES = 64 * 1024


class ReceiveBuffer:
    """Bytes in, whole frames out."""

    def __init__(self, frame_bytes_max: int) -> None:
        self._frame_bytes_max = frame_bytes_max
        self._buffer = bytearray(READ_BYTES)
        self.pending_bytes = 0
        """How much of an incomplete frame is held."""

    def receive(self, recv_into: Callable[[memoryview], int]) -> list[Frame]:
        """Read once and give the frames that are now whole; `EOFError` when the peer is done.

        Whatever ``recv_into`` raises, nothing that was read before is lost.
        """
        with memoryview(self._buffer) as view, view[self.pending_bytes :] as room:
            count = recv_into(room)
        if count == 0:
            raise EOFError
        return self._cut(self.pending_bytes + count)

    def _cut(self, stop: int) -> list[Frame]:
        frames: list[Frame] = []
        start, wanted = 0, READ_BYTES
        with memoryview(self._buffer) as view:
            while stop - start >= PREFIX_BYTES:
                form, header_bytes, body_bytes = read_prefix(
                    view[start : start + PREFIX_BYTES], self._frame_bytes_max
                )
                body_start = start + PREFIX_BYTES + header_bytes
                if body_start + body_bytes > stop:
                    wanted = body_start + body_bytes - start
                    break
                header = bytes(view[start + PREFIX_BYTES : body_start])
                frames.append((form, header, bytes(view[body_start : body_start + body_bytes])))
                start = body_start + body_bytes
            rest = bytes(view[start:stop]) if start or wanted > len(view) else None
        if wanted > len(self._buffer):
            self._buffer = bytearray(max(wanted, READ_BYTES))
        if rest is not None:
            self._buffer[: len(rest)] = rest
        self.pending_bytes = stop - start
        return frames
