"""Channels on plain sockets, by address: for Spark tasks and the command line.

They are connected on demand and again after a loss.  Since nobody listens between calls, a
channel is looked at before it is used again: one that the peer closed meanwhile is replaced
without its caller's noticing.  An address that failed is left alone for a while (`Backoff`).

Not for several threads at once: each thread takes channels of its own.
"""

from __future__ import annotations

import random
import socket
import ssl
from collections.abc import Callable
from types import TracebackType
from typing import Self

from flintmq.core.conversation import SENT, Call
from flintmq.errors import InvalidSetting, Unreachable
from flintmq.net.address import Address
from flintmq.net.backoff import Backoff
from flintmq.net.blocking.blocking_channel import BlockingChannel, BlockingHandler, ignore
from flintmq.net.clock import Clock, monotonic_ms
from flintmq.net.limits import ADDRESSES_MAX, CONNECT_MS, LIMITS, ChannelLimits
from flintmq.net.reasons import no_connection, why, why_no_handshake
from flintmq.net.tls import ClientTls
from flintmq.net.watched_tls import WatchedTls
from flintmq.protocol.command import Command


class BlockingChannels:
    """The blocking channels of one thread, one for each address."""

    def __init__(
        self,
        *,
        tls: ClientTls | None = None,
        handler: BlockingHandler = ignore,
        limits: ChannelLimits = LIMITS,
        connect_ms: int = CONNECT_MS,
        clock: Clock = monotonic_ms,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._tls = None if tls is None else WatchedTls(tls)
        self._server_name = None if tls is None else tls.server_name
        self._handler = handler
        self._limits = limits
        self._connect_ms = connect_ms
        self._clock = clock
        self._chance = chance
        self._channels: dict[str, BlockingChannel] = {}
        self._backoffs: dict[str, Backoff] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def call(self, address: str, request: Command, timeout_ms: int) -> Command:
        """Ask the peer at an address; its answer, whatever its code says, or `Unreachable`."""
        start_ms = self._clock()
        channel = self.reach(address, timeout_ms)
        return channel.call(request, max(1, timeout_ms - (self._clock() - start_ms)))

    def send_oneway(self, address: str, request: Command, timeout_ms: int) -> None:
        """Send a oneway request."""
        self.reach(address, timeout_ms).send_oneway(request, timeout_ms)

    def make(self, call: Call) -> Command:
        """Carry out the call of a conversation: for `drive`."""
        if call.request.is_oneway:
            self.send_oneway(call.address, call.request, call.timeout_ms)
            return SENT
        return self.call(call.address, call.request, call.timeout_ms)

    def reach(self, address: str, timeout_ms: int = CONNECT_MS) -> BlockingChannel:
        """The open channel to an address, connecting where there is none or it was lost."""
        channel = self._channels.get(address)
        if channel is not None:
            channel.poll()
            if not channel.is_closed:
                return channel
            self._note_loss(channel)
        backoff = self._backoffs.get(address)
        if backoff is not None:
            backoff.check(self._clock())
        context = None if self._tls is None else self._tls.take_changes()
        try:
            sock = dial(address, context, self._server_name, min(timeout_ms, self._connect_ms))
        except Unreachable as error:
            self._failed(address, error.reason)
            raise
        channel = BlockingChannel(
            sock, address, handler=self._handler, limits=self._limits, clock=self._clock
        )
        self._channels[address] = channel
        return channel

    def close(self) -> None:
        """Close every channel.  A later call connects again."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    def _note_loss(self, channel: BlockingChannel) -> None:
        """A peer that took the connection and never said a word has failed too."""
        del self._channels[channel.peer]
        if channel.has_heard:
            self._backoffs.pop(channel.peer, None)
        else:
            self._failed(channel.peer, channel.why_closed)

    def _failed(self, address: str, reason: str) -> None:
        if address not in self._backoffs:
            if len(self._backoffs) >= ADDRESSES_MAX:
                self._backoffs.clear()
            self._backoffs[address] = Backoff(address, self._chance)
        self._backoffs[address].failed(reason, self._clock())


def connect(
    address: str,
    *,
    tls: ClientTls | None = None,
    handler: BlockingHandler = ignore,
    limits: ChannelLimits = LIMITS,
    timeout_ms: int = CONNECT_MS,
    clock: Clock = monotonic_ms,
) -> BlockingChannel:
    """Connect one channel, which is not connected again after it is lost."""
    context, server_name = (None, None) if tls is None else (tls.context(), tls.server_name)
    sock = dial(address, context, server_name, timeout_ms)
    return BlockingChannel(sock, address, handler=handler, limits=limits, clock=clock)


def dial(
    address: str, context: ssl.SSLContext | None, server_name: str | None, timeout_ms: int
) -> socket.socket:
    """A connected socket.  Raises `Unreachable`."""
    sock = None
    try:
        target = Address.parse(address)
        sock = socket.create_connection((target.host, target.port), timeout_ms / 1000)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context is None:
            return sock
        return context.wrap_socket(sock, server_hostname=server_name or target.host)
    except InvalidSetting as error:
        raise Unreachable(address, error.reason) from None
    except TimeoutError:
        reason = no_connection(timeout_ms)
    except OSError as error:
        reason = why(error) if sock is None else why_no_handshake(error)
    if sock is not None:
        sock.close()
    raise Unreachable(address, reason)
