"""The journal of pops: what the log says of messages in flight, written and read again.

    pop, change of invisible time ─► checkpoint ─┐
    acknowledgement, message is back ─► ack ─────┼─► timer topic ── at the start ──► in flight
    ordered pop, ack, change ─► order record ────┘

The records are those of 5.3.3 on their way to the revive topic: they wait in the timer topic, so
that a RocketMQ broker that takes the directory over delivers them when their time has come.  Here
they are never delivered.  They are read again at the start, from the first checkpoint that is
needed, and joined whatever their order is; so are those in the revive topic that a RocketMQ broker
has not worked off.

A checkpoint that hands out messages also tells how far the group is.  Groups' offsets are saved
every few seconds; what was handed out since then is taken from here, so a crash neither loses
messages nor brings back those that were acknowledged.  A checkpoint that only hides a message
again has the flag `HIDES` in its record, which RocketMQ does not look at.

Invariant: in flight is what checkpoints at or after the saved low offset name, without what
acknowledgements name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from flintmq.broker.pops.in_flight import TIMER_SOURCE, InFlight, InFlightPop
from flintmq.broker.pops.ordered_queues import OrderedQueue, OrderedQueues
from flintmq.broker.scheduled import timer_rules
from flintmq.broker.scheduled.append import NewMessage, append
from flintmq.broker.scheduled.redelivery import record_of
from flintmq.broker.tables.broker_tables import BrokerTables
from flintmq.errors import DiskFailed, MalformedBody
from flintmq.logs import logger
from flintmq.model import properties as names
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.model.topic import TIMER_TOPIC
from flintmq.protocol.bodies.group import GroupConfig
from flintmq.protocol.pop.journal import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CHECKPOINT_EARLY_MS,
    CHECKPOINT_TAG,
    REVIVE_GROUP,
    REVIVE_TOPIC_PREFIX,
    AckRecord,
    CheckpointRecord,
    PopKey,
    ack_of,
    checkpoint_of,
    revive_topic,
)
from flintmq.protocol.pop.order_bodies import ORDER_TAG, OrderedPop, OrderRecord
from flintmq.protocol.records.properties import parse_properties

if TYPE_CHECKING:
    from flintmq.protocol.records.record import Record
    from flintmq.store.message_log import Appended

log = logger(__name__)

HIDES: Final = 1
"""The flag of a checkpoint that hands nothing out."""

READ_RECORDS: Final = 1_000
"""Records of the revive topic that are read at once."""


class PopJournal:
    """Writes the journal, and reads it at the start.

    What is before ``saved_to`` in the timer topic is in the saved offsets already.
    """

    def __init__(self, in_flight: InFlight, ordered: OrderedQueues, saved_to: int = 0) -> None:
        self._in_flight = in_flight
        self._ordered = ordered
        self._saved_to = saved_to
        self._early: dict[PopKey, set[int]] = {}  # acknowledgements before their checkpoints
        self._own: set[int] = set()
        self._is_read = False
        self.stop = LogOffset(0)
        """Where the last record of the journal ends in the log."""

    # Writing

    def write_checkpoint(
        self,
        state: BrokerTables,
        key: PopKey,
        offsets: Sequence[int],
        invisible_ms: int,
        revive_queue_id: int,
        now_ms: int,
        *,
        hides: bool = False,
    ) -> InFlightPop:
        """Messages are in flight from now on; the caller removes them if the write fails."""
        checkpoint = checkpoint_of(key, offsets, invisible_ms)
        appended = self._write(
            state,
            checkpoint.to_body(),
            CHECKPOINT_TAG,
            checkpoint.unique_key,
            checkpoint.due_ms - CHECKPOINT_EARLY_MS,
            revive_queue_id,
            now_ms,
            flag=HIDES if hides else 0,
        )
        pop = InFlightPop(
            key,
            tuple(offsets),
            invisible_ms,
            revive_queue_id,
            TIMER_SOURCE,
            appended.queue_offset,
        )
        self._in_flight.add(pop)
        return pop

    def write_ack(
        self, state: BrokerTables, pop: InFlightPop, offsets: Iterable[int], now_ms: int
    ) -> None:
        """Messages of a pop are done with."""
        ack = ack_of(pop.key, offsets)
        self._write(
            state, ack.to_body(), ack.tag, ack.unique_key, pop.due_ms, pop.revive_queue_id, now_ms
        )

    def hand_over(self, state: BrokerTables, now_ms: int) -> None:
        """Write what is in flight once more, each pop in one record with its acknowledgements.

        A RocketMQ broker that takes the directory over then needs none of the earlier records.
        """
        moved: list[tuple[InFlightPop, int]] = []
        for pop in self._in_flight:
            checkpoint = checkpoint_of(pop.key, pop.offsets, pop.invisible_ms, acked=pop.acked)
            appended = self._write(
                state,
                checkpoint.to_body(),
                CHECKPOINT_TAG,
                checkpoint.unique_key,
                checkpoint.due_ms - CHECKPOINT_EARLY_MS,
                pop.revive_queue_id,
                now_ms,
                flag=HIDES,
            )
            moved.append((pop, appended.queue_offset))

        def written(failure: DiskFailed | None) -> None:
            if failure is None:
                for pop, offset in moved:
                    self._in_flight.remove(pop)
                    pop.source, pop.journal_offset = TIMER_SOURCE, offset
                    self._in_flight.add(pop)
                self.settle(state)

        state.after_write.append(written)

    def write_off(self, state: BrokerTables, pops: Iterable[InFlightPop], now_ms: int) -> None:
        """The topic or the group of these pops is gone: nothing of them comes back."""
        for pop in pops:
            self.write_ack(state, pop, pop.unacked, now_ms)
            self._in_flight.remove(pop)

    def write_order(
        self, state: BrokerTables, queue: OrderedQueue, pop: OrderedPop, offset: int, now_ms: int
    ) -> None:
        """An ordered queue and the group's offset there have become this."""
        topic, group, queue_id = queue
        record = OrderRecord(group=group, pop=pop, offset=offset, queue_id=queue_id, topic=topic)
        self._write(state, record.to_body(), ORDER_TAG, record.unique_key, now_ms, 0, now_ms)

    def _write(
        self,
        state: BrokerTables,
        body: bytes,
        tag: str,
        unique_key: str,
        due_ms: int,
        revive_queue_id: int,
        now_ms: int,
        flag: int = 0,
    ) -> Appended:
        properties = {
            names.TAGS: tag,
            names.UNIQ_KEY: unique_key,
            names.TIMER_DELIVER_MS: str(due_ms),
            names.TIMER_OUT_MS: str(timer_rules.out_ms(due_ms)),
            names.REAL_TOPIC: revive_topic(state.config.cluster),
            names.REAL_QUEUE_ID: str(revive_queue_id),
        }
        host = state.host
        message = NewMessage(TIMER_TOPIC, 0, body, properties, now_ms, host, host, flag)
        appended = append(state, message, now_ms)
        self.stop = LogOffset(appended.log_offset + appended.size_bytes)
        offset = appended.queue_offset
        self._own.add(offset)

        def written(failure: DiskFailed | None) -> None:
            if failure is not None:
                self._own.discard(offset)

        state.after_write.append(written)
        return appended

    # Reading

    def is_own(self, offset: int) -> bool:
        """Whether the record at an offset of the timer topic was written here; asked once."""
        if offset in self._own:
            self._own.discard(offset)
            return True
        return False

    def past_own(self, offset: QueueOffset, stop: int) -> QueueOffset:
        """The first offset from here on whose record was not written here; asked once."""
        own = self._own
        while offset in own and offset < stop:
            own.discard(offset)
            offset = QueueOffset(offset + 1)
        return offset

    def read_revive_topic(self, state: BrokerTables) -> None:
        """Take what a RocketMQ broker left in the revive topic."""
        if self._is_read:
            return
        self._is_read = True
        name = revive_topic(state.config.cluster)
        topic = state.topics.find(name)
        for queue_id in range(topic.read_queue_nums if topic is not None else 0):
            done = state.offsets.queues(REVIVE_GROUP, name).get(queue_id, -1)
            at = QueueOffset(max(done + 1, state.log.min_offset(name, queue_id)))
            while units := state.log.lookup.entries(name, queue_id, at, READ_RECORDS):
                for unit in units:
                    record = record_of(state, unit, name, queue_id, at)
                    if record is not None:
                        properties = parse_properties(record.properties)
                        self.take(state, record, properties, queue_id, at)
                    at = QueueOffset(at + 1)

    def take(
        self,
        state: BrokerTables,
        record: Record,
        properties: dict[str, str],
        source: int,
        offset: int,
    ) -> None:
        """Read one record of the journal."""
        tag = properties.get(names.TAGS)
        try:
            if tag == CHECKPOINT_TAG:
                checkpoint = CheckpointRecord.from_body(record.body)
                self._take_checkpoint(state, checkpoint, record, properties, source, offset)
            elif tag in (ACK_TAG, BATCH_ACK_TAG):
                ack = AckRecord.from_body(record.body)
                if ack.key in self._in_flight:
                    self._in_flight.ack(ack.key, ack.acked_offsets())
                else:
                    self._early.setdefault(ack.key, set()).update(ack.acked_offsets())
            elif tag == ORDER_TAG and offset >= self._saved_to:
                self._take_order(state, OrderRecord.from_body(record.body), record.store_ms)
        except MalformedBody as error:
            log.error("a record of the pop journal at %d is skipped: %s", offset, error)  # noqa: TRY400

    def settle(self, state: BrokerTables) -> None:
        """All was read: forget what belongs to nothing, and work on with the rest."""
        self._early.clear()
        name = revive_topic(state.config.cluster)
        topic = state.topics.find(name)
        for queue_id in range(topic.read_queue_nums if topic is not None else 0):
            self._commit_revive_queue(state, name, queue_id)

    def low_offset(self) -> int | None:
        """Where the records of the timer topic begin that the next start needs."""
        return self._in_flight.low_offset(TIMER_SOURCE)

    def _commit_revive_queue(self, state: BrokerTables, name: str, queue_id: int) -> None:
        """RocketMQ's offset there is the last record that is done with."""
        stop = state.log.max_offset(name, queue_id)
        low = self._in_flight.low_offset(queue_id)
        done = (stop if low is None else min(low, stop)) - 1
        known = state.offsets.queues(REVIVE_GROUP, name).get(queue_id, -1)
        if done > known:
            state.offsets.commit(REVIVE_GROUP, name, queue_id, done, "the pop journal")

    def _take_checkpoint(
        self,
        state: BrokerTables,
        checkpoint: CheckpointRecord,
        record: Record,
        properties: dict[str, str],
        source: int,
        offset: int,
    ) -> None:
        offsets, key = checkpoint.offsets, checkpoint.key
        if not offsets or key.topic not in state.topics:
            return
        self._need_group(state, key.group, record.store_ms)
        if source == TIMER_SOURCE and offset >= self._saved_to and record.flag != HIDES:
            self._raise_offset(state, key, offsets[-1] + 1)
        if key in self._in_flight:
            return
        pop = InFlightPop(
            key,
            tuple(offsets),
            checkpoint.invisible_ms,
            _queue_id(properties) if source == TIMER_SOURCE else source,
            source,
            offset,
        )
        self._in_flight.add(pop)
        acked = set(offsets).difference(checkpoint.unacked_offsets)
        self._in_flight.ack(key, acked | self._early.pop(key, set()))

    def _need_group(self, state: BrokerTables, group: str, now_ms: int) -> None:
        """A crash may have lost a group that is saved a moment after it was made."""
        if group not in state.groups:
            log.warning("%a has pops in the log and no settings: made again", group)
            state.groups.create_or_replace(GroupConfig(group_name=group), now_ms)

    def _raise_offset(self, state: BrokerTables, key: PopKey, next_offset: int) -> None:
        """What was handed out after the offsets were saved is handed out still."""
        within = min(next_offset, state.log.max_offset(key.topic, key.queue_id))
        known = state.offsets.query(key.group, key.topic, key.queue_id)
        if known is None or known < within:
            state.offsets.commit(key.group, key.topic, key.queue_id, within, "the pop journal")

    def _take_order(self, state: BrokerTables, record: OrderRecord, store_ms: int) -> None:
        if record.topic not in state.topics or not record.pop.distances:
            return
        self._need_group(state, record.group, store_ms)
        self._ordered.put((record.topic, record.group, record.queue_id), record.pop)
        within = min(record.offset, state.log.max_offset(record.topic, record.queue_id))
        place = record.group, record.topic, record.queue_id
        state.offsets.commit(*place, within, "the pop journal")


def is_journal(topic: str) -> bool:
    """Whether a message that waits for this topic belongs to the journal."""
    return topic.startswith(REVIVE_TOPIC_PREFIX)


def _queue_id(properties: dict[str, str]) -> int:
    text = properties.get(names.REAL_QUEUE_ID, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else 0
