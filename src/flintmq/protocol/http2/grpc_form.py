"""What gRPC adds to HTTP/2: statuses, the frame of a message, times, and the fields of an answer.

The fields of answers are written in full and never remembered by the peer, so they are the same
bytes in every answer.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from enum import IntEnum
from struct import Struct
from typing import Final
from urllib.parse import quote

from flintmq.errors import BodyTooLarge, MalformedHeader

CONTENT_TYPE: Final = "application/grpc"
MESSAGE_HEAD: Final = Struct(">BI")
"""Whether a message is packed, and its length."""

TEXT_CHARACTERS_MAX: Final = 1_000
"""Of the text of a status: what a peer reads of it in one frame."""

_UNITS_S: Final = {"H": 3_600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_DIGITS_MAX: Final = 8
_WBITS: Final = {"gzip": 31, "deflate": 15}
_NEEDED: Final = frozenset({":method", ":scheme", ":path"})
_OF_CONNECTIONS: Final = frozenset(
    {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}
)
_BAD_IN_NAMES: Final = re.compile(r"[^!-@\[-~]")
_BAD_IN_VALUES: Final = re.compile(r"[\0\r\n]")
_SAFE: Final = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")


class GrpcStatus(IntEnum):
    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


def timeout_s(text: str) -> float | None:
    """The value of ``grpc-timeout``; None for one that cannot be read."""
    digits, unit = text[:-1], _UNITS_S.get(text[-1:])
    if unit is None or not digits.isascii() or not digits.isdigit() or len(digits) > _DIGITS_MAX:
        return None
    return int(digits) * unit


def _field(name: str, value: str) -> bytes:
    """A field that the peer is not to remember."""
    return b"\x00" + _text(name) + _text(value)


def _text(text: str) -> bytes:
    data = text.encode()
    length = len(data)
    if length < 0x7F:
        return bytes([length]) + data
    head, rest = bytearray([0x7F]), length - 0x7F
    while rest >= 0x80:
        head.append(rest & 0x7F | 0x80)
        rest >>= 7
    head.append(rest)
    return bytes(head) + data


_STATUS_200: Final = b"\x88"
_STATUS_415: Final = b"\x08\x03415"
ANSWER_FIELDS: Final = (
    _STATUS_200
    + _field("content-type", CONTENT_TYPE)
    + _field("grpc-accept-encoding", "identity,deflate,gzip")
)
"""What comes before the messages of an answer."""

OK_FIELDS: Final = _field("grpc-status", "0")
"""What comes after them, when all is well."""


def is_well_formed(metadata: Mapping[str, str]) -> bool:
    """Whether HTTP/2 lets a request have these fields."""
    names, values = "".join(metadata), "".join(metadata.values())
    return (
        metadata.keys() >= _NEEDED
        and metadata.keys().isdisjoint(_OF_CONNECTIONS)
        and _BAD_IN_NAMES.search(names) is None
        and (values.isprintable() or _BAD_IN_VALUES.search(values) is None)
    )


def status_fields(status: GrpcStatus, text: str, *, is_first: bool, is_grpc: bool = True) -> bytes:
    """How a call ends; ``is_first`` where nothing was answered before.

    Who did not ask for gRPC is told so in words of HTTP.
    """
    fields = _field("grpc-status", str(int(status)))
    if text:
        fields += _field("grpc-message", quote(text[:TEXT_CHARACTERS_MAX], _SAFE, errors="replace"))
    if is_first:
        first = _STATUS_200 if is_grpc else _STATUS_415
        return first + _field("content-type", CONTENT_TYPE) + fields
    return fields


def unpack_message(data: bytes, encoding: str, bytes_max: int) -> bytes:
    """A message that its sender packed."""
    wbits = _WBITS.get(encoding)
    if wbits is None:
        raise MalformedHeader("grpc-encoding", f"{encoding or 'none'} is not one we know")
    unpacker = zlib.decompressobj(wbits=wbits)
    try:
        unpacked = unpacker.decompress(data, bytes_max + 1)
    except zlib.error as error:
        raise MalformedHeader("grpc-encoding", f"a message cannot be unpacked: {error}") from None
    if len(unpacked) > bytes_max:
        raise BodyTooLarge(bytes_max, "a packed message")
    if not unpacker.eof:
        raise MalformedHeader("grpc-encoding", "a packed message is cut")
    return unpacked
