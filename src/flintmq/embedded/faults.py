"""Faults on request: a broker that does not answer for a while, requests and answers that get lost.

    frames of a connection ─► gate ─┬─ paused ───────► kept in order ─resume─► served
                                    ├─ to be dropped ─► it, its answer or its connection is lost
                                    └─ else ─────────────────────────────────► served

What is kept is bounded by what clients have under way.  Used on the loop of the servers only.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from flintmq.net.channels.channel import Channel
from flintmq.net.channels.session import Session
from flintmq.protocol.command import ONEWAY_BIT
from flintmq.protocol.frame import Frame, HeaderForm
from flintmq.protocol.header_json import encode_json_header_as
from flintmq.protocol.wire import decode_command


class Lost(StrEnum):
    """The part of a request that is lost: the request, its answer, or its connection."""

    REQUEST = "request"
    """The request is not served, and not answered."""
    ANSWER = "answer"
    """The request is served, and not answered."""
    CONNECTION = "connection"
    """The request is not served, and its connection ends."""


@dataclass(slots=True)
class _Drop:
    code: int
    lost: Lost
    left: int


class Faults:
    """The faults a test has planned for the sessions of its servers."""

    def __init__(self) -> None:
        self.is_paused = False
        self._kept: list[tuple[_Gate, list[Frame]]] = []
        self._drops: list[_Drop] = []

    # What a server is given

    def gate(self, session: Session, channel: Channel) -> Session:
        """A session of a broker, which may be paused."""
        return _Gate(self, session, channel, may_pause=True)

    def open_gate(self, session: Session, channel: Channel) -> Session:
        """A session of a name server: requests may be lost, but it never pauses."""
        return _Gate(self, session, channel, may_pause=False)

    # What a test asks for

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        """Serve what was kept, in the order it came."""
        self.is_paused = False
        kept, self._kept = self._kept, []
        for gate, frames in kept:
            gate.serve_late(frames)

    def drop(self, code: int, lost: Lost, count: int) -> None:
        self._drops.append(_Drop(code, lost, count))

    @property
    def left(self) -> int:
        """How many requests are still to be dropped."""
        return sum(drop.left for drop in self._drops)

    # What a gate asks

    def keep(self, gate: _Gate, frames: list[Frame]) -> None:
        self._kept.append((gate, frames))

    def sift(self, frames: list[Frame], channel: Channel) -> list[Frame]:
        """The frames that are still to be served; none after a connection was closed."""
        if not self._drops:
            return frames
        served = []
        for frame in frames:
            command = decode_command(frame)
            drop = None if command.is_answer else self._use_drop(command.code)
            if drop is None:
                served.append(frame)
            elif drop.lost is Lost.ANSWER:
                flag = command.flag | ONEWAY_BIT
                header = encode_json_header_as(command, command.opaque, flag)
                served.append((int(HeaderForm.JSON), header, command.body))
            elif drop.lost is Lost.CONNECTION:
                channel.abort("a test wanted it so")
                break
        return served

    def _use_drop(self, code: int) -> _Drop | None:
        for drop in self._drops:
            if drop.code == code:
                drop.left -= 1
                if not drop.left:
                    self._drops.remove(drop)
                return drop
        return None


class _Gate:
    """A session that gets only what passes."""

    def __init__(
        self, faults: Faults, session: Session, channel: Channel, *, may_pause: bool
    ) -> None:
        self._faults = faults
        self._session = session
        self._channel = channel
        self._may_pause = may_pause

    def frames(self, frames: list[Frame]) -> None:
        if self._may_pause and self._faults.is_paused:
            self._faults.keep(self, frames)
            return
        passed = self._faults.sift(frames, self._channel)
        if passed:
            self._session.frames(passed)

    def serve_late(self, frames: list[Frame]) -> None:
        """Serve what was kept, unless its connection is closed."""
        self._channel.later(frames)

    def lost(self) -> None:
        self._session.lost()

    async def finish(self) -> None:
        await self._session.finish()
