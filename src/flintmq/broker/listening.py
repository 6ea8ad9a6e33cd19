"""Where a broker listens: its own port, and the fast port two below it.

    listenPort        every request
    listenPort - 2    every request but pulls, as in RocketMQ

RocketMQ's clients use the second port when that is set (vipChannelEnabled), and
rocketmq-dashboard and slaves use it by default.  They find it by subtraction: no route and no
registration names it.  So a broker whose own port was chosen by the system has none; two below
may be anybody's.

Both ports have the same sessions, TLS and stop, and share one limit of connections.  A fast port
that is in use is logged in one line, and the broker goes on without it.

Invariant: a pull never waits on the fast port; it is refused with code 3 there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from flintmq.broker.client_session import ReadRequest, read_all, read_all_but_pulls
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.errors import InvalidSetting
from flintmq.logs import logger
from flintmq.net.address import Address
from flintmq.net.channels.channel import Channel
from flintmq.net.channels.session import Session
from flintmq.net.channels.watchdog import Stalls
from flintmq.net.servers.server import Server, ServerLimits, serve
from flintmq.net.tls import ServerTls

log = logger(__name__)

FAST_PORTS_BELOW = 2
"""RocketMQ's own distance, which its clients know."""

Open: TypeAlias = Callable[[Channel, ReadRequest], Session]
"""Makes the session of a connection, with the requests it reads."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """The listening sockets of one broker.  `listen_both` makes them."""

    main: Server
    fast: Server | None

    def __iter__(self) -> Iterator[Server]:
        yield self.main
        if self.fast is not None:
            yield self.fast

    async def stop(self) -> None:
        await asyncio.gather(*(each.stop() for each in self))


async def listen_both(
    where: Address,
    open_session: Open,
    config: BrokerConfig,
    tls: ServerTls | None,
    limits: ServerLimits,
    stalls: Stalls,
) -> Listeners:
    """Listen; also on the fast port, if it is wanted and free."""
    main = await serve(
        where,
        lambda channel: open_session(channel, read_all),
        tls=tls,
        limits=limits,
        stalls=stalls,
    )
    if not config.fast_port or where.port <= FAST_PORTS_BELOW:
        return Listeners(main, None)
    below = replace(where, port=where.port - FAST_PORTS_BELOW)
    try:
        second = await serve(
            below,
            lambda channel: open_session(channel, read_all_but_pulls),
            tls=tls,
            limits=limits,
            stalls=stalls,
        )
    except InvalidSetting as error:
        log.warning(
            "no fast port, %s: %s; clients with vipChannelEnabled, rocketmq-dashboard by "
            "default, do not reach this broker",
            below,
            error.reason,
        )
        return Listeners(main, None)
    main.beside, second.beside = second, main
    log.info("listening on %s; fast port, for all but pulls: %s", main.address, below)
    return Listeners(main, second)
