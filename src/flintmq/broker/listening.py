"""Where a broker listens: its own port, the fast port two below it, and a port for admins.

    listenPort        every request
    listenPort - 2    every request but pulls, as in RocketMQ
    admin port        every request; where there is one, the others serve no administrative ones

RocketMQ's clients use the second port when that is set (vipChannelEnabled), and
rocketmq-dashboard and slaves use it by default.  They find it by subtraction: no route and no
registration names it.  So a broker whose own port was chosen by the system has none; two below
may be anybody's.

All ports have the same sessions, TLS and stop.  The first two share one limit of connections; the
admin port has its own, so that admins get in when clients have taken all others.  A fast port that
is in use is logged in one line, and the broker goes on without it.

Invariant: a pull never waits on the fast port; it is refused with code 3 there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeAlias

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.errors import InvalidSetting
from flintmq.logs import logger
from flintmq.net.address import Address
from flintmq.net.channels.channel import Channel
from flintmq.net.channels.session import Session
from flintmq.net.channels.watchdog import Stalls
from flintmq.net.limits import ChannelLimits
from flintmq.net.refusals import Refusals
from flintmq.net.servers.accepting import ServerLimits
from flintmq.net.servers.server import Server, serve
from flintmq.net.tls import ServerTls

log = logger(__name__)

FAST_PORTS_BELOW = 2
"""RocketMQ's own distance, which its clients know."""


class Port(Enum):
    """What a port of a broker is for."""

    MAIN = "main"
    FAST = "fast"
    ADMIN = "admin"


Open: TypeAlias = Callable[[Channel, Port], Session]
"""Makes the session of a connection that came in through a port."""

Listen: TypeAlias = Callable[[Address, Port], Awaitable[Server]]
"""Listens at an address, for what a port is for."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """The listening sockets of one broker.  `listen_at_all` makes them."""

    main: Server
    fast: Server | None
    admin: Server | None = None

    def __iter__(self) -> Iterator[Server]:
        yield self.main
        for server in (self.fast, self.admin):
            if server is not None:
                yield server

    @property
    def admin_at(self) -> str | None:
        """The only address that serves administrative requests; None where all do."""
        return None if self.admin is None else str(self.admin.address)

    async def stop(self) -> None:
        await asyncio.gather(*(each.stop() for each in self))


def limits_of(config: BrokerConfig) -> ServerLimits:
    """What peers may take of one port, by the settings of a broker."""
    return ServerLimits(
        connections_max=config.connections_max,
        connections_per_address_max=config.connections_per_address_max or None,
        partial_bytes_max=config.partial_bytes_max,
        unread_bytes_max=config.unread_bytes_max,
    )


async def listen_at_all(
    where: Address,
    open_session: Open,
    config: BrokerConfig,
    tls: ServerTls | None,
    limits: ServerLimits | None,
    stalls: Stalls,
    refusals: Refusals,
    admin: Address | None = None,
) -> Listeners:
    """Listen; also for admins, if an address is given, and on the fast port, if that is free."""

    async def listen(at: Address, port: Port) -> Server:
        return await serve(
            at,
            lambda channel: open_session(channel, port),
            tls=tls,
            limits=limits or limits_of(config),
            channel_limits=ChannelLimits(write_bytes_max=config.connection_unread_bytes_max),
            stalls=stalls,
            refusals=refusals,
        )

    clients = await _listen_for_clients(where, listen, has_fast_port=config.fast_port)
    if admin is None:
        return clients
    try:
        server = await listen(admin, Port.ADMIN)
    except BaseException:
        await clients.stop()
        raise
    log.info("administrative requests are served at %s only", server.address)
    return replace(clients, admin=server)


async def _listen_for_clients(where: Address, listen: Listen, *, has_fast_port: bool) -> Listeners:
    main = await listen(where, Port.MAIN)
    if not has_fast_port or where.port <= FAST_PORTS_BELOW:
        return Listeners(main, None)
    below = replace(where, port=where.port - FAST_PORTS_BELOW)
    try:
        second = await listen(below, Port.FAST)
    except InvalidSetting as error:
        log.warning(
            "no fast port, %s: %s; clients with vipChannelEnabled, rocketmq-dashboard by "
            "default, do not reach this broker",
            below,
            error.reason,
        )
        return Listeners(main, None)
    main.room.beside, second.room.beside = second.room, main.room
    log.info("listening on %s; fast port, for all but pulls: %s", main.address, below)
    return Listeners(main, second)
