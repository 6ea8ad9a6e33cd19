"""When the tables of a broker are saved, and on which thread.

    new names   soon after they are made, again and again while more come
    positions   by the clock and at the stop, once the records they speak of are durable

One thread writes, so no two saves of a table overlap.  A save that fails is logged and tried
again with the next regular one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from flintmq.broker.state.broker_state import BrokerState
from flintmq.broker.state.saving import TableSnapshot, save_pause, take_names, take_positions
from flintmq.errors import DiskFailed
from flintmq.logs import logger
from flintmq.store.files.json_tables import Tables

log = logger(__name__)


class TableSaver:
    """Saves names and positions for a `BrokerServer`."""

    def __init__(
        self,
        state: BrokerState,
        tables: Tables,
        clock: Callable[[], int],
        sync_soon: Callable[[], asyncio.Future[None] | None],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self.thread = ThreadPoolExecutor(1, "flintmq-tables")
        self._state = state
        self._tables = tables
        self._now_ms = clock
        self._sync_soon = sync_soon
        self._spawn = spawn
        self._loop = asyncio.get_running_loop()
        self._is_saving = False
        self._names_wait = False  # being saved, or left to the next regular save by a failure

    def save_soon(self) -> None:
        """Save everything that changed, unless that is under way."""
        if not self._is_saving:
            self._is_saving = True
            self._spawn(self._save_and_log())

    def save_names_soon(self) -> None:
        """Save topics and groups, unless that is under way."""
        if not self._names_wait:
            self._names_wait = True
            self._spawn(self._save_names())

    async def save(self) -> None:
        """Save names now, and positions as they are now once what they speak of is durable."""
        await self._write(take_names(self._state, self._tables))
        self._names_wait = False
        snapshot = take_positions(self._state, self._tables, self._now_ms())
        end = self._state.log.end_offset
        while self._state.log.durable_to < end and snapshot.failure is None:
            if (syncing := self._sync_soon()) is not None:
                await asyncio.wait([syncing])
            snapshot.failure = self._state.log.why_not
        await self._write(snapshot)

    def shutdown(self, *, wait: bool) -> None:
        self.thread.shutdown(wait=wait)

    async def _write(self, snapshot: TableSnapshot) -> None:
        if snapshot.failure is None:
            await self._loop.run_in_executor(self.thread, snapshot.save)
        if snapshot.failure is not None:
            snapshot.give_back()
            raise snapshot.failure

    async def _save_names(self) -> None:
        try:
            while self._state.has_new_names:
                began_s = self._loop.time()
                await self._write(take_names(self._state, self._tables))
                if self._state.has_new_names:
                    await asyncio.sleep(save_pause(self._loop.time() - began_s))
            self._names_wait = False
        except DiskFailed as failure:
            log.error("names are not saved, this is tried again: %s", failure)  # noqa: TRY400

    async def _save_and_log(self) -> None:
        try:
            await self.save()
        except DiskFailed as failure:
            log.error("tables are not saved, this is tried again: %s", failure)  # noqa: TRY400
        finally:
            self._is_saving = False
