"""Messages that wait in a system topic, on their way to where they were sent.

A message that waits is a record of the schedule, timer or half topic that names its real topic
and queue among its properties.  It is stored once more, there, with everything else as it was;
the properties that brought it here stay on it, as RocketMQ leaves them.

A record is believed only when it says itself which queue and offset it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from flintmq.broker.scheduled.append import NewMessage
from flintmq.broker.tables.broker_tables import BrokerTables
from flintmq.model import properties as names
from flintmq.model.queue import LogOffset
from flintmq.model.topic import CHECK_MAX_TOPIC, HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from flintmq.protocol.records.properties import parse_properties
from flintmq.protocol.records.record import Record

if TYPE_CHECKING:
    from flintmq.model.queue import QueueOffset
    from flintmq.store.record_lookup import LoggedUnit

WAITING_TOPICS = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, CHECK_MAX_TOPIC})
"""Where messages wait.  Nobody but the broker writes there."""

RETRY_MS = 100
"""When something is tried again that the store refused."""

TURN_RECORDS_MAX = 1_000
"""Messages that one turn brings back: some 20 ms of work, so that requests are not held up."""

TURN_BYTES_MAX = 8 * 1024 * 1024
"""Their bytes."""

QUEUE_ID_DIGITS_MAX = 9
"""A longer queue id is none."""


class Allowance:
    """What is left of the work of one turn."""

    __slots__ = ("_bytes_left", "_records_left")

    def __init__(self, records: int = TURN_RECORDS_MAX, size_bytes: int = TURN_BYTES_MAX) -> None:
        self._records_left = records
        self._bytes_left = size_bytes

    def spend(self, size_bytes: int = 0) -> None:
        """One record more; a single one may be larger than what is left."""
        self._records_left -= 1
        self._bytes_left -= size_bytes

    @property
    def is_spent(self) -> bool:
        return self._records_left <= 0 or self._bytes_left <= 0


class Home(NamedTuple):
    """Where a message that waits belongs."""

    topic: str
    queue_id: int


def home_of(properties: dict[str, str]) -> Home | None:
    """The real topic and queue of a message that waits; nothing when it does not say them."""
    topic = properties.get(names.REAL_TOPIC)
    queue_id = properties.get(names.REAL_QUEUE_ID, "")
    if not topic or not (queue_id.isascii() and queue_id.isdigit()):
        return None
    return Home(topic, int(queue_id)) if len(queue_id) <= QUEUE_ID_DIGITS_MAX else None


def topic_at(state: BrokerTables, log_offset: int) -> str | None:
    """The topic that the record at a log offset belongs to; None where there is no record.

    A message that waits belongs to the topic it was sent to.  What any other message says of a real
    topic counts for nothing: its sender wrote it.
    """
    record = state.log.lookup.record_at(LogOffset(log_offset))
    if record is None:
        return None
    if record.topic in WAITING_TOPICS:
        home = home_of(parse_properties(record.properties))
        return record.topic if home is None else home.topic
    return record.topic


def record_of(
    state: BrokerTables, unit: LoggedUnit, topic: str, queue_id: int, offset: QueueOffset
) -> Record | None:
    """The record of a unit; nothing when there is none that is this one."""
    record = state.log.lookup.record_at(unit.log_offset)
    if (
        record is None
        or record.queue_offset != offset
        or record.queue_id != queue_id
        or record.topic != topic
    ):
        return None
    return record


def is_in_queue(state: BrokerTables, record: Record) -> bool:
    """Whether the queue of a record has it where it says.

    A place in the log comes from a peer, which may name the inside of a body it sent: whatever
    stands there is no record of a queue.
    """
    units = state.log.lookup.entries(record.topic, record.queue_id, record.queue_offset, 1)
    return bool(units) and units[0].log_offset == record.log_offset


def rebuilt(record: Record, properties: dict[str, str], topic: str, queue_id: int) -> NewMessage:
    """The message of a record, for another queue."""
    return NewMessage(
        topic,
        queue_id,
        record.body,
        properties,
        record.born_ms,
        record.born_host,
        record.store_host,
        record.flag,
        record.sys_flag,
        record.reconsume_times,
    )


def waits_until(retry_ms: int, now_ms: int) -> int | None:
    """When a retry is due that was set before, or nothing when it is; the clock may have moved."""
    return retry_ms if now_ms < retry_ms <= now_ms + RETRY_MS else None
