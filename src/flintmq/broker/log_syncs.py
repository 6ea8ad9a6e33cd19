"""The syncs of a broker's store, off the loop, and its end.

A sync waits for the disk, so it runs in a thread of its own.  The queues that a thorough sync
covers are synced side by side in a few more threads.  One sync is under way at a time; whoever
asks for one meanwhile is given that one.  Many queues are synced beside it, all at once.

Invariant: the store is closed only when no sync is under way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from flintmq.broker.engine import BrokerEngine
from flintmq.errors import DiskFailed
from flintmq.store.files.group_commit import SyncPlan

SYNCS_AT_ONCE = 8
"""Files of queues that are synced at the same time: they share what it costs the disk.  So who
waits for a round waits a tenth as long, and thousands of queues end within the limit of a stop."""

ROUND_FILES = 64
"""Queues that one sync may cover beside the log: whoever waits for it waits no longer."""


class LogSyncs:
    """One sync after the other, for the store of one engine."""

    def __init__(self, engine: BrokerEngine, clock: Callable[[], int]) -> None:
        self._engine = engine
        self.when_synced: Callable[[], object] = lambda: None
        """Called when more of the log is on disk."""
        self._state = engine.state
        self._now_ms = clock
        self._loop = asyncio.get_running_loop()
        self._disk_thread = ThreadPoolExecutor(1, "flintmq-sync")
        self._file_threads = ThreadPoolExecutor(SYNCS_AT_ONCE, "flintmq-sync-files")
        self._syncing: asyncio.Future[None] | None = None
        self._beside: asyncio.Future[None] | None = None
        self._is_round_due = False

    def begin(self, *, thorough: bool = False) -> asyncio.Future[None] | None:
        """Begin a sync if none is under way; give the one that is."""
        self._is_round_due |= thorough
        if self._syncing is None:
            thorough, self._is_round_due = self._is_round_due, False
            try:
                plan = self._state.log.begin_sync(thorough=thorough, files_max=ROUND_FILES)
            except DiskFailed as failure:
                self._engine.sync_failed(failure)
                return None
            if plan is not None:
                self._syncing = self._loop.create_future()
                each = self._file_threads.map if len(plan.parts) > 1 else map  # the log alone
                running = self._loop.run_in_executor(self._disk_thread, plan.run, each)
                running.add_done_callback(lambda _: self._synced(plan))
            self._begin_beside()
        return self._syncing

    def _begin_beside(self) -> None:
        plan = self._state.log.round.begin_beside()
        if plan is not None:
            threads = self._file_threads
            self._beside = self._loop.run_in_executor(threads, plan.run, threads.map)
            self._beside.add_done_callback(lambda _: self._synced_beside(plan))

    def _synced_beside(self, plan: SyncPlan) -> None:
        self._beside = None
        try:
            self._state.log.finish_sync(plan)
        except DiskFailed as failure:
            self._engine.sync_failed(failure)
        if self._state.log.round.left:
            self.begin()  # what the round has left

    def _synced(self, plan: SyncPlan) -> None:
        done, self._syncing = self._syncing, None
        try:
            self._state.log.finish_sync(plan)
        except DiskFailed as failure:
            self._engine.sync_failed(failure)
        else:
            self._engine.durable(self._now_ms())
            self._state.put_times.durable(self._state.log.durable_to, self._now_ms())
            self.when_synced()
        if done is not None and not done.done():
            done.set_result(None)
        if self._engine.wants_sync or self._state.log.round.left or self._is_round_due:
            self.begin()

    async def close_store(self) -> None:
        """Wait for the sync that is under way, then close the store."""
        while under_way := [each for each in (self._syncing, self._beside) if each is not None]:
            await asyncio.wait(under_way)  # a round takes several
        close = self._state.log.close
        await self._loop.run_in_executor(self._disk_thread, close, self._file_threads.map)

    def shutdown(self, *, wait: bool) -> None:
        """End the threads; without ``wait`` they end when the disk answers."""
        self._disk_thread.shutdown(wait=wait)
        self._file_threads.shutdown(wait=wait)
