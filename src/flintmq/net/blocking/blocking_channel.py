"""One connection on a plain socket, for code without an event loop.

`call` sends and waits.  `start` sends and `finish` waits, so that the next answer travels while
the last one is worked on.  Nothing happens between calls: what the peer sent is looked at when
somebody waits, and its requests are answered then, by the handler, or ignored.

Not for several threads at once: each thread takes channels of its own.

Invariant: a started call ends in `finish`, with its answer or with `Unreachable`, or in `abandon`.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeAlias

from flintmq.errors import Overloaded, RemoteProtocolError, Unreachable
from flintmq.net.clock import Clock, monotonic_ms
from flintmq.net.limits import CONNECT_MS, LIMITS, ChannelLimits
from flintmq.net.reasons import does_not_read, no_answer, why_lost
from flintmq.net.receive_buffer import ReceiveBuffer
from flintmq.protocol.command import Command
from flintmq.protocol.connection import Answered, Asked, Connection
from flintmq.protocol.wire import decode_command

BlockingHandler: TypeAlias = Callable[[Command], Command | None]


def ignore(_request: Command) -> None:
    """The handler of those whom nobody should ask."""


class BlockingChannel:
    """A connection on a blocking socket.  `blocking.connect` makes one."""

    def __init__(
        self,
        sock: socket.socket,
        peer: str,
        *,
        handler: BlockingHandler = ignore,
        limits: ChannelLimits = LIMITS,
        clock: Clock = monotonic_ms,
    ) -> None:
        self.peer = peer
        self.has_heard = False
        self.why_closed = ""
        self._sock = sock
        self._handler = handler
        self._limits = limits
        self._clock = clock
        self._connection = Connection(calls_max=limits.calls_max)
        self._inbox = ReceiveBuffer(limits.frame_bytes_max)
        self._started: dict[int, tuple[int, int]] = {}  # token → code, timeout_ms
        self._ended: dict[int, Command | Unreachable] = {}
        self._active_ms = clock()

    def __repr__(self) -> str:
        state = f"closed: {self.why_closed}" if self.why_closed else f"{len(self._started)} calls"
        return f"<BlockingChannel {self.peer}, {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def is_closed(self) -> bool:
        return self.why_closed != ""

    def call(self, request: Command, timeout_ms: int) -> Command:
        """Send a request and wait for its answer."""
        token = self.start(request, timeout_ms)
        try:
            return self.finish(token)
        except BaseException:  # an interrupt, mostly; the others have ended the call already
            self.abandon(token)
            raise

    def start(self, request: Command, timeout_ms: int) -> int:
        """Send a request; its time runs from now.  The token is for `finish`, once.

        Start no more than the peer will take: nothing is read meanwhile.
        """
        self._check_open()
        if len(self._started) >= self._limits.calls_max:
            raise Overloaded("calls started", self._limits.calls_max, "calls_max")
        token, data = self._connection.call(request, self._clock(), timeout_ms)
        self._started[token] = request.code, timeout_ms
        self._send(data, request.code, timeout_ms)
        return token

    def finish(self, token: int) -> Command:
        """Wait for the answer to a request that was started."""
        assert token in self._started, f"{token} was not started, or is already finished"
        while token not in self._ended:
            self._receive()
        del self._started[token]
        outcome = self._ended.pop(token)
        if isinstance(outcome, Unreachable):
            raise outcome
        return outcome

    def abandon(self, token: int) -> None:
        """Give up a request that was started; its answer will be dropped."""
        self._connection.abandon(token)
        self._started.pop(token, None)
        self._ended.pop(token, None)

    def send_oneway(self, request: Command, timeout_ms: int) -> None:
        """Send a request that takes no answer."""
        self._check_open()
        self._send(self._connection.send_oneway(request), request.code, timeout_ms)
        self._check_open()

    def poll(self) -> None:
        """Take what has already arrived without waiting; notice a peer that has left."""
        if self._clock() - self._active_ms >= self._limits.idle_ms and not self._started:
            self._end(f"closed after {self._limits.idle_ms} ms without traffic")
        elif not self.is_closed:
            self._receive_for(0)

    def close(self) -> None:
        self._end("the channel was closed")

    def _receive(self) -> None:
        """Wait for one arrival, or for the next deadline."""
        now_ms = self._clock()
        for late in self._connection.expire(now_ms):
            self._ended[late.opaque] = Unreachable(
                self.peer, no_answer(*self._started[late.opaque])
            )
        due_ms = self._connection.next_deadline_ms
        if due_ms is not None:
            self._receive_for(due_ms - now_ms)

    def _receive_for(self, timeout_ms: int) -> None:
        try:
            self._sock.settimeout(timeout_ms / 1000)
            frames = self._inbox.receive(self._sock.recv_into)
            commands = [decode_command(frame) for frame in frames]
        except (TimeoutError, BlockingIOError, ssl.SSLWantReadError):
            return
        except RemoteProtocolError as error:
            self._end(f"the peer broke the protocol: {error}")
        except (EOFError, OSError) as error:
            self._lose(error)
        else:
            self.has_heard = True
            self._active_ms = self._clock()
            for command in commands:
                self._arrive(command)

    def _arrive(self, command: Command) -> None:
        try:
            arrival = self._connection.arrive(command)
        except RemoteProtocolError as error:
            self._end(f"the peer broke the protocol: {error}")
            return
        match arrival:
            case Answered(opaque=opaque):
                self._ended[opaque] = command
            case Asked():
                reply = self._handler(command)
                if reply is not None and not self.is_closed:
                    self._send(self._connection.answer(command, reply), command.code, CONNECT_MS)

    def _send(self, data: bytes, code: int, timeout_ms: int) -> None:
        self._active_ms = self._clock()
        try:
            self._sock.settimeout(timeout_ms / 1000)
            self._sock.sendall(data)
        except TimeoutError:  # half a frame may have left, so this is the end of the channel
            self._end(does_not_read(code, timeout_ms))
        except OSError as error:
            self._lose(error)
        except BaseException:  # an interrupt: half a frame may have left here, too
            self._end("interrupted while sending")
            raise

    def _check_open(self) -> None:
        if self.is_closed:
            raise Unreachable(self.peer, self.why_closed)

    def _lose(self, error: Exception) -> None:
        self._end(
            why_lost(
                None if isinstance(error, EOFError) else error,
                in_frame=self._inbox.pending_bytes > 0,
                secure=isinstance(self._sock, ssl.SSLSocket),
                heard=self.has_heard,
            )
        )

    def _end(self, reason: str) -> None:
        """Nothing is sent or awaited any more.  The first reason given is the true one."""
        if self.is_closed:
            return
        self.why_closed = reason
        for lost in self._connection.close():
            self._ended[lost.opaque] = Unreachable(self.peer, reason)
        self._sock.close()
