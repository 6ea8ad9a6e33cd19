"""A listener that carries bytes to another listener of the same process, TLS taken off.

    peer ─► first byte ─┬─ 0x16 ─► TLS handshake ─┐
                        └─ else ──────────────────┴─► inner listener, on loopback

It is for servers that cannot take plain and encrypted peers on one port themselves.  What the bytes
mean is theirs.  A side that reads slowly stops the other one from being read, so a connection holds
no more than the buffers of its two sockets.

The inner listener sees only loopback: `peer_of` tells who is behind a connection to it.  Whoever
connects to it past the relay is behind nobody, and is for the inner server to refuse.

Invariant: a connection counts from its accept to its close, and both of its sides end together.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, cast

from flintmq.errors import FlintError, InvalidSetting
from flintmq.logs import logger
from flintmq.net.address import Address
from flintmq.net.limits import LINGER_MS
from flintmq.net.reasons import why, why_not_admitted
from flintmq.net.servers.streams import first_byte, open_stream, send_at_once
from flintmq.net.tls import HANDSHAKE_BYTE, ServerTls, TlsMode
from flintmq.net.watched_tls import WatchedTls

log = logger(__name__)

BACKLOG: Final = 1_024
ACCEPT_PAUSE_S: Final = 0.5
"""How long not to accept after the system refused, mostly for want of file descriptors."""

TLS_WATCH_S: Final = 5.0
"""How often TLS files are looked at for changes."""


@dataclass(frozen=True, slots=True)
class RelayLimits:
    connections_max: int = 10_000
    handshake_ms: int = 10_000
    """Within this time a peer must send its first byte and end its TLS handshake."""


class _Side(asyncio.Protocol):
    """One of the two connections that carry the same bytes."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: _Side
        self.ended = asyncio.get_running_loop().create_future()
        self._early: list[bytes] = []  # what came before this side was connected

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        send_at_once(transport)
        for data in self._early:
            self.write(data)
        self._early.clear()

    def write(self, data: bytes) -> None:
        """Send what the other side got."""
        if self.transport is None:
            self._early.append(data)  # greetings of a server: some hundred bytes
        elif not self.transport.is_closing():
            self.transport.write(data)

    def data_received(self, data: bytes) -> None:
        self.other.write(data)

    def pause_writing(self) -> None:
        other = self.other.transport
        if other is not None and not other.is_closing():
            other.pause_reading()

    def resume_writing(self) -> None:
        other = self.other.transport
        if other is not None and not other.is_closing():
            other.resume_reading()

    def connection_lost(self, _error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)
        if self.other.transport is not None:
            self.other.transport.close()


class Relay:
    """A listening socket before an inner one.  `relay_to` makes one."""

    def __init__(
        self, listener: socket.socket, tls: ServerTls | None, alpn: str, limits: RelayLimits
    ) -> None:
        self.address = Address(*listener.getsockname()[:2])
        """Where it really listens, when port 0 was asked for."""
        self.inner: Address | None = None
        """Where the bytes go; until that is known, nobody is accepted."""
        self._listener = listener
        self._mode = TlsMode.OFF if tls is None else tls.mode
        self._tls = None if tls is None else WatchedTls(tls)
        self._alpn = alpn
        self._limits = limits
        self._peers: dict[int, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loops: list[asyncio.Task[None]] = []

    @property
    def connection_count(self) -> int:
        return len(self._tasks)

    def peer_of(self, port: int) -> str | None:
        """Who is behind a connection that comes to the inner listener from a port of loopback."""
        return self._peers.get(port)

    def open(self, inner: Address) -> None:
        """Accept from now on."""
        self.inner = inner
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
        assert self.inner is not None
        inside, outside, port = _Side(), _Side(), 0
        inside.other, outside.other = outside, inside
        loop, is_ours = asyncio.get_running_loop(), True
        try:
            accepted.setblocking(False)
            async with asyncio.timeout(self._limits.handshake_ms / 1000):
                context = await self._choose(accepted)
                await open_stream(self.inner, lambda: inside, self._limits.handshake_ms)
                assert inside.transport is not None
                port = inside.transport.get_extra_info("sockname")[1]
                self._peers[port] = peer
                is_ours = False
                await loop.connect_accepted_socket(lambda: outside, accepted, ssl=context)
            await asyncio.wait({inside.ended, outside.ended}, return_when=asyncio.FIRST_COMPLETED)
        except (OSError, FlintError) as error:
            said = why_not_admitted(error) if isinstance(error, OSError) else str(error)
            log.info("%s: not admitted: %s", peer, said)
        finally:
            self._peers.pop(port, None)
            if is_ours:
                accepted.close()
            for side in (inside, outside):
                if side.transport is not None:
                    side.transport.close()
                    loop.call_later(LINGER_MS / 1000, side.transport.abort)

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


def listen_for_relay(
    listen: Address,
    *,
    tls: ServerTls | None,
    alpn: str,
    limits: RelayLimits | None = None,
) -> Relay:
    """Take an address; nobody is accepted before `Relay.open`."""
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
        return Relay(listener, tls, alpn, limits or RelayLimits())
    except BaseException:
        listener.close()
        raise
