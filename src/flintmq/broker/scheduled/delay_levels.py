"""Messages with a delay level: each level is a queue of the schedule topic, read in order.

All messages of a level wait equally long, so the first of its queue is always the next one
due: one position per level is all there is to remember.  A unit holds the time of delivery.
One that lies further off than the level's delay was stored before the clock was set back, and
is due at once.

Positions move on when the delivered records are written.  When that fails, the same messages
are due again shortly; none is ever dropped, except a record that cannot be read or may not go
where it says (see `destinations`): it is skipped, counted and logged.

Invariant: everything before a level's position was delivered or skipped.
"""

from __future__ import annotations

from flintmq.broker.counters.message_counts import DELAY
from flintmq.broker.requests.outcome import Refusal
from flintmq.broker.scheduled.append import append
from flintmq.broker.scheduled.destinations import Undeliverable, destination
from flintmq.broker.scheduled.redelivery import (
    RETRY_MS,
    Allowance,
    home_of,
    rebuilt,
    record_of,
    waits_until,
)
from flintmq.broker.tables.broker_tables import BrokerTables
from flintmq.errors import BodyTooLarge, DiskFailed, InvalidName, Overloaded
from flintmq.logs import logger
from flintmq.model.queue import QueueOffset
from flintmq.model.topic import SCHEDULE_TOPIC
from flintmq.protocol.bodies.common_bodies import DataVersion
from flintmq.protocol.bodies.offset import DelayOffsets
from flintmq.protocol.records.properties import parse_properties
from flintmq.store.queues.queue_extension import is_address
from flintmq.store.record_lookup import LoggedUnit

log = logger(__name__)

READ_UNITS = 64
"""Units of a level that are read ahead."""

SHARE_RECORDS = 32
"""Messages of one level before another level has its turn."""


class _Level:
    """One level: where it stands, and the units ahead."""

    __slots__ = ("_ahead", "_at", "level", "position", "queue_id", "reached", "retry_ms")

    def __init__(self, level: int, position: int) -> None:
        self.level = level
        self.queue_id = level - 1
        self.position = QueueOffset(position)
        self.reached = self.position
        """The position once the turn under way is written."""
        self.retry_ms = 0
        self._ahead: list[LoggedUnit] = []
        self._at = 0

    @property
    def is_read_out(self) -> bool:
        """Whether the next unit has to be looked for in the queue."""
        return self._at == len(self._ahead)

    def first(self, state: BrokerTables) -> LoggedUnit | None:
        """The first unit that is not delivered."""
        if self._at == len(self._ahead):
            stop = state.log.max_offset(SCHEDULE_TOPIC, self.queue_id)
            if self.reached == stop:
                return None
            start = state.log.min_offset(SCHEDULE_TOPIC, self.queue_id)
            if not start <= self.reached <= stop:
                self._correct(start, stop)
            self._ahead = state.log.lookup.entries(
                SCHEDULE_TOPIC, self.queue_id, self.reached, READ_UNITS
            )
            self._at = 0
            if not self._ahead:
                return None
        return self._ahead[self._at]

    def advance(self) -> None:
        self._at += 1
        self.reached = QueueOffset(self.reached + 1)

    def go_back(self) -> None:
        """The turn failed."""
        self.reached = self.position
        self._ahead, self._at = [], 0

    def due_ms(self, state: BrokerTables, unit: LoggedUnit, now_ms: int) -> int:
        """When a unit of this level is due."""
        due_ms = unit.tags_code if unit.extension is None else unit.extension.tags_code
        if is_address(due_ms):  # the extension is lost; the record knows when it was stored
            record = state.log.lookup.record_at(unit.log_offset)
            stored_ms = 0 if record is None else record.store_ms
            due_ms = state.config.store.deliver_ms(self.level, stored_ms)
        latest_ms = state.config.store.deliver_ms(self.level, now_ms)
        return due_ms if due_ms <= latest_ms else now_ms

    def _correct(self, start: QueueOffset, stop: QueueOffset) -> None:
        corrected = start if self.reached < start else stop
        log.error(
            "delay level %d: position %d is outside [%d, %d], goes on at %d",
            self.level, self.reached, start, stop, corrected,
        )  # fmt: skip
        self.reached = corrected
        self.position = corrected


class DelaySchedule:
    """All levels."""

    def __init__(self, saved: DelayOffsets | None) -> None:
        self._saved = dict(saved.offset_table) if saved else {}
        self._version = (saved.data_version if saved else None) or DataVersion()
        self._levels: list[_Level] | None = None
        self._turn = 0
        self._is_under_way = False
        self._is_failing = False
        self._has_new = True  # a level may have more than is known
        self._is_idle = False  # no level has anything ahead, unless there is something new
        self.delivered_count = 0
        self.unreadable_count = 0
        """Records that were skipped."""
        self._undeliverable = Undeliverable("delayed")

    def note_new(self) -> None:
        """A message was put into the schedule topic."""
        self._has_new = True

    def deliver(self, state: BrokerTables, now_ms: int) -> None:
        """Append what is due, some of it at a time; `after_write` moves the positions on."""
        if self._is_under_way:
            return
        self._is_idle = False
        levels = self._all(state)
        self._turn = (self._turn + 1) % len(levels)
        due = levels[self._turn :] + levels[: self._turn]
        allowance = Allowance()
        sent: dict[str, list[int]] = {}
        while due and not allowance.is_spent:
            due = [each for each in due if self._deliver_some(state, each, allowance, sent, now_ms)]
        moved = [level for level in levels if level.reached != level.position]
        if moved:
            self._is_under_way = True
            state.after_write.append(
                lambda failure: self._settle(state, moved, sent, failure, now_ms)
            )

    def next_due_ms(self, state: BrokerTables, now_ms: int) -> int | None:
        """When `deliver` should run next; None: after `note_new`."""
        has_new = self._has_new
        if self._is_idle and not has_new:
            return None
        self._has_new = state.log.has_turn  # what is not written yet has to be looked for again
        earliest_ms = None
        for level in self._all(state):
            if level.is_read_out and not has_new:
                continue
            unit = level.first(state)
            if unit is None:
                continue
            due_ms = level.due_ms(state, unit, now_ms)
            if level.retry_ms:
                due_ms = max(due_ms, waits_until(level.retry_ms, now_ms) or 0)
            if earliest_ms is None or due_ms < earliest_ms:
                earliest_ms = due_ms
        self._is_idle = earliest_ms is None
        return earliest_ms

    def table(self) -> DelayOffsets:
        """The positions, to be saved once what was written so far is on the disk."""
        table = dict(self._saved)
        for level in self._levels or ():
            if level.position or level.level in table:
                table[level.level] = level.position
        return DelayOffsets(data_version=self._version, offset_table=table)

    def copy_from(self, table: DelayOffsets) -> None:
        """Take over the positions of the master; for a slave, which delivers nothing itself."""
        self._saved = dict(table.offset_table)
        self._version = table.data_version or self._version
        self._levels = None

    # Inside

    def _all(self, state: BrokerTables) -> list[_Level]:
        count = len(state.config.store.delay_levels_ms)
        if self._levels is None:
            self._levels = [_Level(n, self._saved.get(n, 0)) for n in range(1, count + 1)]
        return self._levels

    def _deliver_some(
        self,
        state: BrokerTables,
        level: _Level,
        allowance: Allowance,
        sent: dict[str, list[int]],
        now_ms: int,
    ) -> bool:
        """Deliver the next few messages of a level; return whether more may be due."""
        if waits_until(level.retry_ms, now_ms) is not None:
            return False
        for _ in range(SHARE_RECORDS):
            unit = level.first(state)
            if unit is None or level.due_ms(state, unit, now_ms) > now_ms:
                return False
            if allowance.is_spent:
                return True
            try:
                self._deliver_one(state, level, unit, sent, now_ms)
            except (DiskFailed, Overloaded, BodyTooLarge) as failure:
                self._note_failure(failure)
                level.retry_ms = now_ms + RETRY_MS
                return False
            level.advance()
            allowance.spend(unit.size_bytes)
        return True

    def _deliver_one(
        self,
        state: BrokerTables,
        level: _Level,
        unit: LoggedUnit,
        sent: dict[str, list[int]],
        now_ms: int,
    ) -> None:
        record = record_of(state, unit, SCHEDULE_TOPIC, level.queue_id, level.reached)
        properties = {} if record is None else parse_properties(record.properties)
        home = home_of(properties)
        if record is None or home is None:
            self._skip(level, unit, "cannot be read")
            return
        try:
            home = destination(state, home, now_ms)
        except Refusal as refusal:
            self.unreadable_count += 1
            where = f"level {level.level}, queue offset {level.reached}"
            self._undeliverable.log_first(home, where, refusal)
            return
        try:
            stored = append(state, rebuilt(record, properties, *home), now_ms)
        except (Refusal, InvalidName) as error:
            self._skip(level, unit, f"cannot be stored: {error}")
        else:
            counts = sent.setdefault(home.topic, [0, 0])
            counts[0] += 1
            counts[1] += stored.size_bytes

    def _skip(self, level: _Level, unit: LoggedUnit, reason: str) -> None:
        self.unreadable_count += 1
        log.error(
            "delay level %d: the record at queue offset %d, log offset %d %s; it is skipped",
            level.level, level.reached, unit.log_offset, reason,
        )  # fmt: skip

    def _settle(
        self,
        state: BrokerTables,
        moved: list[_Level],
        sent: dict[str, list[int]],
        failure: DiskFailed | None,
        now_ms: int,
    ) -> None:
        self._is_under_way = False
        self._has_new = True
        if failure is not None:
            self._note_failure(failure)
            for level in moved:
                level.go_back()
                level.retry_ms = now_ms + RETRY_MS
            return
        self._is_failing = False
        for level in moved:
            level.position = level.reached
            if waits_until(level.retry_ms, now_ms) is None:
                level.retry_ms = 0
        for topic, (count, size_bytes) in sent.items():
            self.delivered_count += count
            state.stats.sent(topic, count, size_bytes, now_ms)
            state.stats.counts.add_alike(topic, DELAY, count, size_bytes)
            state.stats.counts.schedule_read[0] += count
            state.stats.counts.schedule_read[1] += size_bytes
        self._version = self._version.next(now_ms)

    def _note_failure(self, failure: Exception) -> None:
        if not self._is_failing:
            self._is_failing = True
            log.error("delayed messages wait until they can be stored: %s", failure)
