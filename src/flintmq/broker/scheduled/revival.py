"""Messages that were popped and not acknowledged in time come back, through a retry topic.

Each is copied to the retry topic of its group and topic, delivered once more; one that failed
there goes to the same retry topic again.  In the same turn the copy is written and the journal
says that the message is done with, so a crash brings back both or neither.

Passed over, and counted: messages of topics and groups that are gone, and those that retention
has deleted.
"""

from __future__ import annotations

from typing import Final

from flintmq.broker.pops.in_flight import InFlight, InFlightPop
from flintmq.broker.requests.outcome import Refusal
from flintmq.broker.scheduled.append import append
from flintmq.broker.scheduled.pop_journal import PopJournal
from flintmq.broker.scheduled.redelivery import RETRY_MS, Allowance, rebuilt, record_of
from flintmq.broker.tables.broker_tables import BrokerTables
from flintmq.errors import BodyTooLarge, DiskFailed, Overloaded
from flintmq.kernel.layout import V6_BITS
from flintmq.logs import logger
from flintmq.model import properties as names
from flintmq.model.group import is_retry_topic
from flintmq.model.queue import QueueOffset
from flintmq.protocol.pop.retry_topics import retry_topic_v1, retry_topic_v2
from flintmq.protocol.records.properties import parse_properties

log = logger(__name__)

RETRY_QUEUES: Final = 1
"""Queues of a retry topic of pops, as in RocketMQ."""

AGAIN_MS: Final = 1_000
"""When a message comes back that could not be stored."""


class Revival:
    """Brings back what is due."""

    def __init__(self, in_flight: InFlight, journal: PopJournal) -> None:
        self._in_flight = in_flight
        self._journal = journal
        self._is_failing = False
        self.gone_count = 0
        """Messages that could not come back."""

    def run(self, state: BrokerTables, now_ms: int) -> None:
        """Append what is due, some of it at a time."""
        allowance = Allowance()
        while not allowance.is_spent:
            pop = self._in_flight.due(now_ms)
            if pop is None:
                return
            self._in_flight.take_due()
            try:
                self._bring_back(state, pop, allowance, now_ms)
            except (DiskFailed, Overloaded, BodyTooLarge, Refusal) as failure:
                self._put_off(pop, failure, now_ms)
                return

    def next_due_ms(self) -> int | None:
        return self._in_flight.next_due_ms()

    def _bring_back(
        self, state: BrokerTables, pop: InFlightPop, allowance: Allowance, now_ms: int
    ) -> None:
        key, offsets = pop.key, pop.unacked
        if key.topic not in state.topics or key.group not in state.groups:
            self.gone_count += len(offsets)
            self._in_flight.remove(pop)
            return
        copied = 0
        for offset in offsets:
            size_bytes = self._copy(state, pop, offset, now_ms)
            copied += size_bytes > 0
            allowance.spend(size_bytes)
        self._journal.write_ack(state, pop, offsets, now_ms)

        def written(failure: DiskFailed | None) -> None:
            if failure is None:
                self._is_failing = False
                self._in_flight.remove(pop)
                self._in_flight.revived_count += copied
            else:
                self._put_off(pop, failure, now_ms)

        state.after_write.append(written)

    def _copy(self, state: BrokerTables, pop: InFlightPop, offset: QueueOffset, now_ms: int) -> int:
        """Append a message to its retry topic; the size of its record, 0 when it is gone."""
        key = pop.key
        units = state.log.lookup.entries(key.topic, key.queue_id, offset, 1)
        record = record_of(state, units[0], key.topic, key.queue_id, offset) if units else None
        if record is None:
            self.gone_count += 1
            log.warning(
                "the message at offset %d of %s, queue %d, is gone: it does not come back to %s",
                offset, key.topic, key.queue_id, key.group,
            )  # fmt: skip
            return 0
        properties = parse_properties(record.properties)
        if record.reconsume_times == 0 or names.FIRST_POP_TIME not in properties:
            properties[names.FIRST_POP_TIME] = str(key.pop_ms)
        target = self._target(state, key.topic, key.group, now_ms)
        message = rebuilt(record, properties, target, 0)
        message.born_host = message.store_host = state.host
        message.sys_flag &= ~V6_BITS
        message.reconsume_times += 1
        return append(state, message, now_ms).size_bytes

    def _target(self, state: BrokerTables, topic: str, group: str, now_ms: int) -> str:
        """The retry topic of a message, made when it is not there."""
        if is_retry_topic(topic):
            name = topic
        elif state.config.pop.retry_topic_v2:
            name = retry_topic_v2(group, topic)
        else:
            name = retry_topic_v1(group, topic)
        if name not in state.topics:
            state.topics.ensure(name, RETRY_QUEUES, now_ms)
        if state.offsets.query(group, name, 0) is None:
            state.offsets.commit(group, name, 0, 0, "a message that comes back")
        return name

    def _put_off(self, pop: InFlightPop, failure: Exception, now_ms: int) -> None:
        self._in_flight.put_off(pop, now_ms + (RETRY_MS if not self._is_failing else AGAIN_MS))
        if not self._is_failing:
            self._is_failing = True
            log.error("popped messages come back when they can be stored: %s", failure)
