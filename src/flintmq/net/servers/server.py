"""The accept loop: connections in, a `Channel` with the owner's `Session` for each.

    accepted ─► first byte ─┬─ 0x16 ─► TLS handshake ─► channel
                            └─ else ─────────────────► channel

The first byte is only looked at, so whoever reads the connection next still finds it.  Every
connection is admitted by a task of its own: a peer that sends nothing, or half a handshake,
holds up nobody and is dropped at a deadline.  Without TLS there is nothing to look at.

What a peer does wrong ends its own connection, with a line in the log and no traceback.

Invariant: a connection counts from its accept to its close, however its admission ended; and
`stop` ends within its limit, whatever hangs.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeAlias

from flintmq.logs import logger
from flintmq.net.address import Address
from flintmq.net.channels.channel import Channel
from flintmq.net.channels.commands import CommandSession, Handler
from flintmq.net.channels.partial_frames import PartialFrames
from flintmq.net.channels.session import NO_SESSION, Session
from flintmq.net.channels.unread_bytes import UnreadBytes
from flintmq.net.channels.watchdog import Stalls
from flintmq.net.clock import Clock, monotonic_ms
from flintmq.net.limits import CUT_MS, LIMITS, LINGER_MS, ChannelLimits
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

Gate: TypeAlias = Callable[[Session, Channel], Session]
"""Stands before a session and decides what it gets."""


def no_gate(session: Session, _channel: Channel) -> Session:
    return session


ACCEPTS_PER_TURN = 64
"""Connections taken before those that are already served have their turn again."""


@dataclass(slots=True, eq=False)
class _Admission:
    """A connection on its way in.  The socket is ours until a transport takes it over."""

    accepted: socket.socket
    channel: Channel
    is_ours: bool = True
    is_done: bool = False


class Server:
    """A listening socket and what came in through it.  `serve` makes one that runs."""

    def __init__(
        self,
        listener: socket.socket,
        open_session: Callable[[Channel], Session],
        tls: ServerTls | None,
        limits: ServerLimits,
        channel_limits: ChannelLimits,
        clock: Clock,
        stalls: Stalls | None,
        refusals: Refusals,
    ) -> None:
        self.address = Address(*listener.getsockname()[:2])
        """Where it really listens, when port 0 was asked for."""
        self.channels: set[Channel] = set()
        self.room = ConnectionRoom(self.address, limits, refusals, clock)
        self._listener = listener
        self._open_session = open_session
        self._mode = TlsMode.OFF if tls is None else tls.mode
        self._tls = None if tls is None else WatchedTls(tls)
        self._tls_timer: asyncio.TimerHandle | None = None
        self._limits = limits
        self._channel_limits = channel_limits
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._stalls = stalls
        self.partial = PartialFrames(limits.partial_bytes_max, clock, refusals)
        self.unread = UnreadBytes(channel_limits.write_bytes_max, limits.unread_bytes_max, refusals)
        self._open: set[Channel] = set()
        self._admitting: set[asyncio.Task[None]] = set()
        self._stopped = False
        self._listen()
        if self._tls is not None:
            self._watch_tls(self._tls)

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
        return len(self._open)

    async def stop(self, timeout_ms: int = LINGER_MS) -> None:
        """Accept no more, let sessions finish and peers read until the deadline, close all.

        Whatever has not ended a second after the deadline is cut, and named in the log.
        """
        if not self._stopped:
            self._stopped = True
            self._loop.remove_reader(self._listener.fileno())
            self._listener.close()
            self.partial.stop()
            if self._tls_timer is not None:
                self._tls_timer.cancel()
        for task in self._admitting:
            task.cancel()
        closing = {self._loop.create_task(each.close(timeout_ms)): each for each in self.channels}
        late: set[asyncio.Task[None]] = {*closing, *self._admitting}
        try:
            if late:
                done, late = await asyncio.wait(late, timeout=(timeout_ms + CUT_MS) / 1000)
                for task in done:
                    if not task.cancelled() and (error := task.exception()) is not None:
                        log.error("%s: a connection failed to close: %s", self.address, why(error))
        finally:
            for task in late:
                task.cancel()
            for channel in tuple(self._open):
                log.warning("%s: cut, it was not closed within %d ms", channel.peer, timeout_ms)
                channel.give_up("the server was stopped")

    def _listen(self) -> None:
        if not self._stopped:
            self._loop.add_reader(self._listener.fileno(), self._accept)

    def _watch_tls(self, tls: WatchedTls) -> None:
        def check() -> None:
            self._watch_tls(tls)  # first: a check that fails is not the last one
            tls.take_changes()

        self._tls_timer = self._loop.call_later(self._limits.tls_watch_ms / 1000, check)

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
            peer = Address(*name[:2])
            if self.room.admit(peer):
                accepted.setblocking(False)
                self._begin(accepted, peer)
            else:
                accepted.close()

    def _begin(self, accepted: socket.socket, peer: Address) -> None:
        channel = Channel(
            self._greet,
            str(peer),
            accepted=True,
            limits=self._channel_limits,
            clock=self._clock,
            partial=self.partial,
            unread=self.unread,
            stalls=self._stalls,
        )
        self._open.add(channel)
        channel.closed.add_done_callback(lambda _: self._forget(channel, peer.host))
        admission = _Admission(accepted, channel)
        task = self._loop.create_task(self._admit(admission))
        self._admitting.add(task)
        task.add_done_callback(lambda task: self._admitted(task, admission))

    def _forget(self, channel: Channel, host: str) -> None:
        self._open.discard(channel)
        self.channels.discard(channel)
        self.room.leave(host)

    async def _admit(self, admission: _Admission) -> None:
        accepted, channel = admission.accepted, admission.channel
        try:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(self._limits.handshake_ms / 1000):
                context = await self._choose(accepted)
                admission.is_ours = False
                await self._loop.connect_accepted_socket(lambda: channel, accepted, ssl=context)
            admission.is_done = True
        except OSError as error:
            log.info("%s: not admitted: %s", channel.peer, why_not_admitted(error))

    def _admitted(self, task: asyncio.Task[None], admission: _Admission) -> None:
        """An admission ended, well or not.

        It may have been cut before its first step, or when the transport was there and nobody
        knew it: a loop may then report no loss.
        """
        self._admitting.discard(task)
        if admission.is_ours:
            admission.accepted.close()
        if not admission.is_done:
            admission.channel.give_up("it was not admitted")
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s: not admitted", admission.channel.peer, exc_info=error)

    def _greet(self, channel: Channel) -> Session:
        self.channels.add(channel)
        try:
            return self._open_session(channel)
        except Exception:
            log.exception("%s: no session could be opened", channel.peer)
            channel.abort("no session could be opened")
            return NO_SESSION

    async def _choose(self, accepted: socket.socket) -> ssl.SSLContext | None:
        """The TLS context to go on with, or None for a plain connection."""
        if self._tls is None or self._mode is TlsMode.OFF:
            return None
        if await first_byte(accepted) == HANDSHAKE_BYTE:
            return self._tls.context
        if self._mode is TlsMode.ENFORCING:
            raise OSError(0, "it does not speak TLS, and the mode is enforcing")
        return None


async def serve(
    listen: Address,
    open_session: Callable[[Channel], Session],
    *,
    tls: ServerTls | None = None,
    limits: ServerLimits = SERVER_LIMITS,
    channel_limits: ChannelLimits = LIMITS,
    clock: Clock = monotonic_ms,
    stalls: Stalls | None = None,
    refusals: Refusals | None = None,
) -> Server:
    """Listen, and serve each connection through a session of its own.

    What limits refuse is counted in ``refusals``.
    """
    listener = take_address(listen)
    try:
        return Server(
            listener,
            open_session,
            tls,
            limits,
            channel_limits,
            clock,
            stalls,
            refusals or Refusals(),
        )
    except BaseException:
        listener.close()
        raise


async def serve_commands(
    listen: Address,
    handler: Handler,
    *,
    tls: ServerTls | None = None,
    limits: ServerLimits = SERVER_LIMITS,
    channel_limits: ChannelLimits = LIMITS,
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
