"""Carries what a broker says of itself to its name servers.

What it says is made in `registration`.  A name server that cannot be reached is logged and
delays nobody for longer than a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from flintmq.broker.state.broker_state import BrokerState
from flintmq.broker.tables.registration import registering, unregister_request
from flintmq.errors import FlintError
from flintmq.logs import logger
from flintmq.net.channels.channel_pool import Channels
from flintmq.net.drive import drive_async
from flintmq.protocol.command import Command

log = logger(__name__)

UNREGISTER_MS = 3_000
"""How long a broker that stops waits for its name servers."""

LEAVE_MS = UNREGISTER_MS + 1_000
"""The same with a line that has to be made first, or cannot be."""

ANNOUNCE_MS = 1_000
"""How long who made a topic waits for slow name servers before it is answered."""


class Announcer:
    """One broker's line to its name servers."""

    def __init__(
        self,
        state: BrokerState,
        namesrv: Sequence[str],
        outgoing: Channels,
        clock: Callable[[], int],
    ) -> None:
        self.registered = asyncio.Event()
        """Set once every name server that could be reached has been told."""
        self._state = state
        self._namesrv = namesrv
        self._outgoing = outgoing
        self._clock = clock

    async def tell(self, parts: Iterable[Command], then: Callable[[], None] | None = None) -> None:
        """Tell all name servers, part by part; call ``then`` once they know, or soon."""
        telling = asyncio.ensure_future(self._tell_parts(parts))
        try:
            if then is not None:
                await asyncio.wait([telling], timeout=ANNOUNCE_MS / 1000)
                then()
            await telling
        finally:
            telling.cancel()
        self.registered.set()

    async def _tell_parts(self, parts: Iterable[Command]) -> None:
        for part in parts:
            told = await asyncio.gather(*(self._tell_one(each, part) for each in self._namesrv))
            if not any(told):
                return  # nobody is there; the next round tells all again

    async def leave(self) -> None:
        """Tell all name servers that the broker stops."""
        command = unregister_request(self._state)
        calls = (self._outgoing.call(each, command, UNREGISTER_MS) for each in self._namesrv)
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(outcome, FlintError):
                log.info("name server %s", outcome)

    async def _tell_one(self, namesrv: str, command: Command) -> bool:
        try:
            telling = registering(self._state, namesrv, command, self._clock())
            await drive_async(telling, self._outgoing.make)
        except FlintError as error:
            log.warning("not registered: %s", error)
            return False
        return True
