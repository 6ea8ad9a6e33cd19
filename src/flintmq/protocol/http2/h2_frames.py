"""Frames of HTTP/2 (RFC 9113): kinds, flags, settings, errors, and the bytes of those we send."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final

from flintmq.errors import RemoteProtocolError

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""What every client begins with."""

HEAD_BYTES: Final = 9
FRAME_BYTES_MAX: Final = 16_384
"""Of the payload of a frame, both ways: the value of the standard."""

WINDOW_BYTES: Final = 65_535
"""How much may be sent before the first permission, by the standard."""

WINDOW_BYTES_MAX: Final = 2**31 - 1

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITY: Final = 0x20

LONG: Final = Struct(">I")
SETTING: Final = Struct(">HI")
_HEAD: Final = Struct(">HBBBI")


class FrameKind(IntEnum):
    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


SIZES: Final[dict[int, int]] = {
    FrameKind.PRIORITY: 5,
    FrameKind.RST_STREAM: 4,
    FrameKind.PING: 8,
    FrameKind.WINDOW_UPDATE: 4,
}
"""Payloads that have one size only."""

_ARE_OF_STREAMS: Final[dict[int, bool]] = {
    FrameKind.PRIORITY: True,
    FrameKind.RST_STREAM: True,
    FrameKind.SETTINGS: False,
    FrameKind.PING: False,
    FrameKind.GOAWAY: False,
}
"""Whether frames of a kind belong to a stream, or to the connection: those that may not do both."""

_PRIORITY_BYTES: Final = 5
_GO_AWAY_BYTES: Final = 8
_FRAME_BYTES_RANGE: Final = range(FRAME_BYTES_MAX, 2**24)


class Setting(IntEnum):
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class H2Error(IntEnum):
    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class H2Fault(RemoteProtocolError):
    """The connection cannot go on, and is told so with ``error``."""

    def __init__(self, error: H2Error, text: str) -> None:
        super().__init__(text)
        self.error, self.text = error, text


def head(length: int, kind: int, flags: int, stream_id: int) -> bytes:
    """What a payload of this length is preceded by."""
    return _HEAD.pack(length >> 8, length & 0xFF, kind, flags, stream_id)


def settings(values: dict[Setting, int]) -> bytes:
    payload = b"".join(SETTING.pack(key, value) for key, value in values.items())
    return head(len(payload), FrameKind.SETTINGS, 0, 0) + payload


def reset(stream_id: int, error: H2Error) -> bytes:
    return head(4, FrameKind.RST_STREAM, 0, stream_id) + LONG.pack(error)


def window_update(stream_id: int, more_bytes: int) -> bytes:
    return head(4, FrameKind.WINDOW_UPDATE, 0, stream_id) + LONG.pack(more_bytes)


def go_away(last_id: int, error: H2Error, text: str = "") -> bytes:
    payload = LONG.pack(last_id) + LONG.pack(error) + text.encode()
    return head(len(payload), FrameKind.GOAWAY, 0, 0) + payload


def preface_bytes(data: bytes) -> int:
    """How long the preface is that a connection begins with, 0 while it is not whole.

    The frame after it must be one of settings, so it is whole once the head of that came.
    """
    size = len(PREFACE)
    if not PREFACE.startswith(data[:size]):
        raise H2Fault(H2Error.PROTOCOL_ERROR, "it does not speak HTTP/2")
    if len(data) < size + HEAD_BYTES:
        return 0
    if data[size + 3] != FrameKind.SETTINGS or data[size + 4] & ACK:
        raise H2Fault(H2Error.PROTOCOL_ERROR, "it begins without settings")
    return size


def check_form(kind: int, stream_id: int, payload: bytes) -> None:
    """`H2Fault` for a frame of a size, or at a place, that its kind never has."""
    if SIZES.get(kind, len(payload)) != len(payload):
        raise H2Fault(H2Error.FRAME_SIZE_ERROR, f"a frame of kind {kind} has another size")
    if kind == FrameKind.GOAWAY and len(payload) < _GO_AWAY_BYTES:
        raise H2Fault(H2Error.FRAME_SIZE_ERROR, "half a farewell")
    if _ARE_OF_STREAMS.get(kind, bool(stream_id)) != bool(stream_id):
        raise H2Fault(H2Error.PROTOCOL_ERROR, f"a frame of kind {kind} on stream {stream_id}")


def told_window_bytes(payload: bytes) -> int | None:
    """The window of new streams by the payload of SETTINGS; None where it says nothing of it."""
    if len(payload) % SETTING.size:
        raise H2Fault(H2Error.FRAME_SIZE_ERROR, "half a setting")
    told = None
    for key, value in SETTING.iter_unpack(payload):
        if key == Setting.INITIAL_WINDOW_SIZE:
            told = value
            if value > WINDOW_BYTES_MAX:
                raise H2Fault(H2Error.FLOW_CONTROL_ERROR, "a window is too large")
        elif key == Setting.ENABLE_PUSH and value > 1:
            raise H2Fault(H2Error.PROTOCOL_ERROR, f"pushes are set to {value}")
        elif key == Setting.MAX_FRAME_SIZE and value not in _FRAME_BYTES_RANGE:
            raise H2Fault(H2Error.PROTOCOL_ERROR, f"frames of {value} bytes are set")
    return told


def block_part(flags: int, payload: bytes) -> bytes:
    """What the payload of HEADERS has of a header block."""
    if flags & PADDED:
        payload = unpadded(payload)
    if not flags & PRIORITY:
        return payload
    if len(payload) < _PRIORITY_BYTES:
        raise H2Fault(H2Error.FRAME_SIZE_ERROR, "half a priority")
    return payload[_PRIORITY_BYTES:]


def unpadded(payload: bytes) -> bytes:
    """A payload without the bytes that only hide its length."""
    if not payload or payload[0] >= len(payload):
        raise H2Fault(H2Error.PROTOCOL_ERROR, "more padding than frame")
    return payload[1 : len(payload) - payload[0]]


SETTINGS_ACK: Final = head(0, FrameKind.SETTINGS, ACK, 0)
PING_ACK: Final = head(8, FrameKind.PING, ACK, 0)
