"""Timer messages of 5.x: delivered at any time within the next days, not by levels.

They wait in one queue of the timer topic.  Which of them are due is kept in memory: whatever
comes to that queue is read once and put in a heap by time.  At the start the queue is read
from the first message that may still wait, and nothing is delivered before that is done.

    timer topic ── read ──► heap (due, queue offset) ── due ──► the real topic
                                    ▲                              │ write failed
                                    └──────────────────────────────┘

A message may cancel another one, by topic and unique id, if it has the same time; neither is
delivered then.  Records of the journal of pops are read for `PopJournal` and stay where they are:
nothing delivers them.  A record that cannot be read, or may not go where it says (see
`destinations`), is skipped, counted and logged.

Invariant: a message of the queue that was read is in the heap, under way, or done with; and
`table` tells the last from the others.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from flintmq.broker.counters.message_counts import DELAY
from flintmq.broker.pops.in_flight import TIMER_SOURCE
from flintmq.broker.requests.outcome import Refusal
from flintmq.broker.scheduled import timer_rules as rules
from flintmq.broker.scheduled.append import append
from flintmq.broker.scheduled.destinations import Undeliverable, destination
from flintmq.broker.scheduled.pop_journal import PopJournal, is_journal
from flintmq.broker.scheduled.redelivery import (
    RETRY_MS,
    Allowance,
    home_of,
    rebuilt,
    record_of,
    waits_until,
)
from flintmq.broker.scheduled.timer_keys import OFFSET_BITS, OFFSETS, key_of, keys_up_to
from flintmq.broker.scheduled.waiting_topics import WaitingTopics
from flintmq.broker.tables.broker_stats import TIMER_DELIVERED_NUMS
from flintmq.broker.tables.broker_tables import BrokerTables
from flintmq.errors import BodyTooLarge, DiskFailed, InvalidName, Overloaded
from flintmq.logs import logger
from flintmq.model import properties as names
from flintmq.model.queue import QueueOffset
from flintmq.model.topic import TIMER_TOPIC
from flintmq.protocol.bodies.offset import TimerPositions
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.records.properties import parse_properties
from flintmq.store.recovery.survey import TimerProgress

if TYPE_CHECKING:
    from flintmq.broker.scheduled.append import NewMessage
    from flintmq.protocol.records.record import Record

log = logger(__name__)

READ_RECORDS = 1_000
"""Messages of the timer topic that one turn reads, some 10 ms of work."""

BLOCK = 1_024
"""Queue offsets that are counted together, to know the first that still waits."""


class Timers:
    """All timer messages.  ``progress`` is how far a 5.x broker had come in this directory."""

    def __init__(
        self,
        saved: TimerPositions | None = None,
        progress: TimerProgress | None = None,
        journal: PopJournal | None = None,
    ) -> None:
        self._journal = journal
        self._saved = saved
        self._copied: TimerPositions | None = None
        self._late = frozenset(saved.late) if saved else frozenset()
        self._progress = progress or TimerProgress(0, QueueOffset(0))
        self._heap: list[int] = []
        self._under_way: list[int] = []
        self._leaving: list[str] = []  # their topics
        self.waiting_topics = WaitingTopics()
        self._waiting: dict[int, int] = {}  # how many of each block; the lowest one is first
        self._cancels: dict[str, QueueOffset] = {}
        self._done = key_of(saved.delivered_ms, saved.delivered_offset) if saved else -1
        if progress is not None:  # what RocketMQ delivered is not delivered again
            self._done = max(self._done, key_of(progress.read_ms + rules.STEP_MS, 0))
        self._next = QueueOffset(saved.low_offset if saved else 0)
        self._ready_at: QueueOffset | None = None  # what was there at the start is read up to here
        self._floor = 0  # nothing before it is needed
        self._unwritten = 0
        self._retry_ms = 0
        self._is_failing = False
        self.delivered_count = 0
        self.unreadable_count = 0
        """Records that were skipped."""
        self._undeliverable = Undeliverable("timer")

    # Sending

    def takes(self, message: NewMessage) -> bool:
        """Whether the message asks for a time of delivery."""
        properties = message.properties
        if not (
            names.TIMER_DELAY_SEC in properties
            or names.TIMER_DELAY_MS in properties
            or names.TIMER_DELIVER_MS in properties
        ):
            return False
        return names.TIMER_OUT_MS not in properties and message.topic != TIMER_TOPIC

    def schedule(self, state: BrokerTables, message: NewMessage, now_ms: int) -> None:
        """Make it a message of the timer topic, or leave it when its time is past.

        Raises `Refusal` when it is too far in the future or too many wait.
        """
        config = state.config
        if not config.timers:
            remark = "accurate timer message is not enabled, timerWheelEnable is false"
            raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
        properties = message.properties
        due_ms = rules.asked_ms(properties, now_ms)
        if due_ms is None or due_ms - now_ms > config.timer_delay_ms_max:
            raise rules.too_far(config.timer_delay_ms_max)
        if due_ms <= now_ms:
            if names.TIMER_DEL_UNIQKEY in properties:
                raise rules.too_far(config.timer_delay_ms_max)
            return
        if self.waiting_count(state) >= config.timers_max:
            limit = config.timers_max
            remark = f"timer message is under flow control, max num limit is {limit}"
            raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
        properties[names.TIMER_OUT_MS] = str(rules.out_ms(due_ms))
        properties[names.REAL_TOPIC] = message.topic
        properties[names.REAL_QUEUE_ID] = str(message.queue_id)
        state.stats.counts.timer_came(message.topic, due_ms - now_ms)
        message.topic = TIMER_TOPIC
        message.queue_id = 0
        if not self._unwritten:
            state.after_write.append(lambda _: setattr(self, "_unwritten", 0))
        self._unwritten += 1

    def waiting_count(self, state: BrokerTables) -> int:
        """How many messages wait, with those of the turn under way."""
        read = len(self._heap) + len(self._under_way)
        return read + self.unread_count(state) + self._unwritten

    def unread_count(self, state: BrokerTables) -> int:
        """Messages of the timer topic that are not looked at yet."""
        return max(0, state.log.max_offset(TIMER_TOPIC, 0) - self._next)

    def behind_ms(self, now_ms: int) -> int:
        """How long the first message that waits should have been delivered already."""
        return max(0, now_ms - (self._heap[0] >> OFFSET_BITS)) if self._heap else 0

    @property
    def scheduled_count(self) -> int:  # messages that wait in memory for their time
        return len(self._heap)

    def due_times(self, start: int, count: int) -> list[int]:
        """When some of them are due, in no order."""
        return [key >> OFFSET_BITS for key in self._heap[start : start + count]]

    # Delivering

    def deliver(self, state: BrokerTables, now_ms: int) -> None:
        """Append what is due, some of it at a time; `after_write` tells how that ended."""
        if self._under_way:
            return
        self._read(state)
        if not self.is_ready or waits_until(self._retry_ms, now_ms) is not None:
            return
        allowance = Allowance()
        sent: dict[str, list[int]] = {}
        heap = self._heap
        while heap and heap[0] >> OFFSET_BITS <= now_ms and not allowance.is_spent:
            try:
                size_bytes, topic = self._deliver_one(state, heap[0], sent, now_ms)
            except (DiskFailed, Overloaded, BodyTooLarge) as failure:
                self._note_failure(failure, now_ms)
                break
            allowance.spend(size_bytes)
            self._leaving.append(topic)
            self._under_way.append(heappop(heap))
        if self._under_way:
            state.after_write.append(lambda failure: self._settle(state, sent, failure, now_ms))

    def next_due_ms(self, state: BrokerTables, now_ms: int) -> int | None:
        """When `deliver` should run next; None: when the timer topic grows."""
        if not self.is_ready or state.log.max_offset(TIMER_TOPIC, 0) > self._next:
            return now_ms
        if not self._heap:
            return None
        due_ms = self._heap[0] >> OFFSET_BITS
        if self._retry_ms:
            due_ms = max(due_ms, waits_until(self._retry_ms, now_ms) or 0)
        return due_ms

    def table(self) -> TimerPositions | None:
        """What is done, to be saved once what was written so far is on the disk.

        Nothing while it is still being read what the last run left.
        """
        if not self.is_ready:
            return self._copied
        late = keys_up_to(self._heap, self._done)
        late += [key for key in self._under_way if key <= self._done]
        first = next(iter(self._waiting), None)
        lows = [self._next if first is None else first * BLOCK]
        if self._journal is not None and (low := self._journal.low_offset()) is not None:
            lows.append(low)
        return TimerPositions(
            delivered_ms=self._done >> OFFSET_BITS,
            delivered_offset=self._done & OFFSETS if self._done >= 0 else -1,
            late=tuple(sorted(key & OFFSETS for key in late)),
            low_offset=max(self._floor, min(lows)),
            next_offset=self._next,
        )

    def copy_from(self, positions: TimerPositions) -> None:
        """Take over the positions of the master; for a slave, which delivers nothing itself."""
        self._copied = positions

    def progress(self, now_ms: int) -> TimerProgress:
        """The progress that RocketMQ sends to its slaves: timers before this time are delivered."""
        if not self.is_ready:
            return self._progress
        waiting = [*self._heap[:1], *self._under_way]
        # A message is due within the second that follows what is noted on it.
        first_ms = (min(waiting) >> OFFSET_BITS) - rules.STEP_MS if waiting else now_ms
        read_ms = max(0, min(first_ms, now_ms)) // rules.STEP_MS * rules.STEP_MS
        return TimerProgress(read_ms, self._next)

    def waiting_offsets(self) -> list[QueueOffset]:
        """Where the messages are that wait in memory, by time."""
        return [QueueOffset(key & OFFSETS) for key in sorted(self._heap)]

    def begin_at(self, offset: QueueOffset) -> None:
        """Everything that waits is at or after ``offset``, and is read there at the next start."""
        self._heap, self._done = [], -1
        self._waiting.clear()
        self._next = self._floor = offset

    def finish_reading(self, state: BrokerTables) -> None:
        """Read at once what was there at the start: pops must know what is in flight."""
        while not self.is_ready:
            before = self._next
            self._read(state)
            if self._next == before and not self.is_ready:
                return  # its units cannot be read now

    # Inside

    @property
    def is_ready(self) -> bool:
        return self._ready_at is not None and self._next >= self._ready_at

    def _read(self, state: BrokerTables) -> None:
        """Take messages that came to the topic into the heap."""
        stop = state.log.max_offset(TIMER_TOPIC, 0)
        was_ready = self.is_ready
        if self._ready_at is None:
            self._ready_at = stop
            self._next = QueueOffset(min(self._next, stop))
            if self._journal is not None:
                self._journal.read_revive_topic(state)
        self._next = max(self._next, state.log.min_offset(TIMER_TOPIC, 0))
        if self._journal is not None:
            self._next = self._journal.past_own(self._next, stop)
        left = READ_RECORDS
        while left and self._next < stop:
            if not (units := state.log.lookup.entries(TIMER_TOPIC, 0, self._next, left)):
                break
            for unit in units:
                if self._journal is None or not self._journal.is_own(self._next):
                    record = record_of(state, unit, TIMER_TOPIC, 0, self._next)
                    self._schedule_record(state, record, self._next)
                self._next = QueueOffset(self._next + 1)
            left -= len(units)
        if self.is_ready and not was_ready and self._journal is not None:
            self._journal.settle(state)

    def _schedule_record(
        self, state: BrokerTables, record: Record | None, offset: QueueOffset
    ) -> None:
        properties = {} if record is None else parse_properties(record.properties)
        noted = rules.noted_ms(properties)
        home = home_of(properties)
        if record is None or noted is None or noted < 0 or home is None:
            self._skip(offset, "cannot be read")
            return
        if is_journal(home.topic) and self._journal is not None:
            if not self._was_delivered_by_rocketmq(offset, noted):
                self._journal.take(state, record, properties, TIMER_SOURCE, offset)
            return
        target = properties.get(names.TIMER_DEL_UNIQKEY)
        due_ms = noted + rules.STEP_MS  # so that it outlives what it cancels
        if target is None:
            due_ms = rules.due_ms(properties, noted, record.store_ms)
        key = key_of(due_ms, offset)
        if self._was_delivered(key, offset, noted):
            return
        if target is not None:
            self._cancels[target] = offset
        heappush(self._heap, key)
        self.waiting_topics.come(properties.get(names.REAL_TOPIC, ""))
        block = offset // BLOCK
        self._waiting[block] = self._waiting.get(block, 0) + 1

    def _was_delivered(self, key: int, offset: QueueOffset, noted: int) -> bool:
        """Whether an earlier run delivered a message: ours, or one of RocketMQ."""
        if self._ready_at is None or offset >= self._ready_at:
            return False
        saved = self._saved
        if self._was_delivered_by_rocketmq(offset, noted):
            return True
        if saved is None or offset >= saved.next_offset or offset in self._late:
            return False
        return key <= key_of(saved.delivered_ms, saved.delivered_offset)

    def _was_delivered_by_rocketmq(self, offset: QueueOffset, noted: int) -> bool:
        return offset < self._progress.queue_offset and noted < self._progress.read_ms

    def _deliver_one(
        self, state: BrokerTables, key: int, sent: dict[str, list[int]], now_ms: int
    ) -> tuple[int, str]:
        """Append the message of a key, unless it is cancelled; its size, and where it wanted to."""
        offset = QueueOffset(key & OFFSETS)
        units = state.log.lookup.entries(TIMER_TOPIC, 0, offset, 1)
        record = record_of(state, units[0], TIMER_TOPIC, 0, offset) if units else None
        properties = {} if record is None else parse_properties(record.properties)
        home, topic = home_of(properties), properties.get(names.REAL_TOPIC, "")
        if record is None or home is None:
            self._skip(offset, "cannot be read any more")
            return 0, topic
        target = properties.get(names.TIMER_DEL_UNIQKEY)
        if target is not None:
            if self._cancels.get(target) == offset:
                del self._cancels[target]
            return 0, topic
        if self._cancels and rules.cancel_key(properties) in self._cancels:
            return 0, topic
        try:
            home = destination(state, home, now_ms)
        except Refusal as refusal:
            self.unreadable_count += 1
            self._undeliverable.log_first(home, f"queue offset {offset}", refusal)
            return 0, topic
        properties[names.TIMER_ENQUEUE_MS] = str(record.store_ms)
        properties[names.TIMER_DEQUEUE_MS] = str(now_ms)
        try:
            stored = append(state, rebuilt(record, properties, *home), now_ms)
        except (Refusal, InvalidName) as error:
            self._skip(offset, f"cannot be stored: {error}")
            return 0, topic
        counts = sent.setdefault(home.topic, [0, 0])
        counts[0] += 1
        counts[1] += stored.size_bytes
        return stored.size_bytes, topic

    def _settle(
        self,
        state: BrokerTables,
        sent: dict[str, list[int]],
        failure: DiskFailed | None,
        now_ms: int,
    ) -> None:
        keys, self._under_way = self._under_way, []
        topics, self._leaving = self._leaving, []
        if failure is not None:
            for key in keys:
                heappush(self._heap, key)
            self._note_failure(failure, now_ms)
            return
        self._is_failing = False
        self.waiting_topics.leave(topics, is_last=not self._heap)
        self._done = max(self._done, keys[-1])
        for key in keys:
            block = (key & OFFSETS) // BLOCK
            self._waiting[block] -= 1
            if not self._waiting[block]:
                del self._waiting[block]
        for topic, (count, size_bytes) in sent.items():
            self.delivered_count += count
            state.stats.sent(topic, count, size_bytes, now_ms)
            state.stats.counts.add_alike(topic, DELAY, count, size_bytes)
            state.stats.counts.timers_went(topic, count)
            state.stats.add(TIMER_DELIVERED_NUMS, TIMER_TOPIC, now_ms, count=count)

    def _skip(self, offset: QueueOffset, reason: str) -> None:
        self.unreadable_count += 1
        log.error("timer message at queue offset %d %s; it is skipped", offset, reason)

    def _note_failure(self, failure: Exception, now_ms: int) -> None:
        self._retry_ms = now_ms + RETRY_MS
        if not self._is_failing:
            self._is_failing = True
            log.error("timer messages wait until they can be stored: %s", failure)
