"""What every server does before it knows who came: take an address, and count connections.

A connection beyond a limit is closed at once, counted by the name of the limit, and logged now
and then: who is refused tries again at once.

Invariant: a connection counts from its accept to its close, however its admission ended.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Final

from flintmq.errors import InvalidSetting
from flintmq.logs import logger
from flintmq.net.address import Address
from flintmq.net.channels.partial_frames import PARTIAL_BYTES_MAX
from flintmq.net.channels.unread_bytes import UNREAD_BYTES_MAX
from flintmq.net.clock import Clock, monotonic_ms
from flintmq.net.reasons import why
from flintmq.net.refusals import Refusals

log = logger(__name__)

BACKLOG: Final = 1_024
"""Connections the system may hold for us until we accept them."""

ACCEPT_PAUSE_S: Final = 0.5
"""How long not to accept after the system refused, mostly for want of file descriptors."""

ADDRESS_MIN: Final = 1_000
"""Connections that one address always may have: a machine full of clients, or a proxy."""

REFUSED_LOG_MS: Final = 10_000
"""How often a refusal for want of room is logged."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    connections_max: int = 10_000
    connections_per_address_max: int | None = None
    """For one address, loopback included.  None is half of all, so that nobody takes them all,
    and no less than `ADDRESS_MIN`."""
    partial_bytes_max: int = PARTIAL_BYTES_MAX
    """What all connections together may hold of frames that are not yet whole."""
    unread_bytes_max: int = UNREAD_BYTES_MAX
    """What the peers of all connections together may leave unread."""
    handshake_ms: int = 10_000
    """Within this time a peer must send its first byte and end its TLS handshake."""
    tls_watch_ms: int = 5_000
    """How often TLS files are looked at for changes."""

    @property
    def per_address_max(self) -> int:
        given = self.connections_per_address_max
        return max(ADDRESS_MIN, self.connections_max // 2) if given is None else given


SERVER_LIMITS: Final = ServerLimits()


def take_address(listen: Address) -> socket.socket:
    """A listening socket; `InvalidSetting` where the address cannot be had."""
    try:
        listener = socket.create_server(
            (listen.host, listen.port),
            family=socket.AF_INET6 if listen.is_v6 else socket.AF_INET,
            backlog=BACKLOG,
        )
    except OSError as error:
        raise InvalidSetting("listen address", str(listen), why(error)) from None
    listener.setblocking(False)
    return listener


class ConnectionRoom:
    """The connections of one server, in all and by address."""

    def __init__(
        self,
        address: Address,
        limits: ServerLimits,
        refusals: Refusals,
        clock: Clock = monotonic_ms,
    ) -> None:
        self.count = 0
        self.beside: ConnectionRoom | None = None
        """That of another server of the same owner: the limits are for both together."""
        self._address = address
        self._limits = limits
        self._refusals = refusals
        self._clock = clock
        self._of: dict[str, int] = {}
        self._refused_ms = -REFUSED_LOG_MS

    def of(self, host: str) -> int:
        """Connections of one address."""
        return self._of.get(host, 0)

    def admit(self, peer: Address) -> bool:
        """Count a connection, or refuse it for a limit."""
        limit = self._full(peer.host)
        if limit is None:
            self.count += 1
            self._of[peer.host] = self.of(peer.host) + 1
            return True
        self._refusals.count(limit)
        now_ms = self._clock()
        if now_ms - self._refused_ms >= REFUSED_LOG_MS:
            self._refused_ms = now_ms
            log.warning("%s: refused %s, %s is reached", self._address, peer, limit)
        return False

    def leave(self, host: str) -> None:
        """A connection that was admitted is closed."""
        self.count -= 1
        self._of[host] -= 1
        if not self._of[host]:
            del self._of[host]

    def _full(self, host: str) -> str | None:
        """The limit for which a connection of an address is not accepted, or None."""
        rooms = [self] if self.beside is None else [self, self.beside]
        if sum(each.count for each in rooms) >= self._limits.connections_max:
            return "connectionsMax"
        if sum(each.of(host) for each in rooms) >= self._limits.per_address_max:
            return "connectionsPerAddressMax"
        return None
