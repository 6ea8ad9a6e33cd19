"""Where a record may be written on behalf of a peer: the one rule for what does not come by a send.

A delayed, timer or half message names its topic and queue among its properties.  They were
checked when it was sent, but the topic may have changed since, and a directory may hold records
whose properties a peer wrote itself.  So they are checked again before the message is written:

    a topic that only the broker writes, or no good name    refused, as a send to it is
    a topic that is not there                               made if a send would make it
    a queue the topic does not have                         another queue of the topic
    a topic without queues                                  refused

A commit that is refused is answered so, and the half message stays.  A delayed or timer message
that is refused is passed over: it is counted, and every destination is logged once.

Invariant: nothing is written to a topic that producers may not write, nor to a queue that its
topic does not have.
"""

from __future__ import annotations

from flintmq.broker.requests.outcome import Refusal
from flintmq.broker.scheduled.redelivery import Home
from flintmq.broker.tables.broker_tables import BrokerTables
from flintmq.broker.tables.names import has_queue, name_fault
from flintmq.logs import logger
from flintmq.model.group import is_retry_topic
from flintmq.protocol.codes import ResponseCode

log = logger(__name__)

RETRY_QUEUES = 1
"""Queues of a retry topic that a message in wait makes again, as RocketMQ's default is."""

LOGGED_MAX = 100
"""Destinations that are logged; a peer may have invented any number of them."""

SHOWN_CHARACTERS = 150
"""Of a topic in the log: every good name, and the beginning of others."""


def destination(state: BrokerTables, home: Home, now_ms: int) -> Home:
    """The queue a message that waited is written to.  Raises `Refusal` when there is none.

    A topic that the broker has may have a name no send could give it: ``%RETRY%`` and a long
    group.
    """
    name, queue_id = home
    topic = state.topics.find(name)
    fault = name_fault(name)
    if fault is not None and (topic is None or fault[0] == ResponseCode.NO_PERMISSION):
        raise Refusal(*fault)
    if topic is None:
        queue_count = RETRY_QUEUES if is_retry_topic(name) else None
        topic = state.topics.create_by_send(name, None, queue_count, now_ms)
    if topic is None:
        raise Refusal(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist")
    if has_queue(topic, queue_id):
        return home
    if topic.write_queue_nums <= 0:
        raise Refusal(ResponseCode.INVALID_PARAMETER, f"topic[{name}] has no queues")
    return Home(name, queue_id % topic.write_queue_nums)


class Undeliverable:
    """The log of messages in wait that have nowhere to go.  ``kind`` says which ones."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._logged: set[str] = set()

    def log_first(self, home: Home, where: str, refusal: Refusal) -> None:
        """One more, at the place ``where``; logged if it is the first for its topic."""
        if home.topic in self._logged or len(self._logged) >= LOGGED_MAX:
            return
        self._logged.add(home.topic)
        log.warning(
            "the %s message at %s is not delivered to %a, queue %d: %a; "
            "others for this topic are only counted",
            self._kind, where, home.topic[:SHOWN_CHARACTERS], home.queue_id,
            refusal.remark[:SHOWN_CHARACTERS],
        )  # fmt: skip
