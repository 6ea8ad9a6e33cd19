"""One end of a connection, without the socket.

Both ends of a RocketMQ connection are alike: each may ask, each may be asked, and answers
come in any order.  A `Connection` turns bytes that arrived into events and calls that are
to be made into bytes.  Whoever owns the socket and the clock drives it; it cannot tell
whether that is asyncio, a thread or a test.

    call ──► waiting ──answer──► Answered
                 ├───deadline──► TimedOut     a later answer is Unmatched
                 └────close────► Lost
    tell (oneway): nothing waits

Invariant: every call ends in exactly one of Answered, TimedOut and Lost.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TypeAlias

from flintmq.errors import LocalProtocolError, Overloaded, RemoteProtocolError
from flintmq.protocol.command import ANSWER_BIT, ONEWAY_BIT, Command
from flintmq.protocol.frame import FRAME_BYTES_MAX, FrameReader, HeaderForm
from flintmq.protocol.wire import decode_command, encode_command_as

CALLS_MAX = 65_535
"""Calls that may wait for their answer at once; the Java client allows as many."""

UNMATCHED_MAX = 1_000
"""Answers beyond the number of our requests before the peer is cut off: it answers what nobody
asked, and reading that takes the time of those who ask."""

_OPAQUE_MAX = 2**31 - 1
_ASKS = ~(ANSWER_BIT | ONEWAY_BIT)

_DEADLINES_SPARE = 1_024
"""Deadlines of calls that ended which are kept before the heap is made anew."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The peer sent a request."""

    command: Command


@dataclass(frozen=True, slots=True)
class Answered:
    """The peer answered one of our calls."""

    opaque: int
    command: Command


@dataclass(frozen=True, slots=True)
class Unmatched:
    """An answer nobody waits for: it came after its deadline, or was never asked for."""

    command: Command


@dataclass(frozen=True, slots=True)
class TimedOut:
    """No answer came by the deadline."""

    opaque: int


@dataclass(frozen=True, slots=True)
class ConnectionEnded:
    """The connection ended before the answer came."""

    opaque: int


Arrival: TypeAlias = Asked | Answered | Unmatched


class Connection:
    """The machine.  One per socket; not shared between threads."""

    def __init__(
        self,
        *,
        form: HeaderForm = HeaderForm.JSON,
        frame_bytes_max: int = FRAME_BYTES_MAX,
        calls_max: int = CALLS_MAX,
    ) -> None:
        self._form = form
        self._calls_max = calls_max
        self._reader = FrameReader(frame_bytes_max)
        self._opaque = 0
        self._waiting: dict[int, int] = {}  # opaque → deadline in ms
        self._deadlines: list[tuple[int, int]] = []  # heap; calls that ended are skipped later
        self._asked = 0
        self._unmatched = 0
        self._closed = False

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return f"<Connection {state}, {len(self._waiting)} calls waiting>"

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    @property
    def next_deadline_ms(self) -> int | None:
        """When `expire` has something to do, or None while nothing waits."""
        while self._deadlines and self._waiting.get(self._deadlines[0][1]) != self._deadlines[0][0]:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def feed(self, data: bytes) -> list[Arrival]:
        """Take bytes from the peer; raise `RemoteProtocolError` when they make no sense."""
        commands = [decode_command(frame) for frame in self._reader.feed(data)]
        return [self.arrive(command) for command in commands]  # all or none: see the invariant

    def call(self, request: Command, now_ms: int, timeout_ms: int) -> tuple[int, bytes]:
        """Ask the peer: the opaque number under which it will answer, and what to send."""
        self._check_open()
        if len(self._waiting) >= self._calls_max:
            raise Overloaded("calls waiting for an answer", self._calls_max, "calls_max")
        opaque = self._next_opaque()
        data = encode_command_as(request, opaque, request.flag & _ASKS, self._form)
        deadline_ms = now_ms + timeout_ms
        self._waiting[opaque] = deadline_ms
        heapq.heappush(self._deadlines, (deadline_ms, opaque))
        if len(self._deadlines) > 2 * len(self._waiting) + _DEADLINES_SPARE:
            self._deadlines = [(at_ms, number) for number, at_ms in self._waiting.items()]
            heapq.heapify(self._deadlines)
        return opaque, data

    def send_oneway(self, request: Command) -> bytes:
        """Ask without wanting an answer."""
        self._check_open()
        return self._encode(request, self._next_opaque(), request.flag | ONEWAY_BIT)

    def answer(self, to: Command, answer: Command) -> bytes:
        """Answer a request of the peer; an oneway request takes no answer, so no bytes."""
        self._check_open()
        if to.is_answer:
            raise LocalProtocolError("an answer cannot be answered")
        if to.is_oneway:
            return b""
        return self._encode(answer, to.opaque, answer.flag & ~ONEWAY_BIT | ANSWER_BIT)

    def abandon(self, opaque: int) -> None:
        """Stop waiting for a call whose caller waits no longer; its answer will be Unmatched."""
        self._waiting.pop(opaque, None)

    def expire(self, now_ms: int) -> list[TimedOut]:
        """End the calls whose deadline has passed."""
        ended = []
        while (deadline_ms := self.next_deadline_ms) is not None and deadline_ms <= now_ms:
            _, opaque = heapq.heappop(self._deadlines)
            del self._waiting[opaque]
            ended.append(TimedOut(opaque))
        return ended

    def close(self) -> list[ConnectionEnded]:
        """The socket is closed: end every call that still waits."""
        self._closed = True
        lost = [ConnectionEnded(opaque) for opaque in self._waiting]
        self._waiting.clear()
        self._deadlines.clear()
        return lost

    def arrive(self, command: Command) -> Arrival:
        """Take one command from the peer: `feed` for those who cut and decode frames themselves.

        Raises `RemoteProtocolError` for a peer that goes on answering what nobody asked.
        """
        if not command.is_answer:
            return Asked(command)
        if self.take_answer(command):
            return Answered(command.opaque, command)
        return Unmatched(command)

    def take_answer(self, answer: Command) -> bool:
        """`arrive` for an answer: whether one of our calls waited for it."""
        if self._waiting.pop(answer.opaque, None) is not None:
            return True
        self._unmatched += 1
        if self._unmatched > self._asked + UNMATCHED_MAX:
            raise RemoteProtocolError(
                f"{self._unmatched} answers that nobody waits for, to {self._asked} requests"
            )
        return False

    def _encode(self, command: Command, opaque: int, flag: int) -> bytes:
        return encode_command_as(command, opaque, flag, self._form)

    def _next_opaque(self) -> int:
        """The next free number; numbers start again at 0 after the largest."""
        self._asked += 1
        opaque = self._opaque
        while opaque in self._waiting:
            opaque = opaque + 1 if opaque < _OPAQUE_MAX else 0
        self._opaque = opaque + 1 if opaque < _OPAQUE_MAX else 0
        return opaque

    def _check_open(self) -> None:
        if self._closed:
            raise LocalProtocolError("the connection is closed")
