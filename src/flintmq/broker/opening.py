"""From a directory to the state of a broker that can serve.

A topic is saved when it is made, but its first messages do not wait for that.  So a crash may
leave messages of a topic that no table knows: such a topic is made again, with the queues it
has.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from msgspec.structs import replace as replace_fields

from flintmq.broker.attributes import keeps_batches
from flintmq.broker.clients import Clients
from flintmq.broker.config import BrokerConfig
from flintmq.broker.delays import DelaySchedule
from flintmq.broker.filters import ConsumerFilters
from flintmq.broker.groups import Groups
from flintmq.broker.half_messages import HalfMessages
from flintmq.broker.held_pulls import HeldPulls
from flintmq.broker.offsets import Offsets
from flintmq.broker.own_ids import OwnIds
from flintmq.broker.queue_locks import QueueLocks
from flintmq.broker.state import BrokerState
from flintmq.broker.stats import Stats
from flintmq.broker.timers import Timers
from flintmq.broker.topics import Topics
from flintmq.model.host import Host
from flintmq.store.disk import Disk
from flintmq.store.message_log import MessageLog
from flintmq.store.queue_kinds import BATCH_QUEUE, QUEUE_TYPE
from flintmq.store.queues import LIGHT_QUEUE_PREFIX
from flintmq.store.tables import Tables

log = logging.getLogger(__name__)


def open_state(
    directory: Path,
    config: BrokerConfig,
    address: str,
    host: Host,
    *,
    pick: Callable[[int], int],
    now_ms: int,
    disk: Disk | None = None,
) -> tuple[BrokerState, Tables]:
    """Open or make a store directory, with its log and its tables."""
    disk = disk or Disk()
    process_id = disk.process_id()
    messages = MessageLog.open(directory, config.store, process_id=process_id, disk=disk)
    try:
        config = replace(config, store=messages.config)
        tables = Tables(disk, directory)
        state = BrokerState(
            config=config,
            address=address,
            host=host,
            log=messages,
            topics=Topics(config, tables.topics.load(), now_ms),
            groups=Groups(config, tables.groups.load(), now_ms),
            offsets=Offsets(tables.consumer_offsets.load()),
            clients=Clients(config),
            locks=QueueLocks(config.lock_ms),
            filters=ConsumerFilters(tables.filters.load(), now_ms),
            held=HeldPulls(messages),
            delays=DelaySchedule(tables.delay_offsets.load()),
            timers=Timers(tables.timers.load(), messages.timer_progress()),
            halves=HalfMessages(),
            stats=Stats(now_ms, config.cluster),
            pick=pick,
            started_ms=now_ms,
            own_ids=OwnIds(host, process_id, now_ms),
        )
        _adopt_topics(state, now_ms)
    except BaseException:
        messages.close()
        raise
    return state, tables


def _adopt_topics(state: BrokerState, now_ms: int) -> None:
    """Make the topics again that have messages, or were to keep batches, and no settings."""
    found = {topic: 1 for topic in state.log.batched if topic not in state.topics}
    for queue in state.log.queues():
        if queue.topic not in state.topics and queue.start < queue.stop:
            found[queue.topic] = max(found.get(queue.topic, 0), queue.queue_id + 1)
    for topic, queue_count in found.items():
        if not topic.startswith(LIGHT_QUEUE_PREFIX):
            log.warning("%s had no settings: made again with %d queues", topic, queue_count)
            state.topics.ensure(topic, queue_count, now_ms)
    for topic in state.log.batched:
        made = state.topics.find(topic)
        if made is not None and not keeps_batches(made.attributes):
            attributes = {**(made.attributes or {}), QUEUE_TYPE: BATCH_QUEUE}
            state.topics.put(replace_fields(made, attributes=attributes), now_ms)
    state.topics.changed.clear()  # the first registration tells of all
