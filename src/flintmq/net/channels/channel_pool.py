"""Channels to peers, by address: connected on demand, shared, found again after a loss.

    unknown ─call─► connecting ─► open ─loss or idleness─► next call connects again
                        └─fails─► waiting (`Backoff`): calls fail at once with the last reason

One attempt at a time is made for an address, and all who want it wait for that one.

Invariant: an address has at most one open channel.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable
from ipaddress import ip_address

from flintmq.core.account import Account
from flintmq.core.conversation import SENT, Call
from flintmq.errors import InvalidSetting, Unreachable
from flintmq.net.address import Address
from flintmq.net.backoff import Backoff
from flintmq.net.channels.channel import Channel
from flintmq.net.channels.commands import CommandSession, Handler, refuse
from flintmq.net.clock import Clock, monotonic_ms
from flintmq.net.limits import ADDRESSES_MAX, CONNECT_MS, LIMITS, LINGER_MS, ChannelLimits
from flintmq.net.reasons import no_connection, why, why_no_handshake
from flintmq.net.tls import ClientTls
from flintmq.net.watched_tls import WatchedTls
from flintmq.protocol.command import Command


class _Peer:
    """The channel of one address and the failures of its connections."""

    def __init__(self, address: str, chance: Callable[[], float]) -> None:
        self.address = address
        self.backoff = Backoff(address, chance)
        self.channel: Channel | None = None
        self.attempt: asyncio.Task[Channel | Unreachable] | None = None


class Channels:
    """The channels of one client, one for each address.  It belongs to the loop it was made on.

    With an ``account`` every request is signed.
    """

    def __init__(
        self,
        *,
        tls: ClientTls | None = None,
        account: Account | None = None,
        handler: Handler = refuse,
        limits: ChannelLimits = LIMITS,
        connect_ms: int = CONNECT_MS,
        clock: Clock = monotonic_ms,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._account = account
        self._dialer = _Dialer(tls, handler, limits, connect_ms, clock)
        self._clock = clock
        self._chance = chance
        self._peers: dict[str, _Peer] = {}
        self._closed = False

    def __repr__(self) -> str:
        open_count = sum(1 for peer in self._peers.values() if _open(peer))
        return f"<Channels, {open_count} open of {len(self._peers)} known>"

    async def call(self, address: str, request: Command, timeout_ms: int) -> Command:
        """Ask the peer at an address; its answer, whatever its code says, or `Unreachable`."""
        channel, timeout_ms = await self._reach(address, timeout_ms)
        return await channel.call(self._signed(request), timeout_ms)

    async def send_oneway(self, address: str, request: Command, timeout_ms: int) -> None:
        """Send a oneway request."""
        channel, timeout_ms = await self._reach(address, timeout_ms)
        await channel.send_oneway(self._signed(request), timeout_ms)

    async def make(self, call: Call) -> Command:
        """Carry out the call of a conversation: for `drive_async`."""
        if call.request.is_oneway:
            await self.send_oneway(call.address, call.request, call.timeout_ms)
            return SENT
        return await self.call(call.address, call.request, call.timeout_ms)

    async def reach(self, address: str, timeout_ms: int) -> Channel:
        """The open channel to an address, connecting where there is none."""
        return (await self._reach(address, timeout_ms))[0]

    async def close(self, timeout_ms: int = LINGER_MS) -> None:
        """Close every channel and give up every attempt.  No call works afterwards."""
        self._closed = True
        peers = list(self._peers.values())
        attempts = [peer.attempt for peer in peers if peer.attempt is not None]
        for attempt in attempts:
            attempt.cancel()
        await asyncio.gather(*attempts, return_exceptions=True)
        channels = [peer.channel for peer in peers if peer.channel is not None]
        await asyncio.gather(*(channel.close(timeout_ms) for channel in channels))
        self._peers.clear()

    def _signed(self, request: Command) -> Command:
        return request if self._account is None else self._account.sign(request)

    async def _reach(self, address: str, timeout_ms: int) -> tuple[Channel, int]:
        """The channel, and how much of the time is left."""
        peer = self._peers.get(address) or self._remember(address)
        if (channel := _open(peer)) is not None:
            return channel, timeout_ms
        if self._closed:
            raise Unreachable(address, "the channels were closed")
        start_ms = self._clock()
        if peer.attempt is None:
            self._note_loss(peer)
            peer.backoff.check(start_ms)
            peer.attempt = asyncio.get_running_loop().create_task(self._attempt(peer))
        attempt = peer.attempt
        await asyncio.wait([attempt], timeout=timeout_ms / 1000)  # a caller's end is not its end
        if not attempt.done():
            raise Unreachable(address, no_connection(timeout_ms))
        if attempt.cancelled():
            raise Unreachable(address, "the channels were closed")
        outcome = attempt.result()
        if isinstance(outcome, Unreachable):
            raise Unreachable(address, outcome.reason)  # one of its own for each caller
        return outcome, max(1, timeout_ms - (self._clock() - start_ms))

    async def _attempt(self, peer: _Peer) -> Channel | Unreachable:
        try:
            peer.channel = await self._dialer.dial(peer.address)
        except Unreachable as error:
            peer.backoff.failed(error.reason, self._clock())
            return error
        else:
            return peer.channel
        finally:
            peer.attempt = None

    def _note_loss(self, peer: _Peer) -> None:
        """A peer that took the connection and never said a word has failed too."""
        if peer.channel is None:
            return
        if peer.channel.has_heard:
            peer.backoff.worked()
        else:
            peer.backoff.failed(peer.channel.why_closed, self._clock())
        peer.channel = None

    def _remember(self, address: str) -> _Peer:
        if len(self._peers) >= ADDRESSES_MAX:
            self._peers = {
                known: peer
                for known, peer in self._peers.items()
                if peer.attempt is not None or _open(peer)
            }
        return self._peers.setdefault(address, _Peer(address, self._chance))


async def connect(
    address: str,
    *,
    tls: ClientTls | None = None,
    handler: Handler = refuse,
    limits: ChannelLimits = LIMITS,
    timeout_ms: int = CONNECT_MS,
    clock: Clock = monotonic_ms,
) -> Channel:
    """Connect one channel, which is not shared and not connected again after it is lost."""
    return await _Dialer(tls, handler, limits, timeout_ms, clock).dial(address)


async def resolve(address: Address) -> bytes:
    """The IP address of a host, packed; `InvalidSetting` when it has none."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM
        )
    except OSError as error:
        raise InvalidSetting("address", str(address), why(error)) from None
    return ip_address(found[0][4][0]).packed


def _open(peer: _Peer) -> Channel | None:
    channel = peer.channel
    return None if channel is None or channel.is_closed else channel


class _Dialer:
    """How to connect, whatever the address."""

    def __init__(
        self,
        tls: ClientTls | None,
        handler: Handler,
        limits: ChannelLimits,
        timeout_ms: int,
        clock: Clock,
    ) -> None:
        self._tls = None if tls is None else WatchedTls(tls)
        self._server_name = None if tls is None else tls.server_name
        self._handler = handler
        self._limits = limits
        self._timeout_ms = timeout_ms
        self._clock = clock

    async def dial(self, address: str) -> Channel:
        context = None if self._tls is None else self._tls.take_changes()
        secure = context is not None
        channel = Channel(
            lambda channel: CommandSession(channel, self._handler),
            address,
            limits=self._limits,
            clock=self._clock,
        )
        try:
            target = Address.parse(address)
            async with asyncio.timeout(self._timeout_ms / 1000):
                await asyncio.get_running_loop().create_connection(
                    lambda: channel,
                    target.host,
                    target.port,
                    ssl=context,
                    server_hostname=self._server_name or target.host if secure else None,
                )
        except InvalidSetting as error:
            raise Unreachable(address, error.reason) from None
        except TimeoutError:
            raise Unreachable(address, no_connection(self._timeout_ms)) from None
        except OSError as error:
            reason = why_no_handshake(error) if secure else why(error)
            raise Unreachable(address, reason) from None
        return channel
