"""Parts of a buffer come out as one column, and Arrow's idea of text is Python's."""

from __future__ import annotations

from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.arrow.byte_spans import (
    binary_column,
    is_text,
    list_column,
    octets_of,
    text_column,
)

ODD_BYTES = (
    0x00,
    0x41,
    0x7F,
    0x80,
    0x8F,
    0xA0,
    0xBF,
    0xC0,
    0xC2,
    0xE0,
    0xED,
    0xEF,
    0xF0,
    0xF4,
    0xFF,
)


def column(parts: list[bytes | None]) -> pa.BinaryArray:
    """The parts in a buffer with something between them."""
    buffer = b"-".join(part or b"" for part in parts)
    start, length, at = [], [], 0
    for part in parts:
        start.append(at)
        length.append(-1 if part is None else len(part))
        at += len(part or b"") + 1
    return binary_column(buffer, np.array(start, np.int64), np.array(length, np.int64))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.none() | st.binary(max_size=6), max_size=6))
def test_parts_come_out_as_they_went_in(parts: list[bytes | None]) -> None:
    made = column(parts)

    made.validate(full=True)
    assert made.to_pylist() == parts
    octets, bounds = octets_of(made)
    assert octets.tobytes() == b"".join(part or b"" for part in parts)
    assert np.diff(bounds).tolist() == [len(part or b"") for part in parts]


@pytest.mark.parametrize("part", [b"", b"x", b"xyz"])
def test_parts_of_one_length_come_out_as_they_went_in(part: bytes) -> None:
    made = column([part] * 5)

    made.validate(full=True)
    assert made.to_pylist() == [part] * 5


def test_more_parts_than_ever_before() -> None:
    parts: list[bytes | None] = [b"a" * (n % 3) for n in range(10_000)]

    assert column(parts).to_pylist() == parts


def test_bytes_that_are_no_text_are_replaced_as_python_does() -> None:
    parts = [bytes(octets) for n in range(1, 5) for octets in product(ODD_BYTES, repeat=n)]
    texts = [part.decode("utf-8", "replace") for part in parts]

    assert text_column(column([*parts, None])).to_pylist() == [*texts, None]


def test_what_is_text_is_told_as_python_tells_it() -> None:
    parts = [bytes(octets) for n in range(1, 4) for octets in product(ODD_BYTES, repeat=n)]

    for part in parts:
        try:
            part.decode()
        except UnicodeDecodeError:
            assert not is_text(column([b"a", part])), part
        else:
            assert is_text(column([b"a", part])), part
            assert text_column(column([part, None])).to_pylist() == [part.decode(), None]


def test_lists_may_be_empty_or_null() -> None:
    kind = pa.list_(pa.field("element", pa.int64()))
    offsets, valid = np.array([0, 2, 2, 3]), np.array([True, False, True])

    made = list_column(kind, offsets, pa.array([1, 2, 3]), valid)

    made.validate(full=True)
    assert made.to_pylist() == [[1, 2], None, [3]]
    assert list_column(kind, offsets, pa.array([1, 2, 3])).to_pylist() == [[1, 2], [], [3]]
