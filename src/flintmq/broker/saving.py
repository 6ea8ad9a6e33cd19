"""The tables of a broker on their way to disk.

A snapshot is taken on the loop, where nothing changes meanwhile, and saved in a thread, where
waiting for the disk holds up nobody.  Only what changed since the last one is in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from flintmq.broker.state import BrokerState
from flintmq.errors import DiskFailed
from flintmq.store.tables import Tables


@dataclass(slots=True)
class Snapshot:
    """What to save, and how that ended."""

    saves: list[Callable[[], None]]
    dirty: tuple[bool, bool, bool]
    """Whether topics, groups and offsets had changed."""
    failure: DiskFailed | None = field(default=None, init=False)

    def save(self) -> None:
        """Write every table.  Never raises; ``failure`` tells what went wrong."""
        try:
            for save in self.saves:
                save()
        except DiskFailed as failure:
            self.failure = failure

    def give_back(self, state: BrokerState) -> None:
        """It was not saved: the tables are as changed as they were."""
        topics, groups, offsets = self.dirty
        state.topics.is_dirty |= topics
        state.groups.is_dirty |= groups
        state.offsets.is_dirty |= offsets


def take_snapshot(state: BrokerState, tables: Tables, now_ms: int) -> Snapshot:
    """The tables as they are now; from here on they count as unchanged."""
    saves: list[Callable[[], None]] = []
    dirty = (state.topics.is_dirty, state.groups.is_dirty, state.offsets.is_dirty)
    if dirty[0]:
        topics = state.topics.table()
        saves.append(lambda: tables.topics.save(topics))
    if dirty[1]:
        groups = state.groups.table()
        saves.append(lambda: tables.groups.save(groups))
    if dirty[2]:
        offsets = state.offsets.table(now_ms)
        saves.append(lambda: tables.consumer_offsets.save(offsets))
    delays, filters = state.delays.table(), state.filters.table(now_ms)
    saves.append(lambda: tables.delay_offsets.save(delays))
    saves.append(lambda: tables.filters.save(filters))
    timers = state.timers.table()
    if timers is not None:
        saves.append(lambda: tables.timers.save(timers))
    state.topics.is_dirty = state.groups.is_dirty = state.offsets.is_dirty = False
    return Snapshot(saves, dirty)
