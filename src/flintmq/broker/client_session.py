"""One connection of a client: frames in, requests to the engine.

A frame whose header has a field that is missing or wrong is refused, and the connection goes
on; one that is no command at all ends it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Protocol

from flintmq.access.needs import ADMINISTRATIVE
from flintmq.broker.admin.account_admin import PROCESSORS as ACCOUNTS
from flintmq.broker.consume.fast_pull import FastPuller
from flintmq.broker.engine import BrokerEngine
from flintmq.broker.failures import unsupported
from flintmq.broker.processor_table import processors
from flintmq.broker.requests.answers import encode_answer
from flintmq.broker.requests.outcome import Answer
from flintmq.broker.requests.peer import Peer
from flintmq.broker.send.seen_sends import FastSender
from flintmq.broker.send.sent_group import SentGroup
from flintmq.errors import BodyTooLarge, MalformedHeader
from flintmq.net.channels.channel import Channel
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command
from flintmq.protocol.frame import Frame
from flintmq.protocol.headers.catalogue import REQUEST_HEADERS
from flintmq.protocol.typed_request import RequestReader, TypedRequest
from flintmq.protocol.wire import decode_command

_PULLS = (
    RequestCode.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.POP_MESSAGE,
    RequestCode.PEEK_MESSAGE,
    RequestCode.NOTIFICATION,
    RequestCode.POLLING_INFO,
)
_served = processors()
_headers = {code: kind for code, kind in REQUEST_HEADERS.items() if code in _served}


@cache
def request_reader(*, pulls: bool, accounts: bool, admin: bool) -> RequestReader:
    """Types the requests that are served.  Others stay commands, and are refused as such whatever
    they carry: pulls on the fast port, accounts where access control is off, and administrative
    requests where another port is for them.
    """
    left_out = {
        *(() if pulls else _PULLS),
        *(() if accounts else ACCOUNTS),
        *(() if admin else ADMINISTRATIVE),
    }
    return RequestReader({code: kind for code, kind in _headers.items() if code not in left_out})


_PULL = b'{"code":%d,' % RequestCode.PULL_MESSAGE
"""What nearly every pull begins with.  It is answered, or held, and seldom part of a turn."""


class Owner(Protocol):
    """The server, as a session sees it."""

    @property
    def engine(self) -> BrokerEngine: ...

    @property
    def now_ms(self) -> Callable[[], int]: ...

    def joined(self, peer: Peer, channel: Channel) -> None: ...

    def left(self, peer: Peer) -> None: ...

    def turn_is_due(self) -> None: ...


class BrokerSession:
    """What the broker makes of one channel.

    ``admin_at`` is the address that serves administrative requests where this port does not.
    """

    def __init__(
        self, owner: Owner, channel: Channel, *, pulls: bool = True, admin_at: str | None = None
    ) -> None:
        self._owner = owner
        self._engine = owner.engine
        self._channel = channel
        accounts = owner.engine.state.accounts is not None
        self._admin_at = admin_at
        self._read = request_reader(pulls=pulls, accounts=accounts, admin=admin_at is None).read
        self._peer = Peer(channel.peer)
        self._peer.unsent_bytes = lambda: channel.unsent_bytes
        self._sender = FastSender(self._peer)
        self._pulls = pulls
        self._puller = FastPuller(self._peer)
        owner.joined(self._peer, channel)

    def frames(self, frames: list[Frame]) -> None:
        engine, now_ms = self._engine, self._owner.now_ms()
        self._peer.user = self._channel.user
        if len(frames) == 1 and frames[0][1].startswith(_PULL):
            self._serve_pull(frames[0], now_ms)
            return
        self._owner.turn_is_due()
        has_time = self._channel.has_time
        if not engine.quick.is_open(now_ms):
            for served, frame in enumerate(frames, 1):
                self._serve(frame, now_ms)
                if not has_time():
                    self._channel.later(frames[served:])
                    return
            return
        take_all, take, sender = engine.quick.store_all, engine.quick.store, self._sender
        group = SentGroup(self._peer, self._send, now_ms)
        try:
            served = 0
            while served < len(frames):
                served += take_all(frames, served, sender, group, now_ms)
                if served == len(frames):
                    return
                frame = frames[served]
                served += 1
                if take(frame, sender, group, now_ms):
                    continue
                if not self._pull(frame, now_ms):
                    self._serve(frame, now_ms)
                if not has_time():
                    self._channel.later(frames[served:])
                    return
        finally:
            if group.stop:
                engine.park(group, now_ms)

    def _serve_pull(self, frame: Frame, now_ms: int) -> None:
        """Serve a pull that came alone: a turn is due only if it changed something."""
        engine = self._engine
        is_quick = self._pull(frame, now_ms)
        if not is_quick:
            self._serve(frame, now_ms)
        took_ms = self._owner.now_ms() - now_ms
        if took_ms > engine.state.pull_ms_max:
            engine.state.pull_ms_max = took_ms
        if not is_quick and engine.has_news:
            self._owner.turn_is_due()

    def _pull(self, frame: Frame, now_ms: int) -> bool:
        """Answer a pull that is like one before; else `_serve` has to."""
        if not self._pulls or not frame[1].startswith(_PULL):
            return False
        answer = self._engine.pulls.answer(frame, self._puller, now_ms)
        if answer is None:
            return False
        self._channel.write(answer)
        return True

    def _serve(self, frame: Frame, now_ms: int) -> None:
        try:
            request = self._read(frame)
        except (MalformedHeader, BodyTooLarge) as error:
            self._refuse(decode_command(frame), error)
            return
        if isinstance(request, TypedRequest):
            self._engine.serve(request, self._peer, now_ms)
            self._engine.quick.learn(frame, request, self._sender)
            if request.code == RequestCode.PULL_MESSAGE:
                self._engine.pulls.learn(frame, request, self._puller)
        elif request.is_answer:
            self._channel.answered(request)
        elif not request.is_oneway:
            answer = self._not_served(request.code)
            self._channel.write(encode_answer(request.opaque, answer))

    def _not_served(self, code: int) -> Answer:
        if self._admin_at is None or code not in ADMINISTRATIVE or code not in _headers:
            return unsupported(code)
        remark = f"administrative requests are served at {self._admin_at} only"
        return Answer(ResponseCode.NO_PERMISSION, remark=remark)

    def _send(self, frames: list[bytes]) -> None:
        self._channel.write((b"".join(frames),))
        self._channel.flush()

    def lost(self) -> None:
        self._owner.left(self._peer)

    async def finish(self) -> None:
        """What is owed was answered before the server closed its channels."""

    def _refuse(self, command: Command, error: MalformedHeader | BodyTooLarge) -> None:
        if not command.is_oneway:
            answer = Answer(ResponseCode.SYSTEM_ERROR, remark=f"{type(error).__name__}: {error}")
            self._channel.write(encode_answer(command.opaque, answer))
