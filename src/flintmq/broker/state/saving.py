"""The tables of a broker on their way to disk.

A snapshot is taken on the loop, where nothing changes meanwhile, and saved in a thread, where
waiting for the disk holds up nobody.  Only what changed since the last one is in it.

There are two kinds.  Names, the topics and groups and how these take topics, refer to no record
and may be saved at any time.  Positions do, and must not be on disk before the records they refer
to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flintmq.broker.state.broker_state import BrokerState
from flintmq.errors import DiskFailed
from flintmq.model.queue import QueueOffset
from flintmq.protocol.bodies.offset import LightOffsets
from flintmq.store.files.json_tables import Tables
from flintmq.store.recovery.survey import TimerProgress, write_timer_progress

PAUSE_FACTOR = 9
"""Names that come without end are saved again after this many times as long as a save takes, so
that saving is a tenth of what the broker does however many names there are."""

PAUSE_S_MAX = 5.0
"""What was made longer ago is saved, or being saved."""


def save_pause(took_s: float) -> float:
    """Seconds to wait after a save that took so long, when there are new names already."""
    return min(PAUSE_FACTOR * took_s, PAUSE_S_MAX)


@dataclass(slots=True)
class TableSnapshot:
    """What to save, and how that ended."""

    saves: list[Callable[[], None]]
    give_back: Callable[[], None]
    """It was not saved: the tables are as changed as they were."""
    failure: DiskFailed | None = None

    def save(self) -> None:
        """Write every table.  Never raises; ``failure`` says what went wrong."""
        try:
            for save in self.saves:
                save()
        except DiskFailed as failure:
            self.failure = failure


def take_names(state: BrokerState, tables: Tables) -> TableSnapshot:
    """Topics and groups as they are now; from here on they count as unchanged."""
    saves: list[Callable[[], None]] = []
    has_topics, has_groups = state.topics.is_dirty, state.groups.is_dirty
    has_modes = state.modes.is_dirty
    if has_topics:
        topics = state.topics.table()
        saves.append(lambda: tables.topics.save(topics))
    if has_groups:
        groups = state.groups.table()
        saves.append(lambda: tables.groups.save(groups))
    if has_modes:
        modes = state.modes.table()
        saves.append(lambda: tables.request_modes.save(modes))
    state.topics.is_dirty = state.groups.is_dirty = state.modes.is_dirty = False

    def give_back() -> None:
        state.failed_saves += 1
        state.topics.is_dirty |= has_topics
        state.groups.is_dirty |= has_groups
        state.modes.is_dirty |= has_modes

    return TableSnapshot(saves, give_back)


def take_positions(state: BrokerState, tables: Tables, now_ms: int) -> TableSnapshot:
    """Everything else as it is now; from here on it counts as unchanged."""
    saves: list[Callable[[], None]] = []
    has_offsets = state.offsets.is_dirty
    if has_offsets:
        offsets = state.offsets.table(now_ms)
        if state.config.store.serves_light:
            light = LightOffsets.of(offsets)
            saves.append(lambda: tables.light_offsets.save(light))
        else:
            saves.append(lambda: tables.consumer_offsets.save(offsets))
    delays = state.delays.table()
    saves.append(lambda: tables.delay_offsets.save(delays))
    state.filters.forget_dead(now_ms)
    has_filters = state.filters.is_dirty
    if has_filters:
        filters = state.filters.table(now_ms)
        saves.append(lambda: tables.filters.save(filters))
    has_ordered = state.ordered.is_dirty
    if has_ordered:
        ordered = state.ordered.table(
            now_ms, lambda topic, group: topic in state.topics and group in state.groups
        )
        saves.append(lambda: tables.ordered_pops.save(ordered))
    timers = state.timers.table()
    if timers is not None:
        progress = TimerProgress(now_ms, QueueOffset(timers.low_offset))
        saves.append(lambda: tables.timers.save(timers))
        if timers.next_offset:
            saves.append(lambda: write_timer_progress(tables.disk, tables.directory, progress))
    state.offsets.is_dirty = state.filters.is_dirty = state.ordered.is_dirty = False

    def give_back() -> None:
        state.failed_saves += 1
        state.offsets.is_dirty |= has_offsets
        state.filters.is_dirty |= has_filters
        state.ordered.is_dirty |= has_ordered

    return TableSnapshot(saves, give_back)
