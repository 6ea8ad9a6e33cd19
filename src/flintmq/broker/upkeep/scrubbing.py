"""A broker's background scrub: its log is read again at a chosen rate, and damage is healed.

Each period a part of the log is checked on the thread that waits for the disk.  What is damaged is
logged once.  Then the replicas of this broker are asked for the records that lie there
(VIEW_MESSAGE_BY_ID, 33), and what `LogScrub` finds proven is written, with a line in the log; what
is not stays as it is, is named, and is tried again with every pass.

A master learns from its name servers where its slaves are; a slave knows its master.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any

from flintmq.broker.state.broker_state import BrokerState
from flintmq.core.account import Account
from flintmq.core.admin.cluster import fetch_cluster
from flintmq.core.routes import NameServers
from flintmq.errors import FlintError
from flintmq.kernel.layout import RECORD_BYTES_MIN
from flintmq.logs import logger
from flintmq.net.channels.channel_pool import Channels
from flintmq.net.drive import drive_async
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import request
from flintmq.protocol.headers.lookup import ViewMessage
from flintmq.protocol.records.record import record_size
from flintmq.store.scrub import LogDamage

log = logger(__name__)

PERIOD_MS = 100
"""How often a part of the log is checked."""

ASK_MS = 3_000
"""How long a replica may take to answer."""

HEAL_BYTES_MAX = 64 * 1024 * 1024
"""The largest damage that is healed: nobody asks a replica for more at once."""


class Scrubber:
    """Scrubs the log of one broker, one part at a time."""

    def __init__(
        self,
        state: BrokerState,
        namesrv: tuple[str, ...],
        outgoing: Channels,
        thread: Executor,
        inner: Account | None,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._state = state
        self._scrub = state.log.raw.scrub
        self._namesrv = NameServers(namesrv) if namesrv else None
        self._outgoing = outgoing
        self._thread = thread
        self._inner = inner
        self._spawn = spawn
        self._is_busy = False

    def begin(self) -> None:
        """Check the next part, unless one is under way."""
        if not self._is_busy and not self._state.is_stopping:
            self._is_busy = True
            self._spawn(self._check())

    async def _check(self) -> None:
        try:
            rate = self._state.config.scrub_bytes_per_s
            part = self._scrub.begin(max(1, rate * PERIOD_MS // 1000))
            if part is None:
                return
            await asyncio.get_running_loop().run_in_executor(self._thread, part.run)
            for damage in self._scrub.finish(part):
                log.error("the log is damaged: %s", damage)
            for damage in part.damages:
                await self._heal(damage)
        finally:
            self._is_busy = False

    async def _heal(self, damage: LogDamage) -> None:
        """Ask one replica after the other for what was there, until one has proven bytes."""
        reasons = []
        for address in await self._replicas():
            try:
                octets = await self._fetch(address, damage)
                reason = self._scrub.why_not(damage, octets)
                if reason is None:
                    self._scrub.heal(damage, octets)
                    log.warning("healed from %s: %s", address, damage)
                    return
            except FlintError as error:
                reason = str(error)
            reasons.append(f"{address}: {reason}")
        told = "; ".join(reasons) or "no replica is known"
        if self._scrub.unhealed.get(damage.start) != told:
            self._scrub.unhealed[damage.start] = told
            log.error("not healed: %s (%s)", damage, told)

    async def _replicas(self) -> list[str]:
        state = self._state
        if not state.config.role.is_master:
            return [] if state.master_address is None else [state.master_address]
        if self._namesrv is None:
            return []
        try:
            cluster = await drive_async(fetch_cluster(self._namesrv), self._outgoing.make)
        except FlintError as error:
            log.warning("it is not known which slaves there are: %s", error)
            return []
        return [
            address
            for replicas in cluster.brokers
            if replicas.broker == state.config.broker_name
            for broker_id, address in replicas.addresses.items()
            if broker_id != state.config.broker_id
        ]

    async def _fetch(self, address: str, damage: LogDamage) -> bytes:
        """The records that a replica has in a damaged place; fewer bytes where it lacks some."""
        octets = b""
        wanted = damage.stop - damage.start
        while len(octets) < min(wanted, HEAL_BYTES_MAX):
            header = ViewMessage(offset=damage.start + len(octets))
            command = request(RequestCode.VIEW_MESSAGE_BY_ID, header)
            if self._inner is not None:
                command = self._inner.sign(command)
            answer = await self._outgoing.call(address, command, ASK_MS)
            body = answer.body
            if answer.code != ResponseCode.SUCCESS or len(body) < RECORD_BYTES_MIN:
                break
            if record_size(body, 0) != len(body):
                break
            octets += body
        return octets
