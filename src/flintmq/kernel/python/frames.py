"""Whole frames of a stream of bytes.

`protocol.frame` says what a frame is, holds the rest of a read, and tells faults in words.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple, TypeAlias

PREFIX_BYTES = 8
"""Length, form and header length."""

HEADER_BYTES_MASK = 0xFF_FF_FF
FORM_MAX = 1

RawFrame: TypeAlias = tuple[int, bytes, bytes]
"""Form, header and body of a frame."""

_unpack_prefix = Struct(">iI").unpack_from


class CutFrames(NamedTuple):
    """The frames from a place on, where the first incomplete one is, and how long it will be.

    ``fault`` is length and form of a frame that cannot be; then the rest says nothing.
    """

    frames: list[RawFrame]
    stop: int
    wanted: int
    fault: tuple[int, int] | None


def cut_frames(data: bytes, bytes_max: int, header_bytes_max: int) -> CutFrames:
    """Take whole frames from the start of ``data``."""
    frames: list[RawFrame] = []
    at, end, header_max = 0, len(data), PREFIX_BYTES + header_bytes_max
    while end - at >= PREFIX_BYTES:
        length, word = _unpack_prefix(data, at)
        form = word >> 24
        stop = at + 4 + length
        header_stop = at + PREFIX_BYTES + (word & HEADER_BYTES_MASK)
        if (
            header_stop > stop
            or stop - at > bytes_max
            or form > FORM_MAX
            or header_stop - at > header_max
        ):
            return CutFrames([], at, 0, (length, word))
        if stop > end:
            return CutFrames(frames, at, stop - at, None)
        frames.append((form, data[at + PREFIX_BYTES : header_stop], data[header_stop:stop]))
        at = stop
    return CutFrames(frames, at, PREFIX_BYTES, None)
