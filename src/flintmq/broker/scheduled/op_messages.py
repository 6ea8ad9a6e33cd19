"""The marks of half messages that ended: op messages, read ahead of the half messages.

An op message names one half message (4.9) or many (5.x), by their queue offsets.  It is done
with when all of them were passed; the position in the op topic moves over those that are,
without a gap, so that the marks of half messages still ahead are read again next time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flintmq.broker.scheduled.redelivery import record_of
from flintmq.broker.tables.broker_tables import BrokerTables
from flintmq.logs import logger
from flintmq.model import properties as names
from flintmq.model.queue import QueueOffset
from flintmq.model.topic import HALF_TOPIC, OP_HALF_TOPIC
from flintmq.protocol.records.properties import parse_properties

if TYPE_CHECKING:
    from flintmq.protocol.records.record import Record

log = logger(__name__)

OP_TAG = "d"
OP_SEPARATOR = ","
OFFSET_DIGITS_MAX = 18
"""A longer number is no queue offset."""

READ_RECORDS = 32
"""Op messages read at once."""


class EndMarks:
    """The marks found so far, from a position of the op topic on.

    ``first`` is the first half message that counts; ``before_it`` are offsets of earlier ones
    that count too.
    """

    def __init__(self, start: QueueOffset, first: QueueOffset, before_it: set[QueueOffset]) -> None:
        self.position = start
        """Every op message before it is done with."""
        self._read_to = start
        self._first = first
        self._before_it = before_it
        self._op_of: dict[QueueOffset, QueueOffset] = {}
        self._left: dict[QueueOffset, int] = {}
        self._done: set[QueueOffset] = set()

    def remove(self, half: QueueOffset) -> bool:
        """Whether a half message ended.  Asked again, it says no."""
        op = self._op_of.pop(half, None)
        if op is None:
            return False
        self._drop(op)
        return True

    def read(self, state: BrokerTables) -> int:
        """Read some more op messages; return how many there were."""
        lookup = state.log.lookup
        self._correct(state)
        units = lookup.entries(OP_HALF_TOPIC, 0, self._read_to, READ_RECORDS)
        stop = state.log.max_offset(HALF_TOPIC, 0)
        for unit in units:
            record = record_of(state, unit, OP_HALF_TOPIC, 0, self._read_to)
            if record is None:
                log.error("op message at queue offset %d cannot be read; skipped", self._read_to)
            self._add_op(self._read_to, () if record is None else self._ended_by(record, stop))
            self._read_to = QueueOffset(self._read_to + 1)
        self._advance()
        return len(units)

    def _correct(self, state: BrokerTables) -> None:
        start = state.log.min_offset(OP_HALF_TOPIC, 0)
        stop = state.log.max_offset(OP_HALF_TOPIC, 0)
        if not start <= self._read_to <= stop:
            log.error("position %d of the op messages is corrected", self._read_to)
            self._read_to = start if self._read_to < start else stop
            self.position = self._read_to

    def _ended_by(self, record: Record, stop: QueueOffset) -> set[QueueOffset]:
        """The half messages that an op message names and that are still to come."""
        properties = parse_properties(record.properties)
        if properties.get(names.TAGS) != OP_TAG:
            log.error("op message at queue offset %d has no tag we know", record.queue_offset)
            return set()
        ended = set()
        for text in record.body.split(OP_SEPARATOR.encode()):
            if text.isdigit() and len(text) <= OFFSET_DIGITS_MAX:
                half = QueueOffset(int(text))
                if self._first <= half < stop or half in self._before_it:
                    ended.add(half)
        return ended

    def _add_op(self, op: QueueOffset, ended: set[QueueOffset] | tuple[()]) -> None:
        for half in ended:
            before = self._op_of.get(half)
            self._op_of[half] = op
            self._left[op] = self._left.get(op, 0) + 1
            if before is not None:
                self._drop(before)
        if not ended:
            self._done.add(op)

    def _drop(self, op: QueueOffset) -> None:
        """One half message less that an op message still matters for."""
        self._left[op] -= 1
        if not self._left[op]:
            del self._left[op]
            self._done.add(op)
            self._advance()

    def _advance(self) -> None:
        while self.position in self._done:
            self._done.remove(self.position)
            self.position = QueueOffset(self.position + 1)
