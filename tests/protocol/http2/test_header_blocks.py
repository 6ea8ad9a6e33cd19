"""Header blocks are read as RFC 7541 says, whatever their peer refers to, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.errors import BodyTooLarge, MalformedHeader
from flintmq.protocol.http2.h2_frames import H2Fault
from flintmq.protocol.http2.hpack import FIELD_BYTES, HeaderReader
from flintmq.protocol.http2.huffman import unpack

WWW = "www.example.com"
EXAMPLES = [  # three requests on one connection, RFC 7541 appendix C.4
    (
        "828684418cf1e3c2e5f23a6ba0ab90f4ff",
        [
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/"),
            (":authority", WWW := "www.example.com"),
        ],
    ),
    (
        "828684be5886a8eb10649cbf",
        [
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/"),
            (":authority", WWW),
            ("cache-control", "no-cache"),
        ],
    ),
    (
        "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
        [
            (":method", "GET"),
            (":scheme", "https"),
            (":path", "/index.html"),
            (":authority", WWW),
            ("custom-key", "custom-value"),
        ],
    ),
]


def literal(name: str, value: str, *, is_kept: bool = True) -> bytes:
    texts = b"".join(bytes([len(text)]) + text.encode("latin-1") for text in (name, value))
    return (b"\x40" if is_kept else b"\x00") + texts


def indexed(index: int) -> bytes:
    return bytes([0x80 | index]) if index < 0x7F else bytes([0xFF, index - 0x7F])


def test_the_examples_of_the_standard_are_read() -> None:
    reader = HeaderReader(1_000)

    for block, fields in EXAMPLES:
        assert reader.read(bytes.fromhex(block)) == fields


def test_what_no_longer_fits_is_forgotten_the_oldest_first() -> None:
    reader = HeaderReader(100_000)
    for number in range(200):
        reader.read(literal("x-name", f"{number:020}"))

    kept = 4_096 // (len("x-name") + 20 + 32)
    assert reader.read(indexed(62)) == [("x-name", f"{199:020}")]
    assert reader.read(indexed(61 + kept)) == [("x-name", f"{200 - kept:020}")]
    with pytest.raises(MalformedHeader):
        reader.read(indexed(62 + kept))


@pytest.mark.parametrize(
    "block",
    [
        b"\x80",  # the field 0
        b"\xff\xff\xff\xff\xff\xff\x0f",  # a number without end
        b"\x40\x05ab",  # a cut text
        b"\x3f\xff\x7f",  # a table larger than agreed on
        b"\x82\x20",  # a new size after a field
        b"\x40\x01a\x84\xff\xff\xff\xff",  # the end symbol of the Huffman code
        b"\x40\x01a\x81\x00",  # padding that is not of ones
    ],
)
def test_what_is_no_block_is_refused(block: bytes) -> None:
    with pytest.raises(MalformedHeader):
        HeaderReader(1_000).read(block)


def test_a_small_block_does_not_become_large_metadata() -> None:
    """A block that is too large is refused when it was read, a bomb as soon as it is known."""
    reader = HeaderReader(16_384)
    reader.read(literal("x", "v" * 120))

    with pytest.raises(BodyTooLarge, match="16384"):
        reader.read(bytes([0x80 | 62]) * 200 + literal("y", "w"))
    assert reader.read(indexed(62) + indexed(63)) == [("y", "w"), ("x", "v" * 120)]
    with pytest.raises(H2Fault, match="too large"):
        reader.read(bytes([0x80 | 62]) * 16_000)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(block: bytes) -> None:
    try:
        fields = HeaderReader(1_000).read(block)
    except (MalformedHeader, BodyTooLarge, H2Fault):
        return
    assert sum(len(name) + len(value) + FIELD_BYTES for name, value in fields) <= 1_000


@given(st.binary(max_size=40))
def test_any_packed_text_is_read_or_refused(packed: bytes) -> None:
    try:
        text = unpack(packed)
    except MalformedHeader:
        return
    assert len(text) * 5 <= len(packed) * 8
