"""A listener that takes peers with and without TLS on one port.

    peer ─► first byte ─┬─ 0x16 ─► TLS handshake ─┐
                        └─ else ──────────────────┴─► protocol of the owner

What the bytes mean is for the protocol that the owner gives each connection.

Invariant: a connection counts from its accept to its close.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol, cast

from flintmq.errors import InvalidSetting
from flintmq.logs import logger
from flintmq.net.address import Address
from flintmq.net.reasons import why, why_not_admitted
from flintmq.net.servers.streams import first_byte
from flintmq.net.tls import HANDSHAKE_BYTE, ServerTls, TlsMode
from flintmq.net.watched_tls import WatchedTls

log = logger(__name__)

BACKLOG: Final = 1_024
ACCEPT_PAUSE_S: Final = 0.5
"""How long not to accept after the system refused, mostly for want of file descriptors."""

TLS_WATCH_S: Final = 5.0
"""How often TLS files are looked at for changes."""


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    connections_max: int = 10_000
    handshake_ms: int = 10_000
    """Within this time a peer must send its first byte and end its TLS handshake."""


class ServedProtocol(Protocol):
    """What the owner gives a connection."""

    @property
    def ended(self) -> asyncio.Future[None]:
        """Done once the connection is closed."""

    def abort(self, reason: str) -> None: ...


Make = Callable[[str], ServedProtocol]
"""Gives a connection its protocol, by who is at the other end; it is an `asyncio.Protocol`."""


class MixedListener:
    """A listening socket and its connections.  `listen_mixed` makes one."""

    def __init__(
        self, listener: socket.socket, tls: ServerTls | None, alpn: str, limits: ListenerLimits
    ) -> None:
        self.address = Address(*listener.getsockname()[:2])
        """Where it really listens, when port 0 was asked for."""
        self._listener = listener
        self._mode = TlsMode.OFF if tls is None else tls.mode
        self._tls = None if tls is None else WatchedTls(tls)
        self._alpn = alpn
        self._limits = limits
        self._make: Make
        self._tasks: set[asyncio.Task[None]] = set()
        self._loops: list[asyncio.Task[None]] = []

    @property
    def connection_count(self) -> int:
        return len(self._tasks)

    def open(self, make: Make) -> None:
        """Accept from now on."""
        self._make = make
        self._loops.append(asyncio.ensure_future(self._accept()))
        if self._tls is not None:
            self._loops.append(asyncio.ensure_future(self._watch(self._tls)))

    def stop_accepting(self) -> None:
        for task in self._loops:
            task.cancel()
        self._listener.close()

    async def stop(self) -> None:
        """Accept no more, and cut what is open."""
        self.stop_accepting()
        await asyncio.sleep(0)  # one that was cancelled before its begin would close nothing
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._loops, *self._tasks, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, name = await loop.sock_accept(self._listener)
            except ConnectionError:
                continue  # it left before we came
            except OSError as error:
                log.warning("%s: cannot accept: %s", self.address, why(error))
                await asyncio.sleep(ACCEPT_PAUSE_S)
                continue
            peer = str(Address(*name[:2]))
            if len(self._tasks) >= self._limits.connections_max:
                log.warning("%s: refused %s, connectionsMax is reached", self.address, peer)
                accepted.close()
                continue
            task = loop.create_task(self._serve(accepted, peer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _watch(self, tls: WatchedTls) -> None:
        while True:
            await asyncio.sleep(TLS_WATCH_S)
            tls.take_changes()

    async def _serve(self, accepted: socket.socket, peer: str) -> None:
        loop, is_ours = asyncio.get_running_loop(), True
        protocol: ServedProtocol | None = None
        try:
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(self._limits.handshake_ms / 1000):
                context = await self._choose(accepted)
                made = protocol = self._make(peer)
                is_ours = False
                await loop.connect_accepted_socket(
                    lambda: cast(asyncio.Protocol, made), accepted, ssl=context
                )
            await asyncio.shield(made.ended)
        except OSError as error:
            log.info("%s: not admitted: %s", peer, why_not_admitted(error))
        finally:
            if is_ours:
                accepted.close()
            if protocol is not None and not protocol.ended.done():
                protocol.abort("it was not admitted, or the listener was stopped")

    async def _choose(self, accepted: socket.socket) -> ssl.SSLContext | None:
        """The TLS context to go on with, or None for a plain connection."""
        if self._tls is None or self._mode is TlsMode.OFF:
            return None
        if await first_byte(accepted) == HANDSHAKE_BYTE:
            context = self._tls.context
            with suppress(NotImplementedError):
                context.set_alpn_protocols([self._alpn])
            return context
        if self._mode is TlsMode.ENFORCING:
            raise OSError(0, "it does not speak TLS, and the mode is enforcing")
        return None


def listen_mixed(
    listen: Address,
    *,
    tls: ServerTls | None,
    alpn: str,
    limits: ListenerLimits | None = None,
) -> MixedListener:
    """Take an address; nobody is accepted before `MixedListener.open`."""
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
        return MixedListener(listener, tls, alpn, limits or ListenerLimits())
    except BaseException:
        listener.close()
        raise
