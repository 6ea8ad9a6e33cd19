"""The calls of one connection, from their fields to their last byte.

    fields ─► begin ─► bytes arrive ─► task of the method ─► answered ─► forgotten
                └── refused, given up, late, cut ──────────────────────► forgotten

What the client sends wrongly in a call ends that call alone.

Invariant: a call counts from its begin until its last byte was handed over or it was cut.
"""

from __future__ import annotations

import asyncio
from time import monotonic

from flintmq.errors import BodyTooLarge, FlintError, RemoteProtocolError
from flintmq.logs import logger
from flintmq.net.http2.call_server import CallServer, GrpcMethod
from flintmq.net.http2.grpc_call import GrpcCall, Wire
from flintmq.protocol.http2 import h2_frames as frames
from flintmq.protocol.http2.grpc_form import (
    CONTENT_TYPE,
    GrpcStatus,
    is_well_formed,
    status_fields,
    timeout_s,
)
from flintmq.protocol.http2.h2_frames import H2Error, H2Fault

log = logger(__name__)


class OpenCalls:
    """They belong to the loop of their connection."""

    def __init__(self, wire: Wire, server: CallServer, peer: str) -> None:
        self.by_id: dict[int, GrpcCall] = {}
        self.blocked: dict[GrpcCall, None] = {}
        """Those with something to send that the client does not take yet."""
        self.idle_since_s = monotonic()
        self._wire = wire
        self._server = server
        self._peer = peer
        self._host = peer.rpartition(":")[0]
        self._client_window_bytes = frames.WINDOW_BYTES
        self._loop = asyncio.get_running_loop()

    def change_window(self, size_bytes: int) -> None:
        """The client changes its window for all calls, those under way included."""
        more_bytes = size_bytes - self._client_window_bytes
        self._client_window_bytes = size_bytes
        for call in self.by_id.values():
            call.window_bytes += more_bytes
            if call.window_bytes > frames.WINDOW_BYTES_MAX:
                raise H2Fault(H2Error.FLOW_CONTROL_ERROR, "a window is too large")

    def begin(self, stream_id: int, fields: list[tuple[str, str]], *, is_end: bool) -> None:
        """A call comes; of several fields of a name the first one counts."""
        metadata = dict(reversed(fields))
        if not is_well_formed(metadata):
            self._wire.write(frames.reset(stream_id, H2Error.PROTOCOL_ERROR))
        elif len(self.by_id) < self._server.limits.streams_max and self._server.begin_call(
            self._host
        ):
            self._open(stream_id, metadata, is_end=is_end)
        else:
            self.refuse(stream_id)

    def refuse(self, stream_id: int) -> None:
        """There is no room for a call; its client may try again."""
        self._wire.write(frames.reset(stream_id, H2Error.REFUSED_STREAM))

    def exhaust(self, stream_id: int, text: str, *, is_end: bool) -> None:
        """A call asks for too much to be begun."""
        fields = status_fields(GrpcStatus.RESOURCE_EXHAUSTED, text, is_first=True)
        flags = frames.END_HEADERS | frames.END_STREAM
        last = frames.head(len(fields), frames.FrameKind.HEADERS, flags, stream_id) + fields
        self._wire.write(last if is_end else last + frames.reset(stream_id, H2Error.NO_ERROR))

    def arrived(self, call: GrpcCall, data: bytes, *, is_end: bool) -> None:
        """Bytes of a call came."""
        try:
            call.arrived(data, is_end=is_end)
        except BodyTooLarge as error:
            call.fail(GrpcStatus.RESOURCE_EXHAUSTED, str(error))
        except RemoteProtocolError as error:
            call.fail(GrpcStatus.INTERNAL, str(error))
        if call.is_answered:
            self.cut(call)
        elif is_end and call.task is None:
            self._run(call)

    def reset(self, call: GrpcCall, error: H2Error) -> None:
        """The client has us give up a call."""
        self._wire.write(frames.reset(call.stream_id, error))
        self.cut(call)

    def fail(self, call: GrpcCall, status: GrpcStatus, text: str) -> None:
        """End a call with an error, whatever its method does."""
        call.fail(status, text)
        self.cut(call)

    def fail_all(self, status: GrpcStatus, text: str) -> None:
        for call in list(self.by_id.values()):
            self.fail(call, status, text)

    def cut_all(self) -> None:
        for call in list(self.by_id.values()):
            self.cut(call)

    def cut(self, call: GrpcCall) -> None:
        """End a call without more words."""
        task = call.task
        if task is not None:
            task.cancel()
        self.blocked.pop(call, None)
        self._forget(call)

    def expire(self, now_s: float) -> None:
        """End the calls whose time is over, and those that do not go on."""
        for call in list(self.by_id.values()):
            if call.is_late(now_s):
                self.fail(call, GrpcStatus.DEADLINE_EXCEEDED, "Deadline Exceeded")

    def pump(self) -> None:
        """The client takes more: send what waits."""
        for call in list(self.blocked):
            if call.pump():
                if not self._wire.has_room():
                    return
                continue
            del self.blocked[call]
            call.wake()
            if call.is_answered and call.task is None:
                self._forget(call)

    def _open(self, stream_id: int, metadata: dict[str, str], *, is_end: bool) -> None:
        left_s = timeout_s(metadata.get("grpc-timeout", ""))
        call = self.by_id[stream_id] = GrpcCall(
            self._wire,
            stream_id,
            self._peer,
            metadata,
            None if left_s is None else monotonic() + left_s,
            self._client_window_bytes,
            self._server.limits.request_bytes_max,
        )
        method = self._server.method(metadata[":path"])
        if not metadata.get("content-type", "").startswith(CONTENT_TYPE):
            call.fail(GrpcStatus.INTERNAL, "this is no call of gRPC", is_grpc=False)
        elif metadata[":method"] != "POST":
            call.fail(GrpcStatus.INTERNAL, "calls of gRPC are POST")
        elif method is None:
            call.fail(GrpcStatus.UNIMPLEMENTED, "Method not found!")
        elif method.takes_many:
            self._run(call)
        if call.is_answered:
            self.cut(call)
        elif is_end:
            self.arrived(call, b"", is_end=True)

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
            log.exception("%s: a call failed", self._peer)
            call.fail(GrpcStatus.UNKNOWN, type(error).__name__)
        call.task = None
        if call.is_answered and call not in self.blocked:
            self._forget(call)

    def _forget(self, call: GrpcCall) -> None:
        if self.by_id.pop(call.stream_id, None) is None:
            return
        call.release()
        self._wire.report()
        self._server.end_call(self._host)
        if not self.by_id:
            self.idle_since_s = monotonic()
