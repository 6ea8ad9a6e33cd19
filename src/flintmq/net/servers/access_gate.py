"""Access control before a session: frames that may pass go on, the others are answered here.

    frames ─► signed by whom? ─► needs what? ─┬─ passes ─► session
                                              └─ refused ─► answer with code and remark

It stands before everything that reads requests, so that no fast path can miss it.  A oneway request
that is refused gets no answer, as in RocketMQ.  Answers of clients pass: they belong to requests of
ours.

A session that has no time for a frame gets it again in a later turn, and through the gate.  Frames
that passed are marked in a way that no peer can write, so they pass again as they are.

Invariant: a session behind the gate sees no request that was not checked, and sees of it what was
checked; while it serves a request, ``user`` of the channel is who signed it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from flintmq.access.control import AccessControl, AccessRefusal, Signed
from flintmq.access.decide import Need
from flintmq.access.known_sends import KnownSends
from flintmq.access.needs import ADMINISTRATIVE
from flintmq.access.rights import Reserved
from flintmq.access.rules import User
from flintmq.access.sources import IpAddress, parse_address
from flintmq.errors import BodyTooLarge, MalformedBody, MalformedHeader
from flintmq.model.host import Host
from flintmq.net.channels.channel import Channel
from flintmq.net.channels.session import Session
from flintmq.net.servers.server import Gate
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, answer
from flintmq.protocol.frame import Frame, HeaderForm
from flintmq.protocol.headers.catalogue import REQUEST_HEADERS
from flintmq.protocol.remarks import remark_of
from flintmq.protocol.typed_request import RequestReader, TypedRequest
from flintmq.protocol.wire import decode_command, encode_command

_READ: Final = RequestReader(REQUEST_HEADERS).read
_SENDS: Final = frozenset({int(RequestCode.SEND_MESSAGE_V2), int(RequestCode.SEND_BATCH_MESSAGE)})


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """Who passes a gate, or why not."""

    code: int
    """Of the request."""
    peer: str
    outcome: User | AccessRefusal | None
    """None is somebody at an address that needs no account."""
    needs: Sequence[Need] | Reserved = ()
    """What the request needs, where it could be read."""
    call: str | None = None
    """The call of gRPC that the request stands for."""


class Auditor(Protocol):
    """Hears of refusals and of allowed administrative requests."""

    @property
    def hears_all(self) -> bool:
        """Whether it hears of all other allowed requests too."""

    def record(self, decision: AccessDecision) -> None:
        """Keep a decision.  It must not fail: the request is served whatever becomes of this."""


class _Checked(int):
    """The form of a header that was checked: it counts as the form itself, and marks the frame."""


_CHECKED: Final = {form: _Checked(form) for form in HeaderForm}
_CHECKED_JSON: Final = _CHECKED[HeaderForm.JSON]


def access_gate(control: AccessControl, auditor: Auditor | None = None) -> Gate:
    """A gate that lets pass what the rules allow."""

    def gate(session: Session, channel: Channel) -> Session:
        return _AccessGate(session, channel, control, auditor)

    return gate


class _AccessGate:
    """Access control of one connection."""

    def __init__(
        self,
        session: Session,
        channel: Channel,
        control: AccessControl,
        auditor: Auditor | None,
    ) -> None:
        self._session = session
        self._channel = channel
        self._control = control
        self._auditor = auditor
        self._hears_all = auditor is not None and auditor.hears_all
        self._known = KnownSends()
        self._source: IpAddress | None = parse_address(Host.parse(channel.peer).ip)
        self._user: User | None = None  # of the last frame that passed

    def frames(self, frames: list[Frame]) -> None:
        channel = self._channel
        passed: list[Frame] = []
        try:
            for place, frame in enumerate(frames):
                checked = self._passed(frame)
                if checked is None:
                    continue
                if self._user is not channel.user:
                    served, passed = passed, []
                    if served and not self._serve(served):
                        self._user = channel.user
                        channel.later(frames[place:])
                        return
                    channel.user = self._user
                passed.append(checked)
        finally:  # what is no command ends the connection, after what came before it
            if passed:
                self._session.frames(passed)

    def _serve(self, frames: list[Frame]) -> bool:
        """Serve the requests of one user before those of the next; whether all are served."""
        self._session.frames(frames)
        return not self._channel.frames_behind

    def lost(self) -> None:
        self._control.left(self._channel.peer)
        self._session.lost()

    async def finish(self) -> None:
        await self._session.finish()

    def _passed(self, frame: Frame) -> Frame | None:
        """What the session gets of a frame; a send like the one before comes unsigned."""
        if type(frame[0]) is _Checked:
            return frame
        rules = self._control.rules
        known = self._known.check(frame, rules)
        if known is not None:
            header, user = known
            bare = _CHECKED_JSON, header, frame[2]
            self._user = user
            if self._hears_all:
                self._audit(decode_command(bare), user, bare)
            return bare
        command = decode_command(frame)  # raises for what is no command, which ends the connection
        if command.is_answer:
            return frame
        outcome = self._check(command, frame)
        if self._auditor is not None:
            self._audit(command, outcome, frame)
        if isinstance(outcome, AccessRefusal):
            if not command.is_oneway:
                refused = answer(command, outcome.code, remark=outcome.remark)
                self._channel.write((encode_command(refused),))
            return None
        self._user = outcome
        if command.code in _SENDS and outcome is not None:
            self._known.learn(frame, command, outcome, rules)
        elif command.code == RequestCode.HEART_BEAT:
            self._control.joined(self._channel.peer, outcome)
        return _CHECKED[frame[0]], frame[1], frame[2]  # type: ignore[index]  # a form is its number

    def _audit(self, command: Command, outcome: User | AccessRefusal | None, frame: Frame) -> None:
        assert self._auditor is not None
        is_refused = isinstance(outcome, AccessRefusal)
        if self._hears_all or is_refused or command.code in ADMINISTRATIVE:
            needs = self._needs(frame)
            decision = AccessDecision(command.code, self._channel.peer, outcome, needs)
            self._auditor.record(decision)

    def _needs(self, frame: Frame) -> Sequence[Need] | Reserved:
        try:
            request = _READ(frame)
            return () if isinstance(request, Command) else self._control.needs(request)
        except (MalformedHeader, MalformedBody, BodyTooLarge):
            return ()

    def _check(self, command: Command, frame: Frame) -> User | AccessRefusal | None:
        control, source = self._control, self._source
        try:
            request: TypedRequest[Any] | Command = _READ(frame)
            signed = Signed(command.field_texts(), command.body, command.version)
            if isinstance(request, Command):  # nobody serves such a code, and the session says so
                return None if control.is_trusted(source) else control.authenticate(signed, source)
            return control.check(request, signed, source)
        except (MalformedHeader, MalformedBody, BodyTooLarge) as error:
            remark = f"{type(error).__name__}: {remark_of(error)}"
            return AccessRefusal(ResponseCode.SYSTEM_ERROR, remark)
