"""One end of a connection on asyncio: the only code that touches a transport.

Both ends are alike, so clients and servers use this one class.

    socket ─► frames of one read ─► session.frames()
    socket ◄─ one write per turn ◄─ queue ◄─ call, tell, answer, write

It moves bytes and waits for answers.  What a frame means its `Session` decides; who connects
is `channel_pool`, who accepts is `servers.server`.

Memory is bounded both ways.  In: one incomplete frame, which a server counts over all its
connections and which is dropped at close.  Out: above ``write_high_bytes`` callers wait, each up
to its own deadline, and an accepted channel stops reading, so a peer that does not take its
answers is not served more; above ``write_bytes_max`` the channel is closed.  A client never stops
reading for that: two ends that both wait for the other to read would wait for ever.

Invariant: every call ends, in its answer, in `Unreachable` or with its caller's cancellation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import perf_counter
from typing import TypeAlias, cast

from flintmq.access.rules import User
from flintmq.errors import RemoteProtocolError, Unreachable
from flintmq.logs import logger
from flintmq.net.channels.partial_frames import PartialFrames
from flintmq.net.channels.session import NO_SESSION, Session, no_session
from flintmq.net.channels.unread_bytes import UnreadBytes
from flintmq.net.channels.watchdog import Stalls
from flintmq.net.channels.write_waiters import (
    AnswerWaiter,
    FutureWaiter,
    WaitingCall,
    WriteWaiters,
)
from flintmq.net.clock import Clock, monotonic_ms
from flintmq.net.limits import CUT_MS, LIMITS, LINGER_MS, ChannelLimits
from flintmq.net.reasons import does_not_read, no_answer, why_lost
from flintmq.protocol.command import Command
from flintmq.protocol.connection import Connection
from flintmq.protocol.frame import Frame, FrameReader

log = logger(__name__)

Chunk: TypeAlias = bytes | memoryview
"""Bytes to send.  A view counts bytes and stays valid until it was sent."""

TURN_S = 0.002
"""After so long a session leaves the rest of a read to a later turn: others wait for it."""


class Channel(asyncio.Protocol):
    """A connection on asyncio.  It belongs to the loop it was made on."""

    def __init__(
        self,
        open_session: Callable[[Channel], Session],
        peer: str,
        *,
        accepted: bool = False,
        limits: ChannelLimits = LIMITS,
        clock: Clock = monotonic_ms,
        partial: PartialFrames | None = None,
        unread: UnreadBytes | None = None,
        stalls: Stalls | None = None,
    ) -> None:
        self.peer = peer
        """The address that was connected to, or that connected."""
        self.has_heard = False
        """Whether the peer ever sent anything."""
        self.user: User | None = None
        """Who signed the requests that the session gets; a gate before the session says so."""
        self.why_closed = ""
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        """Done once the socket is closed."""
        self._open_session = open_session
        self._accepted = accepted
        self._limits = limits
        self._clock = clock
        self._reader = FrameReader(limits.frame_bytes_max)
        self._connection = Connection(calls_max=limits.calls_max)
        self._calls: dict[int, WaitingCall] = {}
        self._queue: list[Chunk] = []
        self._queue_bytes = 0
        self._flush_due = self._full = self._waits = self._is_partial = False
        self._partial = partial
        self._unread = unread or UnreadBytes(limits.write_bytes_max)
        self._stalls = stalls
        self._backlog: list[Frame] = []  # of a read that took too long
        self._turn_s = 0.0
        self._waiting_for_room = WriteWaiters(limits.calls_max)
        self._active_ms = clock()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms, self._secure = 0, False
        self._session: Session = NO_SESSION
        self._transport: asyncio.Transport | None = None

    def __repr__(self) -> str:
        return f"<Channel {self.peer}, {self.why_closed or f'{len(self._calls)} calls'}>"

    @property
    def is_closed(self) -> bool:
        """Whether the connection is closed; ``why_closed`` has the reason."""
        return self.why_closed != ""

    @property
    def unsent_bytes(self) -> int:
        """Bytes in the write queue that the system has not yet accepted."""
        transport = self._transport
        return self._queue_bytes + (transport.get_write_buffer_size() if transport else 0)

    # What the owner does with it.

    async def call(self, request: Command, timeout_ms: int) -> Command:
        """Send a request and wait for its answer."""
        if self._full:
            timeout_ms = await self._room(request.code, timeout_ms)
        future: asyncio.Future[Command] = self._loop.create_future()
        opaque = self.begin(request, timeout_ms, FutureWaiter(future))
        try:
            return await future
        except asyncio.CancelledError:
            self._connection.abandon(opaque)
            self._calls.pop(opaque, None)
            raise

    def begin(self, request: Command, timeout_ms: int, waiter: AnswerWaiter) -> int:
        """Send a request whose answer ``waiter`` gets.  Only where it `may_begin`."""
        self._check_open()
        now_ms = self._clock()
        opaque, data = self._connection.call(request, now_ms, timeout_ms)
        self._calls[opaque] = WaitingCall(waiter, request.code, timeout_ms)
        if now_ms + timeout_ms < self._timer_ms:
            self._wake_at(now_ms + timeout_ms, now_ms)
        self.write((data,))
        return opaque

    async def send_oneway(self, request: Command, timeout_ms: int) -> None:
        """Send a request that takes no answer; wait only for room to queue it."""
        if self._full:
            await self._room(request.code, timeout_ms)
        self.send_oneway_now(request)

    def send_oneway_now(self, request: Command) -> None:
        """Send a oneway request without waiting.  Only ``write_bytes_max`` bounds what piles up."""
        self._check_open()
        self.write((self._connection.send_oneway(request),))

    def answer(self, to: Command, answer: Command) -> None:
        """Answer a request of the peer.  A peer that has left, or wants none, gets none."""
        if not self.is_closed and (data := self._connection.answer(to, answer)):
            self.write((data,))

    def answered(self, command: Command) -> None:
        """The session decoded an answer of the peer: end the call it belongs to."""
        if self._connection.take_answer(command):
            self._calls.pop(command.opaque).waiter.answered(command)
        else:
            log.debug("%s: an answer nobody waits for, code %d", self.peer, command.code)

    def write(self, chunks: Iterable[Chunk]) -> None:
        """Queue whole frames, in pieces or in one.  They leave at the end of this turn."""
        if self.why_closed:
            return
        for chunk in chunks:
            self._queue.append(chunk)
            self._queue_bytes += len(chunk)
        if self._queue_bytes >= self._limits.write_high_bytes:
            self.flush()
        elif not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Hand what is queued to the system now."""
        self._flush_due = False
        chunks = self._queue
        if not chunks:
            return
        self._queue, self._queue_bytes = [], 0
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._active_ms = self._clock()
        if len(chunks) == 1:
            transport.write(chunks[0])
        else:
            transport.writelines(chunks)
        if unread := transport.get_write_buffer_size():
            self._unread.update(self, unread)

    async def close(self, timeout_ms: int = LINGER_MS) -> None:
        """Let the session finish, send what is queued, close.  What is late is dropped."""
        reason = "the channel was closed"
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                if not self.is_closed:
                    await self._session.finish()
                self.flush()
                self._end(reason)
                transport = self._transport
                if transport is not None and not transport.is_closing():
                    transport.close()  # once: asyncio's TLS cannot be aborted after two
                await asyncio.wait([self.closed])
        except TimeoutError:
            log.info("%s: closed with work under way or bytes unread", self.peer)
        finally:
            if not self.closed.done():
                self.abort(reason)
        if not (await asyncio.wait([self.closed], timeout=CUT_MS / 1000))[0]:
            self.give_up(reason)

    def abort(self, reason: str) -> None:
        """Close at once; what is queued is dropped."""
        self._end(reason)
        if self._transport is not None:
            self._transport.abort()

    def give_up(self, reason: str) -> None:
        """Close at once and count as closed, whatever the transport does or does not report."""
        with suppress(RuntimeError):  # uvloop, of a transport that it closed without a word
            self.abort(reason)
        self._gone()

    # What a session may ask for in `frames`.

    def has_time(self) -> bool:
        """Whether the session may go on with the frames of this read."""
        return not self._waits and perf_counter() - self._turn_s < TURN_S

    @property
    def frames_behind(self) -> int:
        """Frames that wait for a later turn."""
        return len(self._backlog)

    def later(self, frames: list[Frame]) -> None:
        """Give these to the session again in the next turn; until then nothing is read."""
        if frames and not self.is_closed:
            if not self._backlog:
                self._loop.call_soon(self._go_on)
            self._backlog += frames
            self._read_or_wait()

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made = cast(asyncio.Transport, transport)
        if self.is_closed:  # given up before it was there
            made.abort()
            return
        self._transport = made
        self._secure = transport.get_extra_info("sslcontext") is not None
        made.set_write_buffer_limits(self._limits.write_high_bytes, self._limits.write_low_bytes)
        self._wake_at(self._active_ms + self._limits.idle_ms, self._active_ms)
        self._session = self._open_session(self)

    def data_received(self, data: bytes) -> None:
        if self.is_closed:
            return
        self.has_heard, self._active_ms = True, self._clock()
        self._turn(data, [])

    def pause_writing(self) -> None:
        self._full, self._waits = True, self._accepted
        self._read_or_wait()

    def resume_writing(self) -> None:
        self._full = self._waits = False
        self._loop.call_soon(self._go_on)
        self._waiting_for_room.wake()

    def connection_lost(self, error: Exception | None) -> None:
        cut = self._reader.pending_bytes > 0
        self._end(why_lost(error, in_frame=cut, secure=self._secure, heard=self.has_heard))
        self._gone()

    def timer_fired(self) -> None:
        """End calls whose time is over, or a channel that is idle; come back when due."""
        now_ms = self._clock()
        for ended in self._connection.expire(now_ms):
            waiting = self._calls[ended.opaque]
            self._fail(ended.opaque, no_answer(waiting.code, waiting.timeout_ms))
        due_ms = self._connection.next_deadline_ms
        if due_ms is None:
            due_ms = self._active_ms + self._limits.idle_ms
        if due_ms <= now_ms:
            self._close_idle()
        else:
            self._wake_at(due_ms, now_ms)

    # Inside.

    def _close_idle(self) -> None:
        log.debug("%s: closed after %d ms without traffic", self.peer, self._limits.idle_ms)
        self._end(f"closed after {self._limits.idle_ms} ms without traffic")
        if (transport := self._transport) is not None:
            (transport.abort if transport.get_write_buffer_size() else transport.close)()

    def _turn(self, data: bytes, frames: list[Frame]) -> None:
        """Serve what was read, or what a long read left."""
        self._flush_due = True  # below, for all that the session writes meanwhile
        self._turn_s = perf_counter()
        try:
            if data:
                frames = self._reader.feed(data)
                held_bytes = self._reader.pending_bytes
                if (held_bytes or self._is_partial) and self._partial is not None:
                    self._is_partial = held_bytes > 0
                    self._partial.update(self, held_bytes, is_new=bool(frames))
            if self._backlog:  # read before reading stopped
                self._backlog += frames
            elif frames:
                self._session.frames(frames)
        except RemoteProtocolError as error:
            log.info("%s: closed, it broke the protocol: %s", self.peer, error)
            self.abort(f"the peer broke the protocol: {error}")
        finally:
            self.flush()
            if self._stalls is not None:
                self._stalls.record(perf_counter() - self._turn_s, self.peer)

    def _go_on(self) -> None:
        if self.is_closed or self._waits:  # `resume_writing` comes back
            return
        frames, self._backlog = self._backlog, []
        self._turn(b"", frames)
        self._read_or_wait()

    def _read_or_wait(self) -> None:
        """Read on, unless the peer does not read either or was not yet served."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._backlog or self._waits:
            transport.pause_reading()
        else:
            transport.resume_reading()

    def _gone(self) -> None:
        """The socket is closed.  Nothing refers to the session any more, so both are freed."""
        if self.closed.done():
            return
        session, self._session = self._session, NO_SESSION
        try:
            session.lost()
        finally:
            self._transport = None
            self._open_session = no_session
            self.closed.set_result(None)

    def _wake_at(self, due_ms: int, now_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = due_ms
        self._timer = self._loop.call_later((due_ms - now_ms) / 1000, self.timer_fired)

    async def _room(self, code: int, timeout_ms: int) -> int:
        """Wait until the peer has read; give what is left of the time."""
        deadline_ms = self._clock() + timeout_ms
        try:
            await self._waiting_for_room.wait_while(
                lambda: self._full and not self.is_closed, timeout_ms
            )
        except TimeoutError:
            raise Unreachable(self.peer, does_not_read(code, timeout_ms)) from None
        return max(1, deadline_ms - self._clock())

    def may_begin(self) -> bool:
        """Whether `begin` can send at once; a full channel has to wait for its peer to read."""
        return not (self._full or self.why_closed)

    def _check_open(self) -> None:
        if self.is_closed:
            raise Unreachable(self.peer, self.why_closed)

    def _fail(self, opaque: int, reason: str) -> None:
        self._calls.pop(opaque).waiter.failed(Unreachable(self.peer, reason))

    def _end(self, reason: str) -> None:
        """Nothing is sent or awaited any more.  The first reason given is the true one."""
        if self.is_closed:
            return
        self.why_closed = reason
        for lost in self._connection.close():
            self._fail(lost.opaque, reason)
        self._waiting_for_room.wake()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._reader.clear()
        self._queue, self._queue_bytes, self._backlog = [], 0, []
        self._unread.forget(self)
        if self._partial is not None:
            self._partial.forget(self)
