"""A connection of HTTP/2 that carries calls of gRPC; the server's end of it.

    bytes ─► frames ─► header blocks ─► calls ─► tasks of methods
    bytes ◄─ one write a turn ◄─ answers, permissions to send more

Of HTTP/2 there is what gRPC needs.  Priorities are skipped, nothing is pushed.  A connection that
breaks the rules is told so and closed; a call that cannot be served is answered or reset alone.

Memory is bounded, see `H2Wire`, and so is time: a turn ends after `TURN_S`, and frames that carry
nothing and calls that are given up have a limit a second.

Invariant: whatever comes, the connection serves it, answers a call with an error, or ends.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Final, cast

from flintmq.errors import BodyTooLarge, MalformedHeader
from flintmq.logs import logger
from flintmq.net.http2.call_server import CallServer
from flintmq.net.http2.grpc_call import STREAM_WINDOW_BYTES, GrpcCall
from flintmq.net.http2.h2_wire import CONNECTION_WINDOW_BYTES, H2Wire
from flintmq.net.limits import LINGER_MS
from flintmq.protocol.http2 import h2_frames as frames
from flintmq.protocol.http2.grpc_form import GrpcStatus
from flintmq.protocol.http2.h2_frames import H2Error, H2Fault, Setting
from flintmq.protocol.http2.hpack import HOSTILE_FACTOR, HeaderReader

log = logger(__name__)

TURN_S: Final = 0.002
"""After so long the rest of what came is left to a later turn, since others wait for theirs …"""

TURN_FRAMES: Final = 16
"""… which is looked at after so many frames."""

EMPTY_FRAMES_MAX: Final = 50_000
"""Frames a second that carry no bytes of a call: pings, permissions, empty data."""

BLOCK_FRAMES_MAX: Final = 64
"""Frames in which a header block may come; the largest that is read fills eight."""

LARGE_BLOCKS_MAX: Final = 100
"""Header blocks a second that are read though they are too large, a millisecond each."""

IDLE_S: Final = 120.0
"""A connection without a call is closed after this time, as RocketMQ's proxy does."""

BEGIN_S: Final = 10.0
"""Within this time a client must send its preface."""

SILENT_S: Final = 60.0
"""A client of which nothing came for so long is asked whether it is still there …"""

LOST_S: Final = 120.0
"""… and has gone when nothing came for so long."""

STALLED_S: Final = 60.0
"""A client that reads nothing for so long is cut off."""

_DATA: Final = int(frames.FrameKind.DATA)
_HEADERS: Final = int(frames.FrameKind.HEADERS)
_CONTINUATION: Final = int(frames.FrameKind.CONTINUATION)
_ARE_YOU_THERE: Final = frames.head(8, frames.FrameKind.PING, 0, 0) + bytes(8)


class H2Connection(H2Wire):
    """One connection.  It belongs to the loop it was made on."""

    def __init__(self, server: CallServer, peer: str) -> None:
        super().__init__(server, peer)
        self._limits = server.limits
        self._rest, self._has_preface = b"", False
        self._reader = HeaderReader(self._limits.metadata_bytes_max)
        self._block: bytearray | None = None  # of headers that go on in the next frame
        self._block_of = self._block_flags = self._block_frames = 0
        self._last_id = 0
        self._is_leaving = self._is_permitted = self._is_asked = False
        self._churn_count = self._empty_count = self._large_count = 0  # since the last look
        self._heard_s = monotonic()

    # The transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = made = cast(asyncio.Transport, transport)
        self._is_reading = True
        if self._is_over:  # it was given up on its way in
            made.abort()
            return
        told = {
            Setting.MAX_CONCURRENT_STREAMS: self._limits.streams_max,
            Setting.INITIAL_WINDOW_SIZE: STREAM_WINDOW_BYTES,
            Setting.MAX_HEADER_LIST_SIZE: self._limits.metadata_bytes_max,
        }
        self.write(frames.settings(told))
        self.write(frames.window_update(0, CONNECTION_WINDOW_BYTES - frames.WINDOW_BYTES))

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        self._heard_s, self._is_asked = monotonic(), False
        self._rest = self._rest + data if self._rest else data
        if not self._is_behind:
            self._go_on()

    def _go_on(self) -> None:
        """Serve what came, for one turn."""
        self._is_behind = False
        if self._is_over:
            return
        data = self._rest
        try:
            at = 0 if self._has_preface else self._begin(data)
            self._rest = data[self._frames(data, at) :]
        except H2Fault as fault:
            self._break(fault.error, fault.text)
        except MalformedHeader as error:
            self._break(H2Error.COMPRESSION_ERROR, str(error))
        if self._is_permitted:  # once for all permissions that came together
            self._is_permitted = False
            self.calls.pump()
        self.report()
        if self._is_behind:
            self._loop.call_soon(self._go_on)
        self._read_or_not()

    # What the server does with it

    def leave(self) -> None:
        """Begin no more calls; those that were begun go on."""
        if not self._is_leaving:
            self._is_leaving = True
            self.write(frames.go_away(self._last_id, H2Error.NO_ERROR))

    def close(self, error: H2Error = H2Error.NO_ERROR, text: str = "") -> None:
        """Say that this is the end, to calls that are open too, and close."""
        self._is_over = True
        if self._transport is None:
            self.connection_lost(None)  # nobody else will say so
            return
        if self._transport.is_closing():
            return
        self.calls.fail_all(GrpcStatus.UNAVAILABLE, text or "the server is stopped")
        self.write(frames.go_away(self._last_id, error, text))
        self._flush()
        self._transport.close()
        self._loop.call_later(LINGER_MS / 1000, self._transport.abort)

    def look(self, now_s: float) -> None:
        """The server looks at it, once a second: what does not go on is ended."""
        self._churn_count = self._empty_count = self._large_count = 0
        silent_s = now_s - self._heard_s
        if self._is_full and now_s - self._full_since_s > STALLED_S:
            self.abort("it does not read")
        elif self.calls.by_id:
            self.calls.expire(now_s)
            if silent_s > LOST_S:
                self.abort("it does not answer")
            elif silent_s > SILENT_S and not self._is_asked:
                self._is_asked = True
                self.write(_ARE_YOU_THERE)
        elif now_s - self.calls.idle_since_s > (IDLE_S if self._has_preface else BEGIN_S):
            self.close(H2Error.NO_ERROR, "max_idle")

    # Frames

    def _begin(self, data: bytes) -> int:
        self._has_preface = (begin := frames.preface_bytes(data)) > 0
        return begin

    def _frames(self, data: bytes, at: int) -> int:
        """Serve whole frames for one turn; where the first one begins that was not served."""
        if not self._has_preface:
            return 0
        end, left, until_s = len(data), TURN_FRAMES, monotonic() + TURN_S
        while end - at >= frames.HEAD_BYTES:
            length = data[at] << 16 | data[at + 1] << 8 | data[at + 2]
            if length > frames.FRAME_BYTES_MAX:
                raise H2Fault(H2Error.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
            begin = at + frames.HEAD_BYTES
            if end - begin < length:
                break
            left -= 1
            if not left:
                if monotonic() > until_s:
                    self._is_behind = True
                    break
                left = TURN_FRAMES
            stream_id = frames.LONG.unpack_from(data, at + 5)[0] & 0x7FFFFFFF
            kind, flags = data[at + 3], data[at + 4]
            at = begin + length
            if self._block is not None and kind != _CONTINUATION:
                raise H2Fault(H2Error.PROTOCOL_ERROR, "a frame within a header block")
            payload = data[begin:at]
            if kind == _DATA:
                self._data(stream_id, flags, payload)
            elif kind == _HEADERS:
                self._headers(stream_id, flags, payload)
            else:
                self._others(kind, stream_id, flags, payload)
        return at

    def _data(self, stream_id: int, flags: int, payload: bytes) -> None:
        came_bytes, is_end = len(payload), bool(flags & frames.END_STREAM)
        if not self._window.take(came_bytes):
            raise H2Fault(H2Error.FLOW_CONTROL_ERROR, "more data than was permitted")
        if flags & frames.PADDED:
            payload = frames.unpadded(payload)
        if not payload and not is_end:
            self._count_empty()
        call = self.calls.by_id.get(stream_id)
        if call is None or call.is_answered:
            if stream_id > self._last_id or not stream_id:
                raise H2Fault(H2Error.PROTOCOL_ERROR, "data of a stream that was not begun")
        elif call.is_whole:
            self._reset(call, H2Error.STREAM_CLOSED)
        elif not call.window.take(came_bytes):
            self._reset(call, H2Error.FLOW_CONTROL_ERROR)
        else:
            self.calls.arrived(call, payload, is_end=is_end)

    def _headers(self, stream_id: int, flags: int, payload: bytes) -> None:
        payload = frames.block_part(flags, payload)
        if flags & frames.END_HEADERS:
            self._fields(stream_id, flags, payload)
            return
        self._block, self._block_of, self._block_flags = bytearray(payload), stream_id, flags
        self._block_frames = 1
        self.hold(len(payload))

    def _others(self, kind: int, stream_id: int, flags: int, payload: bytes) -> None:
        frames.check_form(kind, stream_id, payload)
        self._count_empty()
        match kind:
            case frames.FrameKind.WINDOW_UPDATE:
                self._permitted(stream_id, frames.LONG.unpack(payload)[0] & 0x7FFFFFFF)
            case frames.FrameKind.PING if not flags & frames.ACK:
                self.write(frames.PING_ACK + payload)
            case frames.FrameKind.SETTINGS:
                self._settings(payload, is_ack=bool(flags & frames.ACK))
            case frames.FrameKind.RST_STREAM:
                self._given_up(stream_id)
            case frames.FrameKind.CONTINUATION:
                self._more_fields(stream_id, flags, payload)
            case frames.FrameKind.PUSH_PROMISE:
                raise H2Fault(H2Error.PROTOCOL_ERROR, "clients push nothing")
            case _:
                pass  # priorities, farewells, and what later versions add

    def _more_fields(self, stream_id: int, flags: int, payload: bytes) -> None:
        block = self._block
        if block is None or stream_id != self._block_of:
            raise H2Fault(H2Error.PROTOCOL_ERROR, "a header block goes on that was not begun")
        block += payload
        self.hold(len(payload))
        self._block_frames += 1
        large = len(block) > HOSTILE_FACTOR * self._limits.metadata_bytes_max
        if large or self._block_frames > BLOCK_FRAMES_MAX:
            raise H2Fault(H2Error.ENHANCE_YOUR_CALM, "a header block is too large")
        if flags & frames.END_HEADERS:
            self._block = None
            self.hold(-len(block))
            self._fields(stream_id, self._block_flags, bytes(block))

    def _permitted(self, stream_id: int, more_bytes: int) -> None:
        if not stream_id:
            self.window_bytes += more_bytes
            if not more_bytes:
                raise H2Fault(H2Error.PROTOCOL_ERROR, "a permission of nothing")
            if self.window_bytes > frames.WINDOW_BYTES_MAX:
                raise H2Fault(H2Error.FLOW_CONTROL_ERROR, "a window is too large")
        elif (call := self._begun(stream_id)) is not None:
            call.window_bytes += more_bytes
            if not more_bytes:
                self._reset(call, H2Error.PROTOCOL_ERROR)
            elif call.window_bytes > frames.WINDOW_BYTES_MAX:
                self._reset(call, H2Error.FLOW_CONTROL_ERROR)
        self._is_permitted = bool(self.calls.blocked)

    def _settings(self, payload: bytes, *, is_ack: bool) -> None:
        if is_ack:
            if payload:
                raise H2Fault(H2Error.FRAME_SIZE_ERROR, "settings that confirm ours say more")
            return
        told = frames.told_window_bytes(payload)
        if told is not None:
            self.calls.change_window(told)
        self.write(frames.SETTINGS_ACK)
        self._count_churn()
        self._is_permitted = bool(self.calls.blocked)

    def _given_up(self, stream_id: int) -> None:
        call = self._begun(stream_id)
        if call is not None:
            self.calls.cut(call)
            self._count_churn()

    def _begun(self, stream_id: int) -> GrpcCall | None:
        """The call of a stream, None where it is over; `H2Fault` where it was never begun."""
        if stream_id > self._last_id:
            raise H2Fault(H2Error.PROTOCOL_ERROR, f"stream {stream_id} was not begun")
        return self.calls.by_id.get(stream_id)

    def _reset(self, call: GrpcCall, error: H2Error) -> None:
        self.calls.reset(call, error)
        self._count_churn()

    def _count_churn(self) -> None:
        self._churn_count += 1
        if self._churn_count > 2 * self._limits.streams_max:
            raise H2Fault(H2Error.ENHANCE_YOUR_CALM, "too many calls are given up")

    def _count_empty(self) -> None:
        self._empty_count += 1
        if self._empty_count > EMPTY_FRAMES_MAX:
            raise H2Fault(H2Error.ENHANCE_YOUR_CALM, "too many frames that carry nothing")

    def _fields(self, stream_id: int, flags: int, block: bytes) -> None:
        is_end, refused = bool(flags & frames.END_STREAM), ""
        try:
            fields = self._reader.read(block)
        except BodyTooLarge as error:
            fields, refused = [], str(error)
            self._large_count += 1
            if self._large_count > LARGE_BLOCKS_MAX:
                calm = H2Error.ENHANCE_YOUR_CALM
                raise H2Fault(calm, "too many header blocks are too large") from None
        call = self.calls.by_id.get(stream_id)
        if call is not None:
            self._trailers(call, refused, is_end=is_end)
        elif not stream_id & 1:
            raise H2Fault(H2Error.PROTOCOL_ERROR, "a client begins streams with odd numbers")
        elif stream_id > self._last_id:  # else they are trailers of a call that is over
            self._last_id = stream_id
            if self._is_leaving:
                self.calls.refuse(stream_id)
            elif refused:
                self.calls.exhaust(stream_id, refused, is_end=is_end)
            else:
                self.calls.begin(stream_id, fields, is_end=is_end)

    def _trailers(self, call: GrpcCall, refused: str, *, is_end: bool) -> None:
        if call.is_answered:
            return
        if not is_end or call.is_whole:
            self._reset(call, H2Error.PROTOCOL_ERROR)
        elif refused:
            self.calls.fail(call, GrpcStatus.RESOURCE_EXHAUSTED, refused)
        else:
            self.calls.arrived(call, b"", is_end=True)

    def _break(self, error: H2Error, text: str) -> None:
        log.info("%s: closed: %s", self.peer, text)
        self._rest = b""
        self.close(error, text)
