"""Parts of a buffer as Arrow columns: where they are goes in, one array of them comes out.

Bytes are copied once, all of a column together.  Arrow wants the values of a column side by
side, so the parts cannot stay where they are.

Text is UTF-8 and bytes that are none become U+FFFD, as `parse_properties` has it.  Nearly all
text is ASCII, which is seen at a glance; the rest is checked by Arrow, and only a column in
which something is wrong is looked at value by value.

Offsets are 32 bits wide: a buffer of 2 GiB or more is refused with an assertion, for no page
may be that large.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flintmq.protocol.records.record_scan import windows

if TYPE_CHECKING:
    import numpy.typing as npt

    from flintmq.protocol.records.record import Buffer

    Ints: TypeAlias = npt.NDArray[np.int64]
    Mask: TypeAlias = npt.NDArray[np.bool_]

BUFFER_BYTES_MAX: Final = 2**31 - 1

TIME_MS_MAX: Final = (2**63 - 1) // 1000
"""Milliseconds that a timestamp can hold as microseconds, before and after 1970."""

INDICES_KEPT_MAX: Final = 8
"""Index arrays remembered, each twice as long as the one before: few are ever needed."""

INDICES_MIN: Final = 4_096


def binary_column(buffer: Buffer, start: Ints, length: Ints) -> pa.BinaryArray:
    """The bytes of every part.  A length below zero is a null."""
    count = len(start)
    if count == 0:
        return pa.array([], pa.binary())
    width = int(length[0])
    if width > 0 and (length == width).all():
        return _equal_parts(buffer, start, width)
    assert len(buffer) <= BUFFER_BYTES_MAX, len(buffer)
    absent = length < 0
    has_nulls = bool(absent.any())
    slots = np.empty(2 * count + 1, np.int32)  # each part, and what lies before the next one
    slots[:-1:2] = start
    slots[1::2] = start + length
    if has_nulls:
        slots[:-1:2][absent] = slots[1::2][absent] = 0
    slots[-1] = len(buffer)
    laid_out = _array(pa.binary(), 2 * count, None, slots, pa.py_buffer(buffer))
    parts = pc.take(laid_out, _even_numbers(count), boundscheck=False)
    if not has_nulls:
        return parts
    _, offsets, values = parts.buffers()
    return pa.Array.from_buffers(pa.binary(), count, [_validity(~absent), offsets, values])


def text_column(parts: pa.BinaryArray) -> pa.StringArray:
    """The parts of a buffer as a column of text."""
    validity, offsets, values = parts.buffers()
    if _is_ascii(values):
        return pa.Array.from_buffers(pa.string(), len(parts), [validity, offsets, values])
    try:
        return parts.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [_text(part) for part in parts.to_pylist()]
        return pa.array(texts, pa.string())


def is_text(parts: pa.BinaryArray) -> bool:
    """Whether all of it is UTF-8."""
    if _is_ascii(parts.buffers()[2]):
        return True
    try:
        parts.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def number_column(kind: pa.DataType, numbers: npt.NDArray[np.generic]) -> pa.Array:
    """Numbers that have the width of ``kind`` already."""
    return _array(kind, len(numbers), None, np.ascontiguousarray(numbers))


def time_column(kind: pa.DataType, times_ms: Ints) -> pa.Array:
    """Milliseconds as a timestamp of microseconds; what it cannot hold is null."""
    if len(times_ms) == 0:
        return pa.array([], kind)
    most = TIME_MS_MAX
    if int(times_ms.min()) >= -most and int(times_ms.max()) <= most:
        return _array(kind, len(times_ms), None, times_ms * 1000)
    fits = (times_ms >= -most) & (times_ms <= most)
    return _array(kind, len(times_ms), fits, np.where(fits, times_ms, 0) * 1000)


def list_column(
    kind: pa.DataType, offsets: npt.NDArray[np.integer], items: pa.Array, valid: Mask | None = None
) -> pa.Array:
    """Lists or maps: row n has the items from ``offsets[n]`` to ``offsets[n + 1]``."""
    bounds = pa.py_buffer(offsets.astype(np.int32))
    validity = None if valid is None else _validity(valid)
    return pa.Array.from_buffers(kind, len(offsets) - 1, [validity, bounds], children=[items])


def octets_of(parts: pa.BinaryArray) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
    """The bytes of all parts side by side, and where each begins; the last number is the end."""
    _, offsets, values = parts.buffers()
    bounds = np.frombuffer(offsets, np.int32, len(parts) + 1)
    octets = np.frombuffer(b"" if values is None else values, np.uint8)
    return octets[: bounds[-1]], bounds


def _equal_parts(buffer: Buffer, start: Ints, width: int) -> pa.BinaryArray:
    """Parts of the same length, which is common and quicker."""
    octets = windows(buffer, width)[start].view(np.uint8)
    assert len(octets) <= BUFFER_BYTES_MAX, len(octets)
    offsets = np.arange(0, len(octets) + 1, width, dtype=np.int32)
    return _array(pa.binary(), len(start), None, offsets, pa.py_buffer(octets))


def _array(
    kind: pa.DataType,
    count: int,
    valid: Mask | None,
    numbers: npt.NDArray[np.generic],
    *values: pa.Buffer,
) -> pa.Array:
    validity = None if valid is None else _validity(valid)
    return pa.Array.from_buffers(kind, count, [validity, pa.py_buffer(numbers), *values])


def _validity(valid: Mask) -> pa.Buffer:
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def _is_ascii(values: pa.Buffer | None) -> bool:
    if values is None or values.size == 0:
        return True
    return int(np.frombuffer(values, np.uint8).max()) < 0x80


def _text(part: bytes | None) -> str | None:
    return None if part is None else part.decode("utf-8", "replace")


def _even_numbers(count: int) -> pa.Array:
    """0, 2, 4 …, so many of them."""
    return _even_numbers_to(max(INDICES_MIN, 1 << (count - 1).bit_length())).slice(0, count)


@lru_cache(maxsize=INDICES_KEPT_MAX)
def _even_numbers_to(count: int) -> pa.Array:
    return pa.array(np.arange(0, 2 * count, 2, dtype=np.int32))
