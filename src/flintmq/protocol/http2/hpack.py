"""Header blocks of HTTP/2 (RFC 7541): which fields a peer sent, by what it sent before.

A peer may refer to fields it sent earlier on the connection, so every block must be read, in its
order, whether its stream is served or not.

A block of more than ``bytes_max`` is read to its end all the same and then refused, so that the
next one is understood.  One of more than `HOSTILE_FACTOR` times as much ends the connection.

Invariant: the fields that are kept have `TABLE_BYTES` at most, and a block gives no more than
``bytes_max``, counted as in SETTINGS_MAX_HEADER_LIST_SIZE, however often it refers to a field.
"""

from __future__ import annotations

from typing import Final

from flintmq.errors import BodyTooLarge, MalformedHeader
from flintmq.protocol.http2.h2_frames import H2Error, H2Fault
from flintmq.protocol.http2.huffman import unpack

TABLE_BYTES: Final = 4_096
"""What a peer may have us keep: the value of the standard, that nobody has to be told."""

FIELD_BYTES: Final = 32
"""What a field counts beside its name and value."""

HOSTILE_FACTOR: Final = 8
"""A block that is so many times larger than allowed is no mistake of a client."""

_NUMBER_SHIFT_MAX: Final = 21

_WITH_VALUES: Final = (
    (":authority", ""),
    *((":method", value) for value in ("GET", "POST")),
    *((":path", value) for value in ("/", "/index.html")),
    *((":scheme", value) for value in ("http", "https")),
    *((":status", value) for value in ("200", "204", "206", "304", "400", "404", "500")),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
)
_NAMES: Final = (
    "accept-language accept-ranges accept access-control-allow-origin age allow authorization "
    "cache-control content-disposition content-encoding content-language content-length "
    "content-location content-range content-type cookie date etag expect expires from host "
    "if-match if-modified-since if-none-match if-range if-unmodified-since last-modified link "
    "location max-forwards proxy-authenticate proxy-authorization range referer refresh "
    "retry-after server set-cookie strict-transport-security transfer-encoding user-agent vary "
    "via www-authenticate"
)
_STATIC: Final = (*_WITH_VALUES, *((name, "") for name in _NAMES.split()))
"""The fields that every connection knows from its begin."""

_STATIC_COUNT: Final = len(_STATIC)


class HeaderReader:
    """Reads the blocks of one connection, each once and in order."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._kept: list[tuple[str, str]] = []  # the newest last
        self._kept_bytes = 0
        self._kept_bytes_max = TABLE_BYTES

    def read(self, block: bytes) -> list[tuple[str, str]]:
        """The fields of one call; `BodyTooLarge` where there are too many for one.

        `MalformedHeader` and `H2Fault` say that the connection cannot go on.
        """
        try:
            return self._read(block)
        except IndexError:
            raise MalformedHeader("", "a header block ends early or names no field") from None

    def _read(self, block: bytes) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        at, left, is_begun = 0, self._bytes_max, False
        while at < len(block):
            first = block[at]
            if first >= 0x80:
                index, at = _number(block, at, 0x7F)
                field = self._field(index)
            elif first & 0xE0 == 0x20:
                size, at = _number(block, at, 0x1F)
                self._resize(size, is_first=not is_begun)
                continue
            else:
                is_kept = first >= 0x40
                index, at = _number(block, at, 0x3F if is_kept else 0x0F)
                if index:
                    name = self._field(index)[0]
                else:
                    name, at = _text(block, at)
                value, at = _text(block, at)
                field = name, value
                if is_kept:
                    self._keep(field)
            is_begun = True
            left -= len(field[0]) + len(field[1]) + FIELD_BYTES
            if left >= 0:
                found.append(field)
            elif left < -HOSTILE_FACTOR * self._bytes_max:
                raise H2Fault(H2Error.ENHANCE_YOUR_CALM, "a header block is too large")
        if left < 0:
            raise BodyTooLarge(self._bytes_max, "the metadata of a call")
        return found

    def _field(self, index: int) -> tuple[str, str]:
        if index > _STATIC_COUNT:
            return self._kept[_STATIC_COUNT - index]
        if not index:
            raise MalformedHeader("", "a header block names the field 0")
        return _STATIC[index - 1]

    def _keep(self, field: tuple[str, str]) -> None:
        self._kept.append(field)
        self._kept_bytes += len(field[0]) + len(field[1]) + FIELD_BYTES
        if self._kept_bytes > self._kept_bytes_max:
            self._drop()

    def _drop(self) -> None:
        while self._kept_bytes > self._kept_bytes_max:
            name, value = self._kept.pop(0)
            self._kept_bytes -= len(name) + len(value) + FIELD_BYTES

    def _resize(self, size_bytes: int, *, is_first: bool) -> None:
        if size_bytes > TABLE_BYTES or not is_first:
            raise MalformedHeader("", f"a header table of {size_bytes} bytes was not agreed on")
        self._kept_bytes_max = size_bytes
        self._drop()


def _number(block: bytes, at: int, mask: int) -> tuple[int, int]:
    """A number that begins in the low bits of a byte, and where the next thing begins."""
    number = block[at] & mask
    at += 1
    if number < mask:
        return number, at
    shift = 0
    while True:
        byte = block[at]
        at += 1
        number += (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > _NUMBER_SHIFT_MAX:
            raise MalformedHeader("", "a number of a header block is too large")


def _text(block: bytes, at: int) -> tuple[str, int]:
    is_packed = block[at] >= 0x80
    length, at = _number(block, at, 0x7F)
    end = at + length
    if end > len(block):
        raise MalformedHeader("", "a text of a header block is cut")
    text = block[at:end]
    return unpack(text) if is_packed else text.decode("latin-1"), end
