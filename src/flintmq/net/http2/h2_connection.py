"""A connection of HTTP/2 that carries calls of gRPC; the server's end of it.

    bytes ─► frames ─► header blocks ─► calls ─► tasks of methods
    bytes ◄─ one write a turn ◄─ answers, permissions to send more

Of HTTP/2 there is what gRPC needs.  Priorities are skipped, nothing is pushed.  A connection that
breaks the rules is told so and closed; a call that cannot be served is answered or reset alone.

Memory is bounded both ways.  In: header blocks, one message of each call, and all of those
together over every connection (`PartialFrames`).  Out: a client that does not read is not read
from either, so it can ask for no more.

Invariant: a call counts from its begin until its last byte was handed over or it was cut.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Final, cast

from flintmq.errors import BodyTooLarge, FlintError, MalformedHeader, RemoteProtocolError
from flintmq.logs import logger
from flintmq.net.http2.call_server import CallServer, GrpcMethod
from flintmq.net.http2.grpc_call import STREAM_WINDOW_BYTES, GrpcCall
from flintmq.net.limits import LINGER_MS
from flintmq.protocol.http2 import h2_frames as frames
from flintmq.protocol.http2.grpc_form import CONTENT_TYPE, GrpcStatus, timeout_s
from flintmq.protocol.http2.h2_frames import H2Error, H2Fault, Setting
from flintmq.protocol.http2.hpack import HeaderReader

log = logger(__name__)

CONNECTION_WINDOW_BYTES: Final = 16 * 1024 * 1024
"""How much a client may send on all calls before it is told to go on."""

_DATA: Final = int(frames.FrameKind.DATA)
_HEADERS: Final = int(frames.FrameKind.HEADERS)


class H2Connection(asyncio.Protocol):
    """One connection.  It belongs to the loop it was made on."""

    def __init__(self, server: CallServer, peer: str) -> None:
        self.peer = peer
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        """Done once the connection is closed."""
        self.window_bytes = frames.WINDOW_BYTES
        """What the client still takes on all calls."""
        self.calls: dict[int, GrpcCall] = {}
        self.idle_since_s = monotonic()
        self.churn_count = 0
        """Calls given up and settings changed by the client since the server looked last."""
        self._server = server
        self._limits = server.limits
        self._transport: asyncio.Transport | None = None
        self._rest, self._has_preface = b"", False
        self._reader = HeaderReader(self._limits.metadata_bytes_max)
        self._block: bytearray | None = None  # of headers that go on in the next frame
        self._block_of = self._block_flags = 0
        self._last_id = 0
        self._client_window_bytes = frames.WINDOW_BYTES
        self._taken_bytes = 0
        self._held_bytes = self._reported_bytes = 0
        self._out: list[bytes] = []
        self._is_full = self._is_leaving = self._is_permitted = False
        self._blocked: dict[GrpcCall, None] = {}

    # The transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        told = {
            Setting.MAX_CONCURRENT_STREAMS: self._limits.streams_max,
            Setting.INITIAL_WINDOW_SIZE: STREAM_WINDOW_BYTES,
            Setting.MAX_HEADER_LIST_SIZE: self._limits.metadata_bytes_max,
        }
        self.write(frames.settings(told))
        self.write(frames.window_update(0, CONNECTION_WINDOW_BYTES - frames.WINDOW_BYTES))

    def connection_lost(self, _error: Exception | None) -> None:
        for call in list(self.calls.values()):
            self._cut(call)
        self._server.partial.forget(self)
        if not self.ended.done():
            self.ended.set_result(None)

    def pause_writing(self) -> None:
        self._is_full = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()  # it can ask for no more

    def resume_writing(self) -> None:
        self._is_full = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        self._pump()

    def data_received(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        try:
            at = self._begin(data) if not self._has_preface else 0
            self._rest = data[self._frames(data, at) :]
        except H2Fault as fault:
            self._break(fault.error, fault.text)
        except MalformedHeader as error:
            self._break(H2Error.COMPRESSION_ERROR, str(error))
        if self._is_permitted:  # once for all permissions that came together
            self._is_permitted = False
            self._pump()
        self.report()

    # What calls and the server do with it

    def report(self) -> None:
        """Tell the server what is held."""
        if self._held_bytes != self._reported_bytes:
            is_new = self._held_bytes < self._reported_bytes
            self._reported_bytes = self._held_bytes
            self._server.partial.update(self, self._held_bytes, is_new=is_new)

    def write(self, data: bytes) -> None:
        """Queue whole frames.  They leave at the end of this turn."""
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(data)

    def hold(self, more_bytes: int) -> None:
        self._held_bytes += more_bytes

    def has_room(self) -> bool:
        return not self._is_full

    def wait_for_room(self, call: GrpcCall) -> None:
        self._blocked[call] = None

    def abort(self, reason: str) -> None:
        """Close at once."""
        log.info("%s: cut: %s", self.peer, reason)
        if self._transport is not None:
            self._transport.abort()

    def leave(self) -> None:
        """Begin no more calls; those that were begun go on."""
        if not self._is_leaving:
            self._is_leaving = True
            self.write(frames.go_away(self._last_id, H2Error.NO_ERROR))

    def close(self, error: H2Error = H2Error.NO_ERROR, text: str = "") -> None:
        """Say that this is the end, and close."""
        if self._transport is None or self._transport.is_closing():
            return
        self.write(frames.go_away(self._last_id, error, text))
        self._flush()
        self._transport.close()
        self._loop.call_later(LINGER_MS / 1000, self._transport.abort)

    def expire(self, now_s: float) -> None:
        """End the calls whose time is over, and those whose message does not come."""
        for call in list(self.calls.values()):
            if call.is_late(now_s):
                call.fail(GrpcStatus.DEADLINE_EXCEEDED, "Deadline Exceeded")
                self._cut(call)

    # Frames

    def _begin(self, data: bytes) -> int:
        self._has_preface = (begin := frames.preface_bytes(data)) > 0
        return begin

    def _frames(self, data: bytes, at: int) -> int:
        """Serve every whole frame; where the first one begins that is not."""
        if not self._has_preface:
            return 0
        end = len(data)
        while end - at >= frames.HEAD_BYTES:
            length = data[at] << 16 | data[at + 1] << 8 | data[at + 2]
            if length > frames.FRAME_BYTES_MAX:
                raise H2Fault(H2Error.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
            begin = at + frames.HEAD_BYTES
            if end - begin < length:
                break
            stream_id = frames.LONG.unpack_from(data, at + 5)[0] & 0x7FFFFFFF
            kind, flags = data[at + 3], data[at + 4]
            at = begin + length
            if self._block is not None and kind != frames.FrameKind.CONTINUATION:
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
        self._taken_bytes += len(payload)
        if self._taken_bytes >= CONNECTION_WINDOW_BYTES // 2:
            self.write(frames.window_update(0, self._taken_bytes))
            self._taken_bytes = 0
        call = self.calls.get(stream_id)
        if call is None or call.is_answered or call.is_whole:
            if stream_id > self._last_id or not stream_id:
                raise H2Fault(H2Error.PROTOCOL_ERROR, "data of a stream that was not begun")
            return  # of a call that is over
        if flags & frames.PADDED:
            whole_bytes, payload = len(payload), frames.unpadded(payload)
            call.credit(whole_bytes - len(payload))
        self._arrived(call, payload, is_end=bool(flags & frames.END_STREAM))

    def _arrived(self, call: GrpcCall, data: bytes, *, is_end: bool) -> None:
        try:
            call.arrived(data, is_end=is_end)
        except BodyTooLarge as error:
            call.fail(GrpcStatus.RESOURCE_EXHAUSTED, str(error))
        except RemoteProtocolError as error:
            call.fail(GrpcStatus.INTERNAL, str(error))
        if call.is_answered:
            self._cut(call)
        elif is_end and call.task is None:
            self._run(call)

    def _headers(self, stream_id: int, flags: int, payload: bytes) -> None:
        payload = frames.block_part(flags, payload)
        if flags & frames.END_HEADERS:
            self._fields(stream_id, flags, payload)
            return
        self._block, self._block_of, self._block_flags = bytearray(payload), stream_id, flags

    def _others(self, kind: int, stream_id: int, flags: int, payload: bytes) -> None:
        frames.check_form(kind, stream_id, payload)
        match kind:
            case frames.FrameKind.WINDOW_UPDATE:
                self._permitted(stream_id, frames.LONG.unpack(payload)[0] & 0x7FFFFFFF)
            case frames.FrameKind.PING if not flags & frames.ACK:
                self.write(frames.PING_ACK + payload)
            case frames.FrameKind.SETTINGS if not flags & frames.ACK:
                self._settings(payload)
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
        if len(block) > self._limits.metadata_bytes_max:
            raise H2Fault(H2Error.ENHANCE_YOUR_CALM, "a header block is too large")
        if flags & frames.END_HEADERS:
            self._block = None
            self._fields(stream_id, self._block_flags, bytes(block))

    def _permitted(self, stream_id: int, more_bytes: int) -> None:
        if not stream_id:
            self.window_bytes += more_bytes
            if not more_bytes or self.window_bytes > frames.WINDOW_BYTES_MAX:
                raise H2Fault(H2Error.FLOW_CONTROL_ERROR, "a window of no use")
        elif (call := self.calls.get(stream_id)) is not None:
            call.window_bytes += more_bytes
            if not more_bytes or call.window_bytes > frames.WINDOW_BYTES_MAX:
                self._reset(call, H2Error.FLOW_CONTROL_ERROR)
        self._is_permitted = bool(self._blocked)

    def _settings(self, payload: bytes) -> None:
        told = frames.told_window_bytes(payload)
        if told is not None:
            more_bytes, self._client_window_bytes = told - self._client_window_bytes, told
            for call in self.calls.values():
                call.window_bytes += more_bytes
        self.write(frames.SETTINGS_ACK)
        self._count_churn()
        self._is_permitted = bool(self._blocked)

    def _given_up(self, stream_id: int) -> None:
        call = self.calls.get(stream_id)
        if call is not None:
            self._cut(call)
            self._count_churn()

    def _reset(self, call: GrpcCall, error: H2Error) -> None:
        """The client has us give up a call."""
        self.write(frames.reset(call.stream_id, error))
        self._cut(call)
        self._count_churn()

    def _count_churn(self) -> None:
        self.churn_count += 1
        if self.churn_count > 2 * self._limits.streams_max:
            raise H2Fault(H2Error.ENHANCE_YOUR_CALM, "too many calls are given up")

    # Calls

    def _fields(self, stream_id: int, flags: int, block: bytes) -> None:
        fields = self._reader.read(block)
        is_end = bool(flags & frames.END_STREAM)
        if (call := self.calls.get(stream_id)) is not None:  # trailers
            if not is_end or call.is_whole:
                self._reset(call, H2Error.PROTOCOL_ERROR)
            else:
                self._arrived(call, b"", is_end=True)
            return
        if not stream_id & 1:
            raise H2Fault(H2Error.PROTOCOL_ERROR, "a client begins streams with odd numbers")
        if stream_id <= self._last_id:
            return  # trailers of a call that is over
        self._last_id = stream_id
        has_room = len(self.calls) < self._limits.streams_max and not self._is_leaving
        if has_room and self._server.begin_call():
            self._open(stream_id, dict(reversed(fields)), is_end=is_end)
        else:
            self.write(frames.reset(stream_id, H2Error.REFUSED_STREAM))

    def _open(self, stream_id: int, metadata: dict[str, str], *, is_end: bool) -> None:
        """Begin a call; of several fields of a name the first one counts."""
        left_s = timeout_s(metadata.get("grpc-timeout", ""))
        deadline_s = None if left_s is None else monotonic() + left_s
        window_bytes, bytes_max = self._client_window_bytes, self._limits.request_bytes_max
        call = self.calls[stream_id] = GrpcCall(
            self, stream_id, self.peer, metadata, deadline_s, window_bytes, bytes_max
        )
        method = self._server.method(metadata.get(":path", ""))
        if not metadata.get("content-type", "").startswith(CONTENT_TYPE):
            call.fail(GrpcStatus.INTERNAL, "this is no call of gRPC")
        elif method is None:
            call.fail(GrpcStatus.UNIMPLEMENTED, "Method not found!")
        elif method.takes_many:
            self._run(call)
        if call.is_answered:
            self._cut(call)
        elif is_end:
            self._arrived(call, b"", is_end=True)

    def _run(self, call: GrpcCall) -> None:
        method = self._server.method(call.metadata[":path"])
        assert method is not None
        call.task = self._loop.create_task(self._serve(call, method))

    async def _serve(self, call: GrpcCall, method: GrpcMethod) -> None:
        try:
            await method.run(call)
        except FlintError as error:
            call.fail(GrpcStatus.INTERNAL, str(error))
        except Exception as error:
            log.exception("%s: a call failed", self.peer)
            call.fail(GrpcStatus.UNKNOWN, type(error).__name__)
        call.task = None
        if call.is_answered and call not in self._blocked:
            self._forget(call)

    def _cut(self, call: GrpcCall) -> None:
        """End a call without more words."""
        task = call.task
        if task is not None:
            task.cancel()
        self._blocked.pop(call, None)
        self._forget(call)

    def _forget(self, call: GrpcCall) -> None:
        if self.calls.pop(call.stream_id, None) is None:
            return
        call.release()
        self.report()
        self._server.end_call()
        if not self.calls:
            self.idle_since_s = monotonic()

    # Writing

    def _pump(self) -> None:
        for call in list(self._blocked):
            if self._is_full:
                return
            if call.pump():
                continue
            del self._blocked[call]
            call.wake()
            if call.is_answered and call.task is None:
                self._forget(call)

    def _flush(self) -> None:
        out = self._out
        if not out:
            return
        self._out = []
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    def _break(self, error: H2Error, text: str) -> None:
        log.info("%s: closed: %s", self.peer, text)
        self._rest = b""
        self.close(error, text)
