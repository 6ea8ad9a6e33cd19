"""A running name server: sockets, a timer and a clock around the processors.

    frame ─► typed request ─► processor ─► answer
    connection lost ─► its brokers leave
    timer ─► silent brokers leave, and their connections are closed

The wall clock is given from outside.  Who moves it calls `carry`, so that brokers do not
look silent for a time that never passed for them.

Where admins have an address of their own, the other one serves clients and brokers alone:

    listen           routes, and what brokers ask to register and to find each other
    admin address    every request

A request that cannot be served is answered with its reason.  Only bytes that are no frame, or
a header that is no header, end a connection: there is nobody to answer then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

from flintmq.access.accounts import Accounts
from flintmq.access.needs import ADMINISTRATIVE
from flintmq.access.rights import Context
from flintmq.errors import BodyTooLarge, FlintError, LocalProtocolError, MalformedHeader
from flintmq.logs import logger
from flintmq.nameserver.config import NameServerConfig
from flintmq.nameserver.processors import PROCESSORS, InParts, NamesrvAnswer, not_served
from flintmq.nameserver.settings import Save, Settings
from flintmq.nameserver.state import NameServerState
from flintmq.net.address import Address
from flintmq.net.channels.channel import Channel
from flintmq.net.channels.session import Session
from flintmq.net.clock import wall_ms
from flintmq.net.limits import LINGER_MS, ChannelLimits
from flintmq.net.servers.access_gate import Auditor, access_gate
from flintmq.net.servers.server import Gate, Server, no_gate, serve
from flintmq.net.tls import ServerTls
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import ANSWER_BIT, LANGUAGE, VERSION, Command
from flintmq.protocol.fields import NO_FIELDS, Header, write_header
from flintmq.protocol.frame import Frame
from flintmq.protocol.headers.catalogue import REQUEST_HEADERS
from flintmq.protocol.remarks import remark_of
from flintmq.protocol.typed_request import RequestReader, TypedRequest
from flintmq.protocol.wire import decode_command, encode_command

log = logger(__name__)

DEFAULT_CLUSTER = "DefaultCluster"
"""The cluster whose rights admins of a name server need; it serves several."""

OF_BROKERS: Final = frozenset(
    {
        RequestCode.REGISTER_BROKER,
        RequestCode.UNREGISTER_BROKER,
        RequestCode.BROKER_HEARTBEAT,
        RequestCode.QUERY_DATA_VERSION,
        RequestCode.GET_BROKER_MEMBER_GROUP,
        RequestCode.REGISTER_TOPIC_IN_NAMESRV,
    }
)
"""Administrative requests that brokers make by themselves, where clients ask for routes."""

OF_ADMINS: Final = (ADMINISTRATIVE & PROCESSORS.keys()) - OF_BROKERS
"""Requests that an address for admins takes away from the other one."""

_READER = RequestReader({code: REQUEST_HEADERS[code] for code in PROCESSORS})
_WITHOUT_ADMINS = RequestReader(
    {code: REQUEST_HEADERS[code] for code in PROCESSORS.keys() - OF_ADMINS}
)


class NameServer:
    """A name server that listens.  It belongs to the loop it was started on."""

    def __init__(
        self,
        server: Server,
        state: NameServerState,
        clock: Callable[[], int],
        admin: Server | None = None,
    ) -> None:
        self.state = state
        self._server = server
        self._admin = admin
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self.is_stopping = False
        self._wait()

    @classmethod
    async def start(
        cls,
        config: NameServerConfig | None = None,
        *,
        clock: Callable[[], int] = wall_ms,
        tls: ServerTls | None = None,
        loaded: bytes | None = None,
        save: Save | None = None,
        gate: Gate = no_gate,
        accounts: Accounts | None = None,
        auditor: Auditor | None = None,
        admin_listen: Address | None = None,
    ) -> NameServer:
        """Listen.  ``loaded`` and ``save`` are the content of kvConfig.json and its keeper.

        ``accounts`` turn access control on, for brokers that register too.  With ``admin_listen``
        the requests of admins are served there and nowhere else.

        Raises `InvalidSetting` when it cannot listen and `MalformedBody` for a bad file.
        """
        config = config or NameServerConfig()
        settings = Settings(loaded, save)
        state = NameServerState(config, settings, clock(), config.listen)
        guard: Gate = no_gate
        if accounts is not None:
            guard = access_gate(accounts.protect(Context(DEFAULT_CLUSTER)), auditor)

        async def listen(where: Address, admin_at: str | None) -> Server:
            def open_session(channel: Channel) -> Session:
                session = _Session(channel, state, clock, admin_at)
                return gate(guard(session, channel), channel)

            limits = ChannelLimits(idle_ms=config.idle_ms)
            return await serve(where, open_session, tls=tls, channel_limits=limits)

        admin = None if admin_listen is None else await listen(admin_listen, None)
        try:
            server = await listen(config.listen, None if admin is None else str(admin.address))
        except BaseException:
            if admin is not None:
                await admin.stop(0)
            raise
        state.address = server.address
        return cls(server, state, clock, admin)

    def __repr__(self) -> str:
        return f"<NameServer {self.address}, {self.state.routes!r}>"

    @property
    def address(self) -> Address:
        """Where it really listens, when port 0 was asked for."""
        return self._server.address

    @property
    def connection_count(self) -> int:
        return len(self._server.channels)

    @property
    def admin_at(self) -> str | None:
        """The only address that serves requests of admins; None where there is no such address."""
        return None if self._admin is None else str(self._admin.address)

    def tick(self, now_ms: int) -> None:
        """Forget brokers that were silent for too long.  The timer calls it, and tests may."""
        for peer in self.state.routes.expire(now_ms):
            cast(Channel, peer).abort("the broker was silent for too long")

    def carry(self, delta_ms: int) -> None:
        """The clock was moved by so much; no broker gets older by it."""
        self.state.carry(delta_ms)

    async def stop(self, timeout_ms: int = LINGER_MS) -> None:
        """Accept no more, let peers read what they were answered until the deadline, close."""
        self.is_stopping = True
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        servers = [self._server] if self._admin is None else [self._server, self._admin]
        await asyncio.gather(*(each.stop(timeout_ms) for each in servers))

    def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self.state.config.scan_interval_ms / 1000, self._scan)

    def _scan(self) -> None:
        self._wait()  # first: a scan that fails is not the last one
        self.tick(self._clock())


class _Session:
    """One connection: a broker's, a client's or an admin's; they are served alike.

    ``admin_at`` is the address that serves admins where this one does not.
    """

    def __init__(
        self,
        channel: Channel,
        state: NameServerState,
        clock: Callable[[], int],
        admin_at: str | None,
    ) -> None:
        self._channel = channel
        self._admin_at = admin_at
        self._read = (_READER if admin_at is None else _WITHOUT_ADMINS).read
        self._state = state
        self._clock = clock
        self._work: tuple[TypedRequest[Header], InParts] | None = None

    def frames(self, frames: list[Frame]) -> None:
        now_ms = self._clock()
        for number, frame in enumerate(frames):
            if not (self._is_served(frame, now_ms) if self._work is None else self._is_finished()):
                self._channel.later(frames[number:])
                return
            if not self._channel.has_time():
                self._channel.later(frames[number + 1 :])
                return

    def lost(self) -> None:
        self._work = None
        self._state.routes.connection_lost(self._channel)

    async def finish(self) -> None:
        """Nothing is ever owed: answers are written as requests are read."""

    def _is_served(self, frame: Frame, now_ms: int) -> bool:
        """Serve a request; False when it is one in parts and more of them are left."""
        try:
            request = self._read(frame)
        except (MalformedHeader, BodyTooLarge) as error:
            command = decode_command(frame)  # raises when not even this can be read
            self._reply(command, self._failure(command, error))
            return True
        if isinstance(request, Command):
            if request.is_answer:
                self._channel.answered(request)
            else:
                self._reply(request, self._not_served(request.code))
            return True
        processor = PROCESSORS[RequestCode(request.code)]
        self._state.served[request.code] += 1
        try:
            reply = processor(request, self._state, self._channel, now_ms)
        except Exception as error:
            reply = self._failure(request, error)
        if isinstance(reply, NamesrvAnswer):
            self._reply(request, reply)
            return True
        self._work = request, reply
        return self._is_finished()

    def _not_served(self, code: int) -> NamesrvAnswer:
        if self._admin_at is None or code not in OF_ADMINS:
            return not_served(code)
        remark = f"administrative requests are served at {self._admin_at} only"
        return NamesrvAnswer(code=ResponseCode.NO_PERMISSION, remark=remark)

    def _is_finished(self) -> bool:
        """Go on with an answer in parts for as long as there is time."""
        assert self._work is not None
        request, steps = self._work
        reply: NamesrvAnswer
        try:
            next(steps)
            while self._channel.has_time():
                next(steps)
        except StopIteration as end:
            reply = end.value
        except Exception as error:
            reply = self._failure(request, error)
        else:
            return False
        self._work = None
        self._reply(request, reply)
        return True

    def _reply(self, request: TypedRequest[Header] | Command, reply: NamesrvAnswer) -> None:
        if request.is_oneway:
            return
        try:
            data = _encode(request.opaque, reply)
        except LocalProtocolError as error:  # too large for a frame
            data = _encode(request.opaque, self._failure(request, error))
        self._channel.write((data,))

    def _failure(self, request: TypedRequest[Header] | Command, error: Exception) -> NamesrvAnswer:
        if isinstance(error, FlintError):
            log.info("%s: request %d failed: %s", self._channel.peer, request.code, error)
        else:
            log.error("%s: request %d failed", self._channel.peer, request.code, exc_info=error)
        remark = f"{type(error).__name__}: {remark_of(error)}"
        return NamesrvAnswer(code=ResponseCode.SYSTEM_ERROR, remark=remark)


def _encode(opaque: int, reply: NamesrvAnswer) -> bytes:
    return encode_command(
        Command(
            code=reply.code,
            opaque=opaque,
            flag=ANSWER_BIT,
            version=VERSION,
            language=LANGUAGE,
            remark=reply.remark,
            fields=NO_FIELDS if reply.header is None else write_header(reply.header),
            body=reply.body,
        )
    )
