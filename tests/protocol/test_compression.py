"""Bodies are unpacked up to a limit and no further, and bad bytes are a typed error."""

from __future__ import annotations

import sys
import tracemalloc
import zlib

import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import BodyTooLarge, MalformedBody, MissingExtra
from flintmq.model.sys_flag import Compression
from flintmq.protocol.compression import PIECE_BYTES, ZSTD_WINDOW_BYTES_MAX, pack, unpack
from support.record_examples import mutated

KINDS = list(Compression)


def pack_as_a_stream(body: bytes) -> bytes:
    """A ZSTD frame that does not say how long its content is, as Java's streams write it."""
    stream = zstandard.ZstdCompressor(level=5).compressobj()
    return stream.compress(body) + stream.flush()


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(KINDS), st.binary(max_size=300), st.integers(1, 300))
def test_a_packed_body_comes_back(kind: Compression, body: bytes, repeat: int) -> None:
    whole = body * repeat

    assert unpack(pack(whole, kind), kind, len(whole)) == whole


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 1000, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES])
def test_the_limit_is_exact(kind: Compression, size: int) -> None:
    packed = pack(bytes(size), kind)

    assert unpack(packed, kind, size) == bytes(size)
    with pytest.raises(BodyTooLarge):
        unpack(packed, kind, size - 1)


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES + 1])
def test_a_frame_need_not_say_its_length(size: int) -> None:
    packed = pack_as_a_stream(bytes(size))

    assert unpack(packed, Compression.ZSTD, size) == bytes(size)
    if size:
        with pytest.raises(BodyTooLarge):
            unpack(packed, Compression.ZSTD, size - 1)


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_body_fits_no_room_at_all(kind: Compression) -> None:
    assert unpack(pack(b"", kind), kind, 0) == b""


BOMB_BYTES = 100_000_000
LIMIT_BYTES = 1_000_000


@pytest.mark.parametrize(
    ("kind", "bomb"),
    [
        (Compression.ZLIB, zlib.compress(bytes(BOMB_BYTES))),
        (Compression.LZ4, lz4.frame.compress(bytes(BOMB_BYTES), store_size=False)),
        (Compression.LZ4, lz4.frame.compress(bytes(BOMB_BYTES), store_size=True)),
        (Compression.ZSTD, zstandard.ZstdCompressor().compress(bytes(BOMB_BYTES))),
        (Compression.ZSTD, pack_as_a_stream(bytes(BOMB_BYTES))),
    ],
    ids=["zlib", "lz4", "lz4 sized", "zstd sized", "zstd"],
)
def test_a_bomb_takes_no_memory_beyond_the_limit(kind: Compression, bomb: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLarge):
            unpack(bomb, kind, LIMIT_BYTES)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < 4 * LIMIT_BYTES + 2 * len(bomb)


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_that_is_cut_off_is_refused_at_every_length(kind: Compression) -> None:
    packed = pack(bytes(range(256)) * 4, kind)

    for length in range(len(packed)):
        with pytest.raises(MalformedBody):
            unpack(packed[:length], kind, 10_000)


def test_a_stream_that_is_cut_off_is_refused_at_every_length() -> None:
    packed = pack_as_a_stream(bytes(range(256)) * 4)

    for length in range(len(packed)):
        with pytest.raises(MalformedBody):
            unpack(packed[:length], Compression.ZSTD, 10_000)


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_after_the_packed_body_are_ignored(kind: Compression) -> None:
    assert unpack(pack(b"body", kind) + b"junk", kind, 100) == b"body"


def test_a_frame_may_not_ask_for_a_huge_window() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = stream.compress(b"x") + stream.flush()
    assert zstandard.get_frame_parameters(packed).window_size > ZSTD_WINDOW_BYTES_MAX

    with pytest.raises(MalformedBody):
        unpack(packed, Compression.ZSTD, 100)


@settings(max_examples=300, deadline=None)
@given(st.data(), st.sampled_from(KINDS), st.integers(0, 2000))
def test_any_bytes_are_unpacked_or_refused(
    data: st.DataObject, kind: Compression, limit_bytes: int
) -> None:
    good = st.builds(pack, st.binary(max_size=500), st.just(kind))
    octets = data.draw(st.binary(max_size=60) | mutated(good))

    try:
        body = unpack(octets, kind, limit_bytes)
    except (MalformedBody, BodyTooLarge):
        return

    assert len(body) <= limit_bytes


@pytest.mark.parametrize(
    ("kind", "package"), [(Compression.LZ4, "lz4"), (Compression.ZSTD, "zstandard")]
)
def test_a_missing_package_is_named(
    kind: Compression, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, f"{package}.frame", None)

    with pytest.raises(MissingExtra) as packing:
        pack(b"", kind)
    with pytest.raises(MissingExtra) as unpacking:
        unpack(b"", kind, 1)

    assert packing.value.args == unpacking.value.args == (package, "compression")
