"""The accept loop: connections in, a `Channel` with the owner's `Session` for each.

    accepted ─► first byte ─┬─ 0x16 ─► TLS handshake ─► channel
                            └─ else ─────────────────► channel

The first byte is only looked at, so whoever reads the connection next still finds it.  Every
connection is admitted by a task of its own: a peer that sends nothing, or half a handshake,
holds up nobody and is dropped at a deadline.  Without TLS there is nothing to look at.

What a peer does wrong ends its own connection, with a line in the log and no traceback.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeAlias

from flintmq.errors import InvalidSetting
from flintmq.logs import logger
from flintmq.net.address import Address
from flintmq.net.channel import Channel, Session
from flintmq.net.clock import Clock, monotonic_ms
from flintmq.net.commands import CommandSession, Handler
from flintmq.net.limits import LIMITS, LINGER_MS, Limits
from flintmq.net.reasons import CLOSED_BY_PEER, why
from flintmq.net.tls import HANDSHAKE_BYTE, ServerTls, TlsMode

log = logger(__name__)

Gate: TypeAlias = Callable[[Session, Channel], Session]
"""Stands before a session and decides what it gets."""


def no_gate(session: Session, _channel: Channel) -> Session:
    return session


BACKLOG = 1_024
"""Connections the system may hold for us until we accept them."""

ACCEPTS_PER_TURN = 64
"""Connections taken before those that are already served have their turn again."""

ACCEPT_PAUSE_S = 0.5
"""How long not to accept after the system refused, mostly for want of file descriptors."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    connections_max: int = 10_000
    handshake_ms: int = 10_000
    """Within this time a peer must send its first byte and end its TLS handshake."""


SERVER_LIMITS = ServerLimits()


class Server:
    """A listening socket and what came in through it.  `serve` makes one that runs."""

    def __init__(
        self,
        listener: socket.socket,
        open_session: Callable[[Channel], Session],
        tls: ServerTls | None,
        limits: ServerLimits,
        channel_limits: Limits,
        clock: Clock,
    ) -> None:
        self.address = Address(*listener.getsockname()[:2])
        """Where it really listens, when port 0 was asked for."""
        self.channels: set[Channel] = set()
        self.beside: Server | None = None
        """Another one of the same owner: connections_max is for both together."""
        self._listener = listener
        self._open_session = open_session
        self._mode = TlsMode.OFF if tls is None else tls.mode
        self._context = None if tls is None else tls.context()
        self._limits = limits
        self._channel_limits = channel_limits
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._admitting: dict[Channel, asyncio.Task[None]] = {}
        self._stopped = False
        self._listen()

    def __repr__(self) -> str:
        return f"<Server {self.address}, {len(self.channels)} channels>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    @property
    def connection_count(self) -> int:
        """Connections that are open, those included that are not yet admitted."""
        return len(self.channels) + sum(
            1 for channel in self._admitting if channel not in self.channels
        )

    async def stop(self, timeout_ms: int = LINGER_MS) -> None:
        """Accept no more, let sessions finish and peers read until the deadline, close all."""
        if not self._stopped:
            self._stopped = True
            self._loop.remove_reader(self._listener.fileno())
            self._listener.close()
        tasks = list(self._admitting.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(channel.close(timeout_ms) for channel in self.channels))

    def _listen(self) -> None:
        if not self._stopped:
            self._loop.add_reader(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                accepted, name = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:
                continue  # it left before we came
            except OSError as error:
                log.warning("%s: cannot accept: %s", self.address, why(error))
                self._loop.remove_reader(self._listener.fileno())
                self._loop.call_later(ACCEPT_PAUSE_S, self._listen)
                return
            peer = str(Address(*name[:2]))
            beside_count = 0 if self.beside is None else self.beside.connection_count
            if self.connection_count + beside_count >= self._limits.connections_max:
                log.warning("%s: refused %s, connections_max is reached", self.address, peer)
                accepted.close()
                continue
            accepted.setblocking(False)
            self._begin(accepted, peer)

    def _begin(self, accepted: socket.socket, peer: str) -> None:
        channel = Channel(
            self._greet, peer, accepted=True, limits=self._channel_limits, clock=self._clock
        )
        task = self._loop.create_task(self._admit(accepted, channel))
        self._admitting[channel] = task
        task.add_done_callback(lambda _: self._admitting.pop(channel))

    async def _admit(self, accepted: socket.socket, channel: Channel) -> None:
        ours = True
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(self._limits.handshake_ms / 1000):
                context = await self._choose(accepted)
                ours = False  # from here on the socket belongs to its transport
                await self._loop.connect_accepted_socket(lambda: channel, accepted, ssl=context)
        except OSError as error:
            log.info("%s: not admitted: %s", channel.peer, why(error))
        finally:
            if ours:
                accepted.close()

    def _greet(self, channel: Channel) -> Session:
        self.channels.add(channel)
        channel.closed.add_done_callback(lambda _: self.channels.discard(channel))
        return self._open_session(channel)

    async def _choose(self, accepted: socket.socket) -> ssl.SSLContext | None:
        """The TLS context to go on with, or None for a plain connection."""
        if self._mode is TlsMode.OFF:
            return None
        if await _first_byte(accepted) == HANDSHAKE_BYTE:
            return self._context
        if self._mode is TlsMode.ENFORCING:
            raise OSError(0, "it does not speak TLS, and the mode is enforcing")
        return None


async def serve(
    listen: Address,
    open_session: Callable[[Channel], Session],
    *,
    tls: ServerTls | None = None,
    limits: ServerLimits = SERVER_LIMITS,
    channel_limits: Limits = LIMITS,
    clock: Clock = monotonic_ms,
) -> Server:
    """Listen, and serve each connection through a session of its own."""
    try:
        listener = socket.create_server(
            (listen.host, listen.port),
            family=socket.AF_INET6 if listen.is_v6 else socket.AF_INET,
            backlog=BACKLOG,
        )
    except OSError as error:
        raise InvalidSetting("listen address", str(listen), why(error)) from None
    listener.setblocking(False)
    try:
        return Server(listener, open_session, tls, limits, channel_limits, clock)
    except BaseException:
        listener.close()
        raise


async def serve_commands(
    listen: Address,
    handler: Handler,
    *,
    tls: ServerTls | None = None,
    limits: ServerLimits = SERVER_LIMITS,
    channel_limits: Limits = LIMITS,
    clock: Clock = monotonic_ms,
) -> Server:
    """Listen, and answer each request by the handler: for servers that need no more."""
    return await serve(
        listen,
        lambda channel: CommandSession(channel, handler),
        tls=tls,
        limits=limits,
        channel_limits=channel_limits,
        clock=clock,
    )


async def _first_byte(accepted: socket.socket) -> int:
    """Wait for the first byte of a connection and leave it there."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            data = accepted.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            ready = asyncio.Event()
            loop.add_reader(accepted.fileno(), ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(accepted.fileno())
        else:
            if not data:
                raise ConnectionResetError(0, CLOSED_BY_PEER)
            return data[0]
