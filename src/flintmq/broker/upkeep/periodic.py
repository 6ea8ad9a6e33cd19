"""Periodic tasks of a broker: what to do, how often, and when next."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from flintmq.broker.state.broker_state import BrokerState
from flintmq.broker.upkeep.scrubbing import PERIOD_MS, Scrubber
from flintmq.errors import DiskFailed
from flintmq.logs import logger

log = logger(__name__)

HELD_MS = 1_000
"""How often units of queues and keys that are held in memory are written; those of many queues
that hold little each are written by a checkpoint, or when there are enough."""

FEW_MS = 100
"""How often they are written while they are few; then a low rate leaves little for `HELD_MS`."""

FLUSH_MS = 500
"""How often the log is synced when nobody waits for it."""


class PeriodicTask:
    """One periodic task.  It is first due one interval after ``now_ms``."""

    __slots__ = ("due_ms", "interval_ms", "run")

    def __init__(self, interval_ms: int, run: Callable[[int], object], now_ms: int) -> None:
        self.interval_ms = interval_ms
        self.run = run
        self.due_ms = now_ms + interval_ms

    def run_if_due(self, now_ms: int) -> None:
        """Run the task if it is due, once, however many runs a jump of the clock missed."""
        if now_ms >= self.due_ms:
            self.due_ms = now_ms + self.interval_ms
            self.run(now_ms)
        elif self.due_ms - now_ms > self.interval_ms:  # the clock went back
            self.due_ms = now_ms + self.interval_ms


class Upkept(Protocol):
    """The server, as its periodic tasks see it."""

    state: BrokerState

    def sync_soon(self, *, thorough: bool = False) -> object: ...

    def save_soon(self) -> None: ...

    def announce_all(self) -> None: ...

    def copy_tables(self) -> None: ...

    @property
    def scrubber(self) -> Scrubber: ...

    def beat(self) -> None: ...


def upkeep(server: Upkept, now_ms: int) -> list[PeriodicTask]:
    """The periodic tasks of a server."""
    config = server.state.config
    tasks = [
        PeriodicTask(FEW_MS, lambda _: server.state.log.flush_few(), now_ms),
        PeriodicTask(HELD_MS, lambda _: server.state.log.flush(scattered=False), now_ms),
        PeriodicTask(FLUSH_MS, lambda _: server.sync_soon(), now_ms),
        PeriodicTask(config.sync_tables_ms, lambda _: server.sync_soon(thorough=True), now_ms),
        PeriodicTask(config.save_offsets_ms, lambda _: server.save_soon(), now_ms),
        PeriodicTask(config.retain_ms, lambda at_ms: _retain(server.state, at_ms), now_ms),
        PeriodicTask(config.register_ms, lambda _: server.announce_all(), now_ms),
    ]
    if not config.role.is_master:
        tasks.append(PeriodicTask(config.copy_tables_ms, lambda _: server.copy_tables(), now_ms))
    if config.scrub_bytes_per_s:
        tasks.append(PeriodicTask(PERIOD_MS, lambda _: server.scrubber.begin(), now_ms))
    if config.acting_master:
        tasks.append(PeriodicTask(config.heartbeat_ms, lambda _: server.beat(), now_ms))
    return tasks


def _retain(state: BrokerState, now_ms: int) -> None:
    """Remove files that are no longer kept, if it is the hour for it."""
    hour = datetime.fromtimestamp(now_ms / 1000).hour  # noqa: DTZ006  # local, as RocketMQ
    try:
        state.log.retain(now_ms, due=hour == state.config.retain_hour)
    except DiskFailed as failure:
        log.error("old files cannot be removed: %s", failure)  # noqa: TRY400
