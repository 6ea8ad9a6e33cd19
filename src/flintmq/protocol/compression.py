"""Packing and unpacking of message bodies: zlib, and LZ4 or ZSTD frames.

Unpacking has a hard limit that the packed bytes cannot talk it out of: output is
made piece by piece, or into one buffer of at most the limit, and sizes announced
by the packed bytes are never trusted.  Bytes after the end of the packed stream are
ignored, as Java does.

Whatever is wrong with the bytes is `MalformedBody`, too much output is
`BodyTooLarge`, and a package that is not installed is `MissingExtra`.
"""

from __future__ import annotations

import zlib
from typing import Any, assert_never

from flintmq.errors import BodyTooLarge, MalformedBody, MissingExtra
from flintmq.model.sys_flag import Compression

EXTRA = "compression"
"""The extra of this package that brings LZ4 and ZSTD."""

LEVEL = 5
"""What Java producers pack with."""

PIECE_BYTES = 256 * 1024
"""Output asked for at a time, so that memory grows with what is really there."""

ZSTD_WINDOW_BYTES_MAX = 8 * 1024 * 1024
"""Memory a ZSTD frame may ask for to look back.  Levels up to 19 stay within it."""


def pack(body: bytes, kind: Compression, level: int = LEVEL) -> bytes:
    """Pack a body the way RocketMQ's producers do."""
    packed: bytes
    match kind:
        case Compression.ZLIB:
            return zlib.compress(body, level)
        case Compression.LZ4:
            packed = _lz4_frame().compress(body, compression_level=level)
            return packed
        case Compression.ZSTD:
            packed = _zstandard().ZstdCompressor(level=level).compress(body)
            return packed
        case _:
            assert_never(kind)


def unpack(packed: bytes, kind: Compression, limit_bytes: int) -> bytes:
    """Unpack a body of at most ``limit_bytes``."""
    match kind:
        case Compression.ZLIB:
            return _unpack_zlib(packed, limit_bytes)
        case Compression.LZ4:
            return _unpack_lz4(packed, limit_bytes)
        case Compression.ZSTD:
            return _unpack_zstd(packed, limit_bytes)
        case _:
            assert_never(kind)


def _unpack_zlib(packed: bytes, limit_bytes: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        body = stream.decompress(packed, limit_bytes or 1)  # 0 would mean no limit
        if len(body) > limit_bytes or (
            not stream.eof and stream.decompress(stream.unconsumed_tail, 1)
        ):
            raise _too_large(limit_bytes)
    except zlib.error as error:
        raise _malformed(f"no zlib stream: {error}") from None
    if not stream.eof:
        raise _malformed("the zlib stream is cut off")
    return body


def _unpack_lz4(packed: bytes, limit_bytes: int) -> bytes:
    stream = _lz4_frame().LZ4FrameDecompressor()
    pieces: list[bytes] = []
    size_bytes = 0
    try:
        while not stream.eof:
            piece = stream.decompress(packed, max_length=PIECE_BYTES)
            packed = b""  # the stream keeps what it has not used yet
            size_bytes += len(piece)
            if size_bytes > limit_bytes:
                raise _too_large(limit_bytes)
            if not piece and not stream.eof:
                raise _malformed("the LZ4 frame is cut off")
            pieces.append(piece)
    except RuntimeError as error:
        raise _malformed(f"no LZ4 frame: {error}") from None
    return b"".join(pieces)


def _unpack_zstd(packed: bytes, limit_bytes: int) -> bytes:
    zstd = _zstandard()
    stream = zstd.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX)
    try:
        announced = zstd.get_frame_parameters(packed).content_size
        if announced > limit_bytes and announced != zstd.CONTENTSIZE_UNKNOWN:
            raise _too_large(limit_bytes)
        body: bytes = stream.decompress(packed, max_output_size=limit_bytes + 1)
    except zstd.ZstdError as error:
        # The package says the same of a frame that is cut off and of one that is too large.
        if _zstd_exceeds(packed, limit_bytes):
            raise _too_large(limit_bytes) from None
        raise _malformed(f"no ZSTD frame: {error}") from None
    if len(body) > limit_bytes:
        raise _too_large(limit_bytes)
    return body


def _zstd_exceeds(packed: bytes, limit_bytes: int) -> bool:
    zstd = _zstandard()
    stream = zstd.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX).stream_reader(packed)
    size_bytes = 0
    try:
        while size_bytes <= limit_bytes:
            piece = stream.read(PIECE_BYTES)
            if not piece:
                return False
            size_bytes += len(piece)
    except zstd.ZstdError:
        return False
    return True


def _too_large(limit_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(limit_bytes, "a compressed body unpacks too far")


def _malformed(reason: str) -> MalformedBody:
    return MalformedBody("compressed body", reason)


def _lz4_frame() -> Any:
    try:
        import lz4.frame
    except ImportError:
        raise MissingExtra("lz4", EXTRA) from None
    return lz4.frame


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError:
        raise MissingExtra("zstandard", EXTRA) from None
    return zstandard
