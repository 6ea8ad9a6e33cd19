"""Cutting a stream of bytes into frames.

A frame is what one side of a connection says at a time:

    ┌───────────┬──────┬────────────┬──────────┬────────┐
    │ length  4 │ form │ header len │ header H │ body B │     length = 4 + H + B
    └───────────┴──────┴────────────┴──────────┴────────┘
                   1         3

The reader refuses to guess: a length over the cap, a header longer than its frame or
an unknown header form raises at once, before a byte is set aside for it.

Invariant: at most one incomplete frame is held, and never more than the cap plus one read.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import TypeAlias

from flintmq.errors import FrameTooLarge, LocalProtocolError, MalformedFrame
from flintmq.kernel.face import loops

FRAME_BYTES_MAX = 16 * 1024 * 1024
"""What RocketMQ's own servers and clients accept, the length field included."""

HEADER_BYTES_MAX = 0xFF_FF_FF
"""The header length has 24 bits."""

HEADER_BYTES_ACCEPTED = 512 * 1024
"""Headers have properties of 32 kB at most, or a filter expression; reading half a megabyte of
fields takes tens of milliseconds, and the whole of the 24 bits would take seconds."""

LARGE_BYTES = 64 * 1024
"""From here on a copy less is worth some lines."""

PREFIX_BYTES = 8
"""The length, the form and the header length."""

PREFIX = Struct(">iI")
_unpack_prefix = PREFIX.unpack_from
_pack_prefix = PREFIX.pack


class HeaderForm(IntEnum):
    """How the header of a frame is written.  Every frame says it for itself."""

    JSON = 0
    BINARY = 1


Frame: TypeAlias = tuple[int, bytes, bytes]
"""One frame, still undecoded: form, header, body.  A bare tuple, since millions are made."""

_FORM_MAX = max(HeaderForm)


class FrameReader:
    """Bytes in, whole frames out.  One per connection and direction."""

    def __init__(self, bytes_max: int = FRAME_BYTES_MAX) -> None:
        if bytes_max < PREFIX_BYTES:
            raise ValueError(f"a frame has at least {PREFIX_BYTES} bytes, not {bytes_max}")
        self.bytes_max = bytes_max
        self._pending = bytearray()
        self._wanted = PREFIX_BYTES  # bytes that must be there before looking again

    @property
    def pending_bytes(self) -> int:
        """How much of an incomplete frame is held."""
        return len(self._pending)

    def clear(self) -> None:
        """Drop what is held, and its memory."""
        self._pending, self._wanted = bytearray(), PREFIX_BYTES

    def feed(self, data: bytes) -> list[Frame]:
        """Take what arrived; return the frames it completes, in order."""
        if self._pending:
            self._pending += data
            if len(self._pending) < self._wanted:
                return []
            if len(self._pending) == self._wanted >= LARGE_BYTES:
                return [self._large()]
            data = bytes(self._pending)
            self._pending.clear()
        frames, at, self._wanted, fault = loops.cut_frames(
            data, self.bytes_max, HEADER_BYTES_ACCEPTED
        )
        if fault is not None:
            raise _fault(*fault, self.bytes_max)
        if at < len(data):
            self._hold(data[at:])
        return frames

    def _large(self) -> Frame:
        """The frame that is held, whole and checked, copied once and not twice."""
        pending, self._pending, self._wanted = self._pending, bytearray(), PREFIX_BYTES
        form, header_bytes, _ = read_prefix(pending, self.bytes_max)
        body_at = PREFIX_BYTES + header_bytes
        with memoryview(pending) as view:
            return form, bytes(view[PREFIX_BYTES:body_at]), bytes(view[body_at:])

    def _hold(self, rest: bytes) -> None:
        """Keep the start of a frame; its length alone may already be a reason to stop."""
        if len(rest) < 4:
            self._wanted = 4
        else:
            length = int.from_bytes(rest[:4], "big", signed=True)
            if not 4 <= length <= self.bytes_max - 4:
                raise _fault(length, 0, self.bytes_max)
        self._pending += rest


def _fault(length: int, word: int, bytes_max: int) -> FrameTooLarge | MalformedFrame:
    if length > bytes_max - 4:
        return FrameTooLarge(length + 4, bytes_max)
    if length < 4:
        return MalformedFrame(f"a frame length of {length} is impossible")
    if word >> 24 > _FORM_MAX:
        return MalformedFrame(f"header form {word >> 24} is unknown")
    if HEADER_BYTES_ACCEPTED < word & HEADER_BYTES_MAX <= length - 4:
        return MalformedFrame(
            f"a header of {word & HEADER_BYTES_MAX} bytes is over the limit"
            f" of {HEADER_BYTES_ACCEPTED}"
        )
    return MalformedFrame(
        f"a header of {word & HEADER_BYTES_MAX} bytes does not fit a frame of {length}"
    )


def read_prefix(
    data: bytes | bytearray | memoryview, bytes_max: int = FRAME_BYTES_MAX
) -> tuple[int, int, int]:
    """Form, header length and body length of the frame whose first `PREFIX_BYTES` these are.

    For those who receive a large body where it will stay; raises what `FrameReader` raises.
    """
    length, word = _unpack_prefix(data)
    form, header_bytes = word >> 24, word & HEADER_BYTES_MAX
    fits = 4 + header_bytes <= length <= bytes_max - 4
    if not fits or form > _FORM_MAX or header_bytes > HEADER_BYTES_ACCEPTED:
        raise _fault(length, word, bytes_max)
    return form, header_bytes, length - 4 - header_bytes


def frame_prefix(
    form: HeaderForm, header: bytes, body_bytes: int, bytes_max: int = FRAME_BYTES_MAX
) -> bytes:
    """The bytes of a frame up to its body, so that the body itself need not be copied."""
    return _prefix(form, len(header), body_bytes, bytes_max) + header


def whole_frame(form: HeaderForm, header: bytes, body: bytes) -> bytes:
    """A frame, each part of it copied once."""
    return b"".join((_prefix(form, len(header), len(body), FRAME_BYTES_MAX), header, body))


def _prefix(form: HeaderForm, header_bytes: int, body_bytes: int, bytes_max: int) -> bytes:
    length = 4 + header_bytes + body_bytes
    if length + 4 > bytes_max or header_bytes > HEADER_BYTES_MAX:
        raise LocalProtocolError(
            f"a frame of {length + 4} bytes is over the limit of {bytes_max}; send a smaller body"
        )
    return _pack_prefix(length, form << 24 | header_bytes)
