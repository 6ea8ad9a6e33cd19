"""One call of gRPC: the messages of its client, and the answer.

    bytes of DATA frames ─► whole messages ─► take(), messages()
    finish(), send() ─► frames, as far as both windows of flow control go ─► the rest waits

One task may read its messages while another one sends.

Invariant: a call is answered once, by `finish`, `end` or `fail`, and nothing is sent after that.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from struct import Struct
from time import monotonic
from typing import Final, Protocol

from flintmq.errors import BodyTooLarge, RemoteProtocolError
from flintmq.net.http2.receive_window import ReceiveWindow
from flintmq.protocol.http2.grpc_form import (
    ANSWER_FIELDS,
    MESSAGE_HEAD,
    OK_FIELDS,
    GrpcStatus,
    status_fields,
    unpack_message,
)
from flintmq.protocol.http2.h2_frames import (
    END_HEADERS,
    END_STREAM,
    FRAME_BYTES_MAX,
    FrameKind,
    H2Error,
    head,
    reset,
    window_update,
)

STREAM_WINDOW_BYTES: Final = 1024 * 1024
"""How much a client may send on a call before it is told to go on."""

SILENT_LOOKS_MAX: Final = 60
"""How often the server looks, once a second, at a call of which nothing more comes, or at an
answer of which nothing more is taken."""

_ANSWER: Final = Struct(f">HBBBI{len(ANSWER_FIELDS)}sHBBBIBI")
_HEADERS: Final = int(FrameKind.HEADERS)
_LAST: Final = END_HEADERS | END_STREAM
_PREFIX: Final = MESSAGE_HEAD.size
_PACKED_MAX: Final = 1


class Wire(Protocol):
    """The connection, as a call sees it."""

    window_bytes: int

    def write(self, data: bytes) -> None: ...

    def hold(self, more_bytes: int, unread_bytes: int = 0) -> None:
        """So much more is held for the client, and so much of it was not read by a method."""

    def owe(self, more_bytes: int) -> None:
        """So much more waits until the client reads."""

    def report(self) -> None: ...

    def wait_for_room(self, call: GrpcCall) -> None: ...

    def has_room(self) -> bool: ...


class GrpcCall:
    """A call that was begun.  It belongs to the loop of its connection."""

    __slots__ = (
        "_counted_bytes",
        "_encoding",
        "_has_begun",
        "_held",
        "_incoming",
        "_is_whole",
        "_owed_bytes",
        "_popped_bytes",
        "_queue",
        "_reader",
        "_request_bytes_max",
        "_silent_looks",
        "_waiting_bytes",
        "_wire",
        "_writer",
        "deadline_s",
        "is_answered",
        "metadata",
        "peer",
        "stream_id",
        "task",
        "window",
        "window_bytes",
    )

    def __init__(
        self,
        wire: Wire,
        stream_id: int,
        peer: str,
        metadata: Mapping[str, str],
        deadline_s: float | None,
        window_bytes: int,
        request_bytes_max: int,
    ) -> None:
        self.stream_id = stream_id
        self.peer = peer
        """``ip:port`` of the client."""
        self.metadata = metadata
        self.deadline_s = deadline_s
        """When its time is over, by `monotonic`; None is never."""
        self.task: asyncio.Task[None] | None = None
        self.window_bytes = window_bytes
        """What the client still takes."""
        self.window = ReceiveWindow(STREAM_WINDOW_BYTES)
        """What it may still send."""
        self.is_answered = False
        self._silent_looks = 0  # of the server, since something came or was taken
        self._wire = wire
        self._request_bytes_max = request_bytes_max
        self._encoding = metadata.get("grpc-encoding", "")
        self._held = bytearray()  # of a message that is not yet whole
        self._incoming: deque[bytes] = deque()
        self._waiting_bytes = self._counted_bytes = 0  # of `_incoming`; counted as held
        self._is_whole = False
        self._has_begun = False
        self._queue: deque[bytes | memoryview] = deque()
        self._owed_bytes = self._popped_bytes = 0  # unread; of what waits behind the queue
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None

    @property
    def left_ms(self) -> int | None:
        """What is left of its time; None is for ever."""
        until_s = self.deadline_s
        return None if until_s is None else max(0, int((until_s - monotonic()) * 1000))

    def is_late(self, now_s: float) -> bool:
        """Whether its time is over, its message does not come, or its answer is not taken.

        The server asks now and then.
        """
        if self._queue or (self.task is None and not self._is_whole):
            self._silent_looks += 1
            self._count_owed()
            if self._silent_looks > SILENT_LOOKS_MAX:
                return True
        return self.deadline_s is not None and self.deadline_s < now_s

    # What the client says

    @property
    def is_whole(self) -> bool:
        """Whether the client has said all."""
        return self._is_whole

    def take(self) -> bytes:
        """The message of a call that has one; `RemoteProtocolError` where it has none or more."""
        if len(self._incoming) != 1:
            raise RemoteProtocolError(f"{len(self._incoming)} messages in place of one")
        return self._incoming.popleft()

    async def messages(self) -> AsyncIterator[bytes]:
        """Messages as they come, until the client has said all."""
        while self._incoming or not self._is_whole:
            if self._incoming:
                message = self._incoming.popleft()
                self._waiting_bytes -= len(message) + _UNREAD_BYTES
                self._count()
                self._permit()
                self._wire.report()
                yield message
            else:
                self._reader = asyncio.get_running_loop().create_future()
                await self._reader

    def arrived(self, data: bytes, *, is_end: bool) -> None:
        """Bytes came.  Raises what `refused` tells the client."""
        self._is_whole = is_end
        if data:
            self._silent_looks = 0
        if not self._held and len(data) >= _PREFIX:
            packed, length = MESSAGE_HEAD.unpack_from(data)
            if not packed and length == len(data) - _PREFIX <= self._request_bytes_max:
                self._add(data[_PREFIX:])
                data = b""
        if data:
            self._wire.hold(len(data))
            self._held += data
            self._cut()
        self._count()
        if not is_end:
            self._permit()
        elif self._held:
            raise RemoteProtocolError("a message is cut")
        _wake(self._reader)

    def _cut(self) -> None:
        held = self._held
        at = 0
        while len(held) - at >= _PREFIX:
            packed, length = MESSAGE_HEAD.unpack_from(held, at)
            if packed > _PACKED_MAX:
                raise RemoteProtocolError(f"a message begins with {packed}")
            if length > self._request_bytes_max:
                text = f"a message of {length} bytes"
                raise BodyTooLarge(self._request_bytes_max, text)
            end = at + _PREFIX + length
            if len(held) < end:
                break
            message = bytes(memoryview(held)[at + _PREFIX : end])
            if packed:
                message = unpack_message(message, self._encoding, self._request_bytes_max)
            self._add(message)
            at = end
        if at:
            del held[:at]
            self._wire.hold(-at)

    def _add(self, message: bytes) -> None:
        """A client that says much on a stream that nobody reads is not served."""
        self._incoming.append(message)
        self._waiting_bytes += len(message) + _UNREAD_BYTES
        if self._waiting_bytes > self._request_bytes_max and len(self._incoming) > 1:
            raise BodyTooLarge(self._request_bytes_max, "what waits of a call")

    def _count(self) -> None:
        """Messages are held too, unless the call is whole and its method takes them at once."""
        counted = 0 if self._is_whole and self.task is None else self._waiting_bytes
        more_bytes = counted - self._counted_bytes
        if more_bytes:
            self._wire.hold(more_bytes, more_bytes)
            self._counted_bytes = counted

    def _permit(self) -> None:
        if not self._is_whole and (more := self.window.permit(self._waiting_bytes)):
            self._wire.write(window_update(self.stream_id, more))

    # What the client is told

    def finish(self, message: bytes) -> None:
        """Answer with one message."""
        size_bytes, wire, stream_id = len(message) + _PREFIX, self._wire, self.stream_id
        if size_bytes > min(self.window_bytes, wire.window_bytes, FRAME_BYTES_MAX):
            self._put(message)
            self.end()
            return
        self.is_answered = True
        self.window_bytes -= size_bytes
        wire.window_bytes -= size_bytes
        fields = len(ANSWER_FIELDS)
        before = _ANSWER.pack(
            0, fields, _HEADERS, END_HEADERS, stream_id, ANSWER_FIELDS,
            size_bytes >> 8, size_bytes & 0xFF, 0, 0, stream_id, 0, len(message),
        )  # fmt: skip
        after = head(len(OK_FIELDS), _HEADERS, _LAST, stream_id)
        wire.write(b"".join((before, message, after, OK_FIELDS)))

    async def send(self, message: bytes) -> None:
        """Answer with one message of several; wait until the connection has it."""
        self._put(message)
        while self._queue or not self._wire.has_room():
            self._wire.wait_for_room(self)
            self._writer = asyncio.get_running_loop().create_future()
            await self._writer

    def popped(self, size_bytes: int) -> None:
        """So much was fetched to be sent: it counts as unread when the client takes nothing."""
        self._popped_bytes = size_bytes

    def end(self) -> None:
        """All was answered."""
        self._begin()
        self._end_with(OK_FIELDS)

    def fail(self, status: GrpcStatus, text: str, *, is_grpc: bool = True) -> None:
        """End with an error of the call itself; what was not taken of its answer is dropped."""
        if not self.is_answered:
            self._queue.clear()
            is_first = not self._has_begun
            self._end_with(status_fields(status, text, is_first=is_first, is_grpc=is_grpc))

    def pump(self) -> bool:
        """Send what the windows let through; whether anything is left."""
        queue, wire = self._queue, self._wire
        while queue:
            chunk = queue[0]
            if isinstance(chunk, _End):
                queue.popleft()
                wire.write(chunk)
                continue
            if not wire.has_room():
                break
            room = min(self.window_bytes, wire.window_bytes, FRAME_BYTES_MAX)
            if room <= 0:
                break
            part = chunk[:room]
            if len(chunk) > room:
                queue[0] = chunk[room:]
            else:
                queue.popleft()
            self.window_bytes -= len(part)
            wire.window_bytes -= len(part)
            self._silent_looks = 0
            wire.write(head(len(part), FrameKind.DATA, 0, self.stream_id) + part)
        if self._owed_bytes:
            self._count_owed()
        return bool(queue)

    def release(self) -> None:
        """The call is over: nothing of it is held any more."""
        self._wire.hold(-len(self._held) - self._counted_bytes, -self._counted_bytes)
        self._counted_bytes = self._waiting_bytes = self._popped_bytes = 0
        self._incoming.clear()
        self._held.clear()
        self._queue.clear()
        self._count_owed()

    def _count_owed(self) -> None:
        """What waits is unread once nothing of it was taken between two looks of the server."""
        owed_bytes = 0
        if self._queue and self._silent_looks:
            owed_bytes = self._popped_bytes + sum(map(len, self._queue))
        if owed_bytes != self._owed_bytes:
            self._wire.owe(owed_bytes - self._owed_bytes)
            self._owed_bytes = owed_bytes

    def _put(self, message: bytes) -> None:
        self._begin()
        self._queue.append(memoryview(MESSAGE_HEAD.pack(0, len(message)) + message))
        if self.pump():
            self._wire.wait_for_room(self)

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            frame = head(len(ANSWER_FIELDS), _HEADERS, END_HEADERS, self.stream_id)
            self._wire.write(frame + ANSWER_FIELDS)

    def _end_with(self, fields: bytes) -> None:
        self.is_answered = True
        last = head(len(fields), _HEADERS, _LAST, self.stream_id) + fields
        if not self._is_whole:  # the client need not go on
            last += reset(self.stream_id, H2Error.NO_ERROR)
        self._queue.append(_End(last))
        if self.pump():
            self._wire.wait_for_room(self)

    def wake(self) -> None:
        """The connection takes more."""
        _wake(self._writer)


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


class _End(bytes):
    """The last frames of a call: they need no window."""


_UNREAD_BYTES: Final = 1_024
"""What a message that waits counts beside its bytes."""
