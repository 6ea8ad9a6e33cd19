"""Sends the registrations of a broker to its name servers.

They are built by `registration`.  A name server that cannot be reached is logged and
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
"""That time where a connection has to be made first, or cannot be."""

ANNOUNCE_MS = 1_000
"""How long the answer to who created a topic waits for slow name servers."""


class Announcer:
    """The connections of one broker to its name servers."""

    def __init__(
        self,
        state: BrokerState,
        namesrv: Sequence[str],
        outgoing: Channels,
        clock: Callable[[], int],
    ) -> None:
        self.registered = asyncio.Event()
        """Set once the broker is registered with every name server that could be reached."""
        self._state = state
        self._namesrv = namesrv
        self._outgoing = outgoing
        self._clock = clock

    async def tell(self, parts: Iterable[Command], then: Callable[[], None] | None = None) -> None:
        """Register with all name servers, part by part; call ``then`` when it is done, or soon."""
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
            reached = await asyncio.gather(*(self._tell_one(each, part) for each in self._namesrv))
            if not any(reached):
                return  # none was reached; the next round registers all topics again

    async def leave(self) -> None:
        """Unregister from all name servers: the broker stops."""
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
