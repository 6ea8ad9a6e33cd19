"""What a pop finds: queues read in turn from where the group is, until the batch is full.

    retry topics first, sometimes ─► the queues asked for ─► retry topics, if there is room

Nothing is handed out here.  Moved are only the offsets of groups that have none yet, that point
outside a queue, or that are before messages which the filter does not want.
"""

from __future__ import annotations

from typing import Final

import msgspec

from flintmq.broker.consume.pop_checks import PopPlace
from flintmq.broker.state.broker_state import BrokerState
from flintmq.errors import DiskFailed
from flintmq.kernel.layout import record_struct
from flintmq.model.queue import QueueOffset
from flintmq.protocol.bodies.topic import TopicConfig
from flintmq.protocol.headers.pop import PopMessage
from flintmq.protocol.pop.offset_texts import MarkedQueue
from flintmq.protocol.pop.retry_topics import mark_of, retry_topic_v1, retry_topic_v2
from flintmq.store.queues.queue_reader import GetStatus, ReadResult
from flintmq.store.queues.selection import Selection

FROM_START: Final = 0
FROM_END: Final = 1
"""``initMode`` of a group that starts at the end of a queue."""

PERCENT: Final = 100

_OUTSIDE = (
    GetStatus.OFFSET_TOO_SMALL,
    GetStatus.OFFSET_OVERFLOW_BADLY,
    GetStatus.OFFSET_FOUND_NULL,
)
_PASSED = (GetStatus.NO_MATCHED_MESSAGE, GetStatus.MESSAGE_WAS_REMOVING)
_SIZE_AND_OFFSET = record_struct("size", "queue_offset")


class FoundQueue(msgspec.Struct, gc=False):
    """Messages of one queue that a pop takes."""

    place: PopPlace
    """Of the queue itself: a retry topic where the messages come back."""
    start: QueueOffset
    offsets: list[int]
    result: ReadResult

    @property
    def marked(self) -> MarkedQueue:
        return MarkedQueue(mark_of(self.place.topic), self.place.queue_id)


class Gathering:
    """One pop on its way through the queues."""

    def __init__(
        self,
        header: PopMessage,
        state: BrokerState,
        topic: TopicConfig,
        wanted: Selection,
        now_ms: int,
    ) -> None:
        self._header = header
        self._state = state
        self._topic = topic
        self._wanted = wanted
        self._now_ms = now_ms
        self.found: list[FoundQueue] = []
        self.rest_count = 0
        """Messages that are left in the queues it looked at."""
        self._room = header.max_msg_nums

    def run(self) -> None:
        """Read everything."""
        header = self._header
        chance = self._state.pick(PERCENT)
        retries = [] if header.order else self._retry_topics(chance)
        retry_first = chance < self._state.config.pop.retry_first_percent
        if retry_first:
            self._read_retries(retries)
        count = self._topic.read_queue_nums
        if header.queue_id >= 0:
            self._read(header.topic, header.queue_id)
        else:
            for index in range(count):
                self._read(header.topic, (chance + index) % count)
        if not retry_first:
            self._read_retries(retries)

    def _retry_topics(self, chance: int) -> list[TopicConfig]:
        """Those that are there; any other one first each time."""
        names = self._header.consumer_group, self._header.topic
        both = [retry_topic_v1(*names), retry_topic_v2(*names)]
        if chance % 2:
            both.reverse()
        found = [self._state.topics.find(name) for name in both]
        return [topic for topic in found if topic is not None]

    def _read_retries(self, topics: list[TopicConfig]) -> None:
        """Clients tell the two kinds apart by a mark alone, so only one of them is handed out."""
        for topic in topics:
            before = len(self.found)
            for queue_id in range(topic.read_queue_nums):
                self._read(topic.topic_name, queue_id)
            if len(self.found) > before:
                return

    def _read(self, topic: str, queue_id: int) -> None:
        header, state = self._header, self._state
        place = PopPlace(topic, header.consumer_group, queue_id)
        start = position(state, place, header.init_mode)
        if header.order and state.ordered.is_blocked(place, header.attempt_id, self._now_ms):
            return
        last = state.log.max_offset(topic, queue_id)
        if self._room <= 0:
            self.rest_count += max(0, last - start)
            return
        result = self._read_from(place, start)
        if result.status in _OUTSIDE:
            _commit(state, place, result.next_offset)
            start = result.next_offset
            result = self._read_from(place, start)
        if result.status is GetStatus.FOUND:
            offsets = offsets_of(result)
            self._room -= len(offsets)
            self.found.append(FoundQueue(place, start, offsets, result))
        elif result.status in _PASSED and result.next_offset > start:
            move_offset(state, place, result.next_offset)
        self.rest_count += max(0, result.max_offset - result.next_offset)

    def _read_from(self, place: PopPlace, start: QueueOffset) -> ReadResult:
        return self._state.log.read(
            place.topic, place.queue_id, start, self._room, wanted=self._wanted
        )


def position(state: BrokerState, place: PopPlace, init_mode: int) -> QueueOffset:
    """Where the next pop of a queue begins.  A group without an offset gets one."""
    topic, group, queue_id = place
    offsets = state.offsets
    if state.config.server_side_reset:
        reset = offsets.take_reset(group, topic, queue_id)
        if reset is not None:
            state.ordered.forget(place)
            return reset
    offset = offsets.query(group, topic, queue_id)
    if offset is None:
        offset = first_position(state, place, init_mode)
        _commit(state, place, offset)
    handed_out = state.in_flight.handed_out(place)
    return offset if handed_out is None else QueueOffset(max(offset, handed_out))


def first_position(state: BrokerState, place: PopPlace, init_mode: int) -> QueueOffset:
    """Where a group begins: at the oldest message, or with the last one of a queue that is old."""
    first = state.log.min_offset(place.topic, place.queue_id)
    if init_mode != FROM_END or place.marked_as_retry:
        return first
    young = QueueOffset(0)
    if first <= 0 and not state.log.lookup.is_old(place.topic, place.queue_id, young):
        return young
    return QueueOffset(max(0, state.log.max_offset(place.topic, place.queue_id) - 1))


def move_offset(state: BrokerState, place: PopPlace, next_offset: int) -> None:
    """The group is at ``next_offset`` as soon as what was appended so far is written."""
    in_flight, before = (
        state.in_flight,
        state.offsets.query(place.group, place.topic, place.queue_id),
    )
    in_flight.hand_out(place, next_offset)

    def written(failure: DiskFailed | None) -> None:
        in_flight.settle(place, next_offset)
        if failure is None and (before is None or next_offset > before):
            _commit(state, place, next_offset)

    state.after_write.append(written)


def _commit(state: BrokerState, place: PopPlace, offset: int) -> None:
    topic, group, queue_id = place
    if not state.offsets.has_reset(group, topic, queue_id):
        state.offsets.commit(group, topic, queue_id, offset, "a pop")


def offsets_of(result: ReadResult) -> list[int]:
    """The queue offset of each record that was read."""
    offsets = []
    for view in result.views:
        at = 0
        while at < len(view):
            size_bytes, offset = _SIZE_AND_OFFSET.unpack_from(view, at)
            offsets.append(offset)
            at += size_bytes
    return offsets
