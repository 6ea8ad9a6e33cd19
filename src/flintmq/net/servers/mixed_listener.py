"""A listener that takes peers with and without TLS on one port.

    peer ─► first byte ─┬─ 0x16 ─► TLS handshake ─┐
                        └─ else ──────────────────┴─► protocol of the owner

What the bytes mean is for the protocol that the owner gives each connection.

Invariant: a connection counts from its accept to its close, however its admission ended.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, cast

from flintmq.logs import logger
from flintmq.net.address import Address
from flintmq.net.reasons import why, why_not_admitted
from flintmq.net.refusals import Refusals
from flintmq.net.servers.accepting import (
    ACCEPT_PAUSE_S,
    SERVER_LIMITS,
    ConnectionRoom,
    ServerLimits,
    take_address,
)
from flintmq.net.servers.streams import first_byte
from flintmq.net.tls import HANDSHAKE_BYTE, ServerTls, TlsMode
from flintmq.net.watched_tls import WatchedTls

log = logger(__name__)


class ServedProtocol(Protocol):
    """What the owner gives a connection."""

    @property
    def ended(self) -> asyncio.Future[None]:
        """Done once the connection is closed."""

    def abort(self, reason: str) -> None:
        """Close at once; without a transport it has ended then."""


Make = Callable[[str], ServedProtocol]
"""Gives a connection its protocol, by who is at the other end; it is an `asyncio.Protocol`."""


class MixedListener:
    """A listening socket and its connections.  `listen_mixed` makes one."""

    def __init__(
        self,
        listener: socket.socket,
        tls: ServerTls | None,
        alpn: str,
        limits: ServerLimits,
        refusals: Refusals,
    ) -> None:
        self.address = Address(*listener.getsockname()[:2])
        """Where it really listens, when port 0 was asked for."""
        self._listener = listener
        self._mode = TlsMode.OFF if tls is None else tls.mode
        self._tls = None if tls is None else WatchedTls(tls)
        self._alpn = alpn
        self._limits = limits
        self._room = ConnectionRoom(self.address, limits, refusals)
        self._make: Make
        self._open: set[ServedProtocol] = set()
        self._admitting: set[asyncio.Task[None]] = set()
        self._loops: list[asyncio.Task[None]] = []

    @property
    def connection_count(self) -> int:
        return self._room.count

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
        for task in self._admitting:
            task.cancel()
        await asyncio.gather(*self._loops, *self._admitting, return_exceptions=True)
        ends = [protocol.ended for protocol in self._open]
        for protocol in tuple(self._open):
            protocol.abort("the listener was stopped")
        await asyncio.gather(*ends)

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
            peer = Address(*name[:2])
            if not self._room.admit(peer):
                accepted.close()
                continue
            task = loop.create_task(self._admit(accepted, peer))
            self._admitting.add(task)
            task.add_done_callback(self._admitting.discard)

    async def _watch(self, tls: WatchedTls) -> None:
        while True:
            await asyncio.sleep(self._limits.tls_watch_ms / 1000)
            tls.take_changes()

    async def _admit(self, accepted: socket.socket, peer: Address) -> None:
        protocol: ServedProtocol | None = None
        is_admitted = False
        try:
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(self._limits.handshake_ms / 1000):
                context = await self._choose(accepted)
                protocol = self._begin(peer)
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: cast(asyncio.Protocol, protocol), accepted, ssl=context
                )
            is_admitted = True
        except OSError as error:
            log.info("%s: not admitted: %s", peer, why_not_admitted(error))
        finally:
            if protocol is None:
                accepted.close()
                self._room.leave(peer.host)
            elif not is_admitted and not protocol.ended.done():
                protocol.abort("it was not admitted")

    def _begin(self, peer: Address) -> ServedProtocol:
        protocol = self._make(str(peer))
        self._open.add(protocol)
        protocol.ended.add_done_callback(lambda _: self._forget(protocol, peer.host))
        return protocol

    def _forget(self, protocol: ServedProtocol, host: str) -> None:
        self._open.discard(protocol)
        self._room.leave(host)

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
    limits: ServerLimits = SERVER_LIMITS,
    refusals: Refusals | None = None,
) -> MixedListener:
    """Take an address; nobody is accepted before `MixedListener.open`.

    What limits refuse is counted in ``refusals``.
    """
    listener = take_address(listen)
    try:
        return MixedListener(listener, tls, alpn, limits, refusals or Refusals())
    except BaseException:
        listener.close()
        raise
