"""What can be seen of a broker from inside: messages, lag, and what waits for its time.

Nothing of it is asked over a socket, so it is true at once, and while requests are kept waiting.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from flintmq.broker.state.broker_state import BrokerState
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset
from flintmq.model.topic import SCHEDULE_TOPIC
from flintmq.protocol.records.received import decode_messages
from flintmq.protocol.records.sift import as_stored
from flintmq.store.queues.queue_reader import GetStatus

READ_COUNT = 1_024
"""Messages read at once."""


def messages_of(state: BrokerState, topic: str) -> Iterator[ReceivedMessage]:
    """Every message of a topic, queue by queue; one that cannot be decoded as it is stored."""
    for queue in state.log.queues():
        if queue.topic == topic:
            yield from _read(state, topic, queue.queue_id)


def _read(state: BrokerState, topic: str, queue_id: int) -> Iterator[ReceivedMessage]:
    offset, stop = state.log.min_offset(topic, queue_id), state.log.max_offset(topic, queue_id)
    while offset < stop:
        found = state.log.read(topic, queue_id, offset, READ_COUNT)
        if found.status is GetStatus.FOUND:
            records = b"".join(found.views)
            received = decode_messages(records, broker=state.config.broker_name, queue_id=queue_id)
            stored = map(as_stored, received.bad)
            yield from sorted((*received.messages, *stored), key=attrgetter("queue_offset"))
        if found.next_offset <= offset:
            return
        offset = found.next_offset


def lag_of(state: BrokerState, group: str, topic: str | None) -> int:
    """Messages a group has yet to consume, in one topic or in all it has offsets in."""
    topics = state.offsets.topics_of(group) if topic is None else [topic]
    lag = 0
    for name in topics:
        found = state.topics.find(name)
        for queue_id in range(0 if found is None else found.read_queue_nums):
            offset = state.offsets.query(group, name, queue_id) or QueueOffset(0)
            lag += max(0, state.log.max_offset(name, queue_id) - offset)
    return lag


def delayed_in(state: BrokerState) -> int:
    """Messages that wait for a delay level or for a time."""
    reached = state.delays.table().offset_table
    waiting = state.timers.waiting_count(state)
    for queue in state.log.queues():
        if queue.topic == SCHEDULE_TOPIC:
            waiting += max(0, queue.stop - reached.get(queue.queue_id + 1, 0))
    return waiting
