"""OFFSET_MOVED_EVENT: a record of every pull from an offset that is none.

4.9 writes one for each answer 21, and tools read them; 5.x no longer does.  The event is a
report about the pull, not part of it: when it cannot be stored, the pull is answered all the same.
"""

from __future__ import annotations

from flintmq.broker.requests.outcome import Refusal
from flintmq.broker.scheduled.append import NewMessage, append
from flintmq.broker.state.broker_state import BrokerState
from flintmq.errors import FlintError
from flintmq.logs import logger
from flintmq.model import properties as names
from flintmq.model.queue import QueueRef
from flintmq.model.topic import OFFSET_MOVED_TOPIC
from flintmq.protocol.bodies.offset import OffsetMovedEvent
from flintmq.protocol.headers.pull import PullMessage

log = logger(__name__)


def note_moved(state: BrokerState, header: PullMessage, offset_new: int, now_ms: int) -> None:
    """Record that a group is sent from the offset it asked for to another one."""
    group = header.consumer_group
    log.info(
        "%s in %s queue %d: offset %d becomes %d",
        group, header.topic, header.queue_id, header.queue_offset, offset_new,
    )  # fmt: skip
    event = OffsetMovedEvent(
        consumer_group=group,
        message_queue=QueueRef(header.topic, state.config.broker_name, header.queue_id),
        offset_new=offset_new,
        offset_request=header.queue_offset,
    )
    message = NewMessage(
        topic=OFFSET_MOVED_TOPIC,
        queue_id=0,
        body=event.to_body(),
        properties={names.TAGS: group, names.DELAY: "0", names.KEYS: group},
        born_ms=now_ms,
        born_host=state.host,
        store_host=state.host,
    )
    try:
        append(state, message, now_ms)
    except (Refusal, FlintError) as error:
        log.warning("the moved offset of %s in %s is not told: %s", group, header.topic, error)
