"""Header blocks of any encoder are read as they were meant, packed or not, with every size of the
table; and every symbol of the Huffman code has its bits.
"""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.errors import BodyTooLarge, MalformedHeader
from flintmq.protocol.http2.grpc_form import GrpcStatus, status_fields, timeout_s, unpack_message
from flintmq.protocol.http2.hpack import _STATIC, FIELD_BYTES, TABLE_BYTES, HeaderReader
from flintmq.protocol.http2.huffman import END, _codes, unpack
from support.net.h2_client import number

Field = tuple[str, str]

GET = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")]
TOLD = [(":status", "302"), ("cache-control", "private")]
MOVED = ("location", "https://www.example.com")
COOKIE = "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1"
SIZE_256 = "3fe101"
REQUESTS = [
    GET,
    [*GET, ("cache-control", "no-cache")],
    [
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/index.html"),
        (":authority", "www.example.com"),
        ("custom-key", "custom-value"),
    ],
]
ANSWERS = [
    [*TOLD, ("date", "Mon, 21 Oct 2013 20:13:21 GMT"), MOVED],
    [
        (":status", "307"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
        MOVED,
    ],
    [
        (":status", "200"),
        ("cache-control", "private"),
        ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
        MOVED,
        ("content-encoding", "gzip"),
        ("set-cookie", COOKIE),
    ],
]
EXAMPLES = {  # RFC 7541, appendix C; the answers in a table of 256 bytes
    "C.3": (
        REQUESTS,
        "828684410f7777772e6578616d706c652e636f6d",
        "828684be58086e6f2d6361636865",
        "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
    ),
    "C.5": (
        ANSWERS,
        SIZE_256
        + "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a3231"
        + "20474d546e1768747470733a2f2f7777772e6578616d706c652e636f6d",
        "4803333037c1c0bf",
        (
            "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738"
            "666f6f3d4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d33"
            "3630303b2076657273696f6e3d31"
        ),
    ),
    "C.6": (
        ANSWERS,
        SIZE_256
        + "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad1718"
        + "63c78f0b97c8e9ae82ae43d3",
        "4883640effc1c0bf",
        (
            "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7"
            "b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007"
        ),
    ),
}
CODES = {  # of RFC 7541, appendix B: some of every region
    0: (0x1FF8, 13), 1: (0x7FFFD8, 23), 10: (0x3FFFFFFC, 30), 32: (0x14, 6), 33: (0x3F8, 10),
    48: (0x0, 5), 88: (0xFC, 8), 90: (0xFD, 8), 92: (0x7FFF0, 19), 97: (0x3, 5),
    126: (0x1FFD, 13), 127: (0xFFFFFFC, 28), 220: (0xFFFFFFD, 28), 249: (0xFFFFFFE, 28),
    255: (0x3FFFFEE, 26), END: (0x3FFFFFFF, 30),
}  # fmt: skip


def packed(data: bytes) -> bytes:
    """By the Huffman code, filled up with ones."""
    codes = _codes()
    bits = "".join(f"{codes[byte][0]:0{codes[byte][1]}b}" for byte in data)
    bits += "1" * (-len(bits) % 8)
    return int(bits or "0", 2).to_bytes(len(bits) // 8, "big")


def text(value: str, *, is_packed: bool) -> bytes:
    data = value.encode("latin-1")
    if not is_packed:
        return number(len(data), 7) + data
    data = packed(data)
    return number(len(data), 7, 0x80) + data


class Encoder:
    """The other end: it refers to what it said before wherever it may."""

    def __init__(self) -> None:
        self._table: list[Field] = []  # the newest first
        self._bytes_max = TABLE_BYTES

    def resize(self, bytes_max: int) -> bytes:
        self._bytes_max = bytes_max
        self._shrink()
        return number(bytes_max, 5, 0x20)

    def field(self, field: Field, first: int, *, is_packed: bool) -> bytes:
        every = [*_STATIC, *self._table]
        if field in every and first == 0x80:
            return number(every.index(field) + 1, 7, 0x80)
        first = 0x40 if first == 0x80 else first
        names = [name for name, _ in every]
        index = names.index(field[0]) + 1 if field[0] in names else 0
        made = number(index, 6 if first == 0x40 else 4, first)
        if not index:
            made += text(field[0], is_packed=is_packed)
        if first == 0x40:
            self._table.insert(0, field)
            self._shrink()
        return made + text(field[1], is_packed=is_packed)

    def _shrink(self) -> None:
        while sum(len(n) + len(v) + FIELD_BYTES for n, v in self._table) > self._bytes_max:
            self._table.pop()


TEXTS = st.text(st.characters(max_codepoint=255), max_size=40)
FIELDS = st.tuples(st.sampled_from(["x", "content-type", "grpc-timeout", "y" * 130]) | TEXTS, TEXTS)
SAID = st.tuples(FIELDS, st.sampled_from([0x80, 0x40, 0x10, 0x00]), st.booleans())
BLOCKS = st.tuples(st.lists(st.integers(0, TABLE_BYTES), max_size=2), st.lists(SAID, max_size=12))


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_the_standard_are_read(name: str) -> None:
    reader = HeaderReader(1_000)
    expected, *blocks = EXAMPLES[name]

    assert [reader.read(bytes.fromhex(str(block))) for block in blocks] == expected


@given(st.lists(BLOCKS, max_size=8))
def test_what_an_encoder_says_is_what_is_read(blocks: list[tuple[list[int], list]]) -> None:  # type: ignore[type-arg]
    encoder, reader = Encoder(), HeaderReader(1_000_000)
    for sizes, said in blocks:
        block = b"".join(encoder.resize(size) for size in sizes)
        for field, first, is_packed in said:
            block += encoder.field(field, first, is_packed=is_packed)
        assert reader.read(block) == [field for field, _, _ in said]


def test_fields_that_were_forgotten_cannot_be_named() -> None:
    reader = HeaderReader(1_000)
    reader.read(b"\x40\x01a\x01b")
    assert reader.read(b"\xbe") == [("a", "b")]
    assert reader.read(b"\x20\x3f\xe1\x1f") == []  # to nothing and back: two updates at once
    with pytest.raises(MalformedHeader):
        reader.read(b"\xbe")


def test_a_field_larger_than_the_table_empties_it() -> None:
    reader = HeaderReader(10_000)
    large = b"\x40\x01a" + number(5_000, 7) + b"v" * 5_000
    assert reader.read(b"\x40\x01a\x01b" + large)[1] == ("a", "v" * 5_000)
    with pytest.raises(MalformedHeader):
        reader.read(b"\xbe")


def test_every_symbol_has_its_bits() -> None:
    codes = _codes()
    assert set(codes) == set(range(END + 1))
    assert sum(2 ** (30 - bits) for _, bits in codes.values()) == 2**30  # nothing is left over
    assert {symbol: codes[symbol] for symbol in CODES} == CODES
    for symbol in range(END):
        assert unpack(packed(bytes([symbol]))) == chr(symbol)
    assert unpack(packed(bytes(range(256)))) == bytes(range(256)).decode("latin-1")


@pytest.mark.parametrize(
    "bits",
    [
        "1" * 8,  # a byte of padding
        "00011" + "1" * 11,  # more than seven bits of it
        "00011" + "000",  # padding of zeros
        "00011" + "110",
        "1" * 30 + "11",  # the end symbol
        "00011" + "1" * 30 + "11111",
    ],
)
def test_bad_padding_and_the_end_symbol_are_refused(bits: str) -> None:
    with pytest.raises(MalformedHeader):
        unpack(int(bits, 2).to_bytes(len(bits) // 8, "big"))


@pytest.mark.parametrize("first", [0xFF, 0x7F, 0x1F, 0x0F, 0x3F])
@pytest.mark.parametrize("rest", [b"", b"\xff", b"\xff" * 4 + b"\x0f", b"\x80" * 9 + b"\x01"])
def test_numbers_that_are_cut_or_too_large_are_refused(first: int, rest: bytes) -> None:
    with pytest.raises(MalformedHeader):
        HeaderReader(1_000).read(bytes([first]) + rest)


@pytest.mark.parametrize(
    ("told", "seconds"),
    [("1H", 3_600.0), ("2M", 120.0), ("3S", 3.0), ("4m", 0.004), ("5u", 5e-6), ("6n", 6e-9),
     ("0S", 0.0), ("99999999H", 99_999_999 * 3_600.0), ("\u0661S", None), (" 1S", None)],
)  # fmt: skip
def test_times_are_read(told: str, seconds: float | None) -> None:
    assert timeout_s(told) == (None if seconds is None else pytest.approx(seconds))


@given(st.text(st.characters(), max_size=2_000))
def test_any_text_of_a_status_fits_a_frame_in_plain_characters(said: str) -> None:
    block = status_fields(GrpcStatus.INTERNAL, said, is_first=False)
    told = dict(HeaderReader(20_000).read(block))

    assert len(block) < 16_384
    assert all(" " <= each <= "~" for each in told.get("grpc-message", ""))


def test_a_status_may_hold_what_is_no_text() -> None:
    block = status_fields(GrpcStatus.INTERNAL, "a\udc80%\n", is_first=False)

    assert dict(HeaderReader(100).read(block))["grpc-message"] == "a?%25%0A"


@given(st.binary(max_size=2_000))
def test_packed_messages_come_back(body: bytes) -> None:
    assert unpack_message(gzip.compress(body), "gzip", 2_000) == body
    assert unpack_message(zlib.compress(body), "deflate", 2_000) == body


def test_bombs_cuts_and_unknown_packings_are_refused() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    with pytest.raises(BodyTooLarge):
        unpack_message(bomb, "gzip", 1_000_000)
    for data, encoding in ((bomb[:-9], "gzip"), (b"", "gzip"), (b"x", "deflate"), (b"x", "br")):
        with pytest.raises((MalformedHeader, BodyTooLarge)):
            unpack_message(data, encoding, 100_000_000)
