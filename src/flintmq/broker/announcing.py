"""Sends the registrations of a broker to its name servers.

They are built by `registration`.  A name server that cannot be reached is logged and
delays nobody for longer than a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

from flintmq.broker.state.broker_state import BrokerState
from flintmq.broker.tables.registration import (
    heartbeat_request,
    registering,
    unregister_request,
)
from flintmq.errors import BrokerRefused, FlintError, InvalidSetting
from flintmq.logs import logger
from flintmq.model.route import MASTER_ID
from flintmq.net.channels.channel_pool import Channels
from flintmq.net.drive import drive_async
from flintmq.protocol.bodies.common_bodies import KvTable
from flintmq.protocol.bodies.route import ClusterMembers
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, request

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
        self.accepted_by: set[str] = set()
        """The name servers that took the last registration they were sent."""
        self._state = state
        self._namesrv = namesrv
        self._outgoing = outgoing
        self._clock = clock

    async def register(
        self, parts: Iterable[Command], then: Callable[[], None] | None = None
    ) -> None:
        """Register with all name servers, part by part; call ``then`` when it is done, or soon."""
        registration = asyncio.ensure_future(self._register_parts(parts))
        try:
            if then is not None:
                await asyncio.wait([registration], timeout=ANNOUNCE_MS / 1000)
                then()
            await registration
        finally:
            registration.cancel()
        self.registered.set()

    async def _register_parts(self, parts: Iterable[Command]) -> None:
        for part in parts:
            reached = await asyncio.gather(
                *(self._register_one(each, part) for each in self._namesrv)
            )
            if not any(reached):
                return  # none was reached; the next round registers all topics again

    async def require_no_other_master(self) -> None:
        """Raise `InvalidSetting` when another master of this name is alive and not fenced.

        The two would take the name from each other with every registration.  A broker that has to
        do with no replicas is not kept from starting.
        """
        config = self._state.config
        if not config.role.is_master or config.ha_port is None:
            return
        name = config.broker_name
        for namesrv in self._namesrv:
            try:
                told = await self._ask(namesrv, RequestCode.GET_BROKER_CLUSTER_INFO)
                entry = ClusterMembers.from_body(told).broker_addr_table.get(name)
                other = None if entry is None else entry.broker_addrs.get(MASTER_ID)
                if other is None or other == self._state.address:
                    continue
                figures = await self._ask(other, RequestCode.GET_BROKER_RUNTIME_INFO)
            except FlintError as error:
                log.info("looking for another master of %s: %s", name, error)
                continue
            if KvTable.from_body(figures).table.get("fenced") != "true":
                reason = f"{other} is its master: start this one as a slave, or stop that one"
                raise InvalidSetting("brokerName", name, reason)

    async def ask_any(self, command: Command, timeout_ms: int) -> Command | None:
        """What the first name server says that answers; None when none does."""
        for namesrv in self._namesrv:
            try:
                return await self._outgoing.call(namesrv, command, timeout_ms)
            except FlintError as error:
                log.info("name server %s: request %d failed: %s", namesrv, command.code, error)
        return None

    async def _ask(self, address: str, code: RequestCode) -> bytes:
        answer = await self._outgoing.call(address, request(code), UNREGISTER_MS)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerRefused(answer.code, answer.remark or "", address)
        return answer.body

    async def beat(self, register: Callable[[], None]) -> None:
        """Tell all name servers that the broker lives.

        ``register`` is called when one answers that did not before: it may have forgotten us.
        """
        command = heartbeat_request(self._state)
        lapsed = {each for each in self._namesrv if each not in self.accepted_by}
        calls = (self._outgoing.call(each, command, UNREGISTER_MS) for each in self._namesrv)
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        answered = set()
        for namesrv, outcome in zip(self._namesrv, outcomes, strict=True):
            if isinstance(outcome, BaseException):
                self.accepted_by.discard(namesrv)
            else:
                answered.add(namesrv)
        if not lapsed.isdisjoint(answered):
            register()

    async def leave(self) -> None:
        """Unregister from all name servers: the broker stops."""
        command = unregister_request(self._state)
        calls = (self._outgoing.call(each, command, UNREGISTER_MS) for each in self._namesrv)
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(outcome, FlintError):
                log.info("name server %s", outcome)

    async def _register_one(self, namesrv: str, command: Command) -> bool:
        try:
            registration = registering(self._state, namesrv, command, self._clock())
            await drive_async(registration, self._outgoing.make)
        except FlintError as error:
            log.warning("not registered: %s", error)
            self.accepted_by.discard(namesrv)
            return False
        self.accepted_by.add(namesrv)
        return True
