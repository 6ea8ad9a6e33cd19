"""From a directory to the state of a broker that can serve.

A topic is saved when it is made, but its first messages do not wait for that.  So a crash may
leave messages of a topic that no table knows: such a topic is made again, with the queues it
has.

A number on disk is not believed without limit: a queue id or a number of queues that no broker
would make is named in the log, and neither makes a topic larger than `QUEUES_MAX` queues.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from msgspec import structs

from flintmq.access.quotas import Quotas
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.limits.name_budget import NameBudget
from flintmq.broker.pops.in_flight import InFlight
from flintmq.broker.pops.ordered_queues import OrderedQueues
from flintmq.broker.pops.request_modes import ModeTable
from flintmq.broker.scheduled.delay_levels import DelaySchedule
from flintmq.broker.scheduled.half_messages import HalfMessages
from flintmq.broker.scheduled.pop_journal import PopJournal
from flintmq.broker.scheduled.revival import Revival
from flintmq.broker.scheduled.timers import Timers
from flintmq.broker.state.broker_state import BrokerState
from flintmq.broker.state.role_file import role_in_force
from flintmq.broker.tables.attributes import keeps_batches
from flintmq.broker.tables.broker_stats import Stats
from flintmq.broker.tables.clients import Clients
from flintmq.broker.tables.filters import ConsumerFilters
from flintmq.broker.tables.groups import Groups
from flintmq.broker.tables.held_pulls import HeldPulls
from flintmq.broker.tables.offsets import Offsets
from flintmq.broker.tables.put_times import PutTimes
from flintmq.broker.tables.queue_locks import BrokerQueueLocks
from flintmq.broker.tables.topics import BrokerTopics
from flintmq.logs import logger
from flintmq.model.host import Host
from flintmq.model.light_queue import is_light
from flintmq.model.message_id import MonthlyIds, UniqueIds
from flintmq.model.route import QUEUES_MAX
from flintmq.net.refusals import Refusals
from flintmq.protocol.bodies.offset import ConsumerOffsets, TimerPositions
from flintmq.protocol.bodies.topic import TopicConfig
from flintmq.store.files.disk import Disk
from flintmq.store.files.json_tables import Tables
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.message_log import MessageLog
from flintmq.store.queues.queue_kinds import BATCH_QUEUE, QUEUE_TYPE
from flintmq.store.recovery.survey import TimerProgress

log = logger(__name__)

SLAVE_PERCENT_LESS = 10
"""How much lower accessMessageInMemoryMaxRatio is on a slave; RocketMQ's own number."""


def open_state(
    directory: Path,
    config: BrokerConfig,
    address: str,
    host: Host,
    *,
    pick: Callable[[int], int],
    now_ms: int,
    disk: Disk | None = None,
    refusals: Refusals | None = None,
) -> tuple[BrokerState, Tables]:
    """Open or make a store directory, with its log and its tables."""
    disk = disk or Disk()
    process_id = disk.process_id()
    tables = Tables(disk, directory)
    config = role_in_force(config, tables.role.load(), str(directory))
    if not config.role.is_master:
        config = replace(config, store=_for_slave(config.store))
    messages = MessageLog.open(directory, config.store, process_id=process_id, disk=disk)
    try:
        config = replace(config, store=messages.config)
        refusals = refusals or Refusals()
        names = NameBudget(config.names_per_address_max)
        stats = Stats(now_ms, config.cluster)
        timers, progress = tables.timers.load(), messages.timer_progress()
        in_flight, ordered = InFlight(), OrderedQueues(tables.ordered_pops.load())
        journal = PopJournal(in_flight, ordered, _saved_to(timers, progress))
        state = BrokerState(
            config=config,
            address=address,
            host=host,
            log=messages,
            topics=BrokerTopics(config, tables.topics.load(), now_ms, names, refusals),
            groups=Groups(config, tables.groups.load(), now_ms, names, refusals),
            offsets=Offsets(
                _offsets(tables, config.store),
                notes_commits=config.acting_master and not config.role.is_master,
            ),
            clients=Clients(config),
            locks=BrokerQueueLocks(config.lock_ms),
            filters=ConsumerFilters(tables.filters.load(), now_ms),
            held=HeldPulls(messages),
            delays=DelaySchedule(tables.delay_offsets.load()),
            timers=Timers(timers, progress, journal),
            halves=HalfMessages(),
            in_flight=in_flight,
            ordered=ordered,
            journal=journal,
            revival=Revival(in_flight, journal),
            modes=ModeTable(tables.request_modes.load()),
            stats=stats,
            put_times=PutTimes(stats.puts, now_ms),
            pick=pick,
            started_ms=now_ms,
            refusals=refusals,
            names=names,
            quotas=Quotas(config.quotas),
            own_ids=MonthlyIds(UniqueIds(host.packed, process_id, now_ms)),
            is_read_only=not config.role.is_master,
        )
        if config.role.is_master:  # a slave has the topics of its master
            _adopt_topics(state, now_ms)
    except BaseException:
        messages.close()
        raise
    return state, tables


def _saved_to(timers: TimerPositions | None, progress: TimerProgress | None) -> int:
    """Up to where in the timer topic the saved offsets know what was popped."""
    ours = timers.next_offset if timers is not None else 0
    return max(ours, progress.queue_offset if progress is not None else 0)


def _offsets(tables: Tables, store: StoreConfig) -> ConsumerOffsets | None:
    """The offsets of all groups.  With light queues they are in a file of their own, once saved."""
    saved = tables.light_offsets.load() if store.serves_light else None
    return tables.consumer_offsets.load() if saved is None else saved.plain()


def _for_slave(store: StoreConfig) -> StoreConfig:
    """A slave calls its readers slow a little earlier than a master, as in RocketMQ."""
    percent = max(0, store.in_memory_percent - SLAVE_PERCENT_LESS)
    return replace(store, in_memory_percent=percent)


def _adopt_topics(state: BrokerState, now_ms: int) -> None:
    """Make the topics again that have messages, or were to keep batches, and no settings.

    A topic gets the queues that have messages, up to the limit; one with too many is limited.
    """
    found = {topic: 1 for topic in state.log.batched if topic not in state.topics}
    beyond: dict[str, list[int]] = {}
    for queue in state.log.queues():
        if queue.start == queue.stop or is_light(queue.topic):
            continue
        if queue.queue_id < QUEUES_MAX:
            found[queue.topic] = max(found.get(queue.topic, 0), queue.queue_id + 1)
        else:
            beyond.setdefault(queue.topic, []).append(queue.queue_id)
    for name, queue_ids in beyond.items():
        log.warning(
            "%a has messages in %d queues with ids from %d on, and no topic has more than %d "
            "queues: they are not served",
            name, len(queue_ids), min(queue_ids), QUEUES_MAX,
        )  # fmt: skip
    for topic in state.topics:
        if max(topic.read_queue_nums, topic.write_queue_nums) > QUEUES_MAX:
            _limit_queues(state, topic, found.get(topic.topic_name, 1), now_ms)
    for name, queue_count in found.items():
        if name not in state.topics:
            log.warning("%a had no settings: made again with %d queues", name, queue_count)
            state.topics.ensure(name, queue_count, now_ms)
    for name in state.log.batched:
        made = state.topics.find(name)
        if made is not None and not keeps_batches(made.attributes):
            attributes = {**(made.attributes or {}), QUEUE_TYPE: BATCH_QUEUE}
            state.topics.create_or_replace(structs.replace(made, attributes=attributes), now_ms)
    state.topics.changed.clear()  # the first registration has all


def _limit_queues(state: BrokerState, topic: TopicConfig, queue_count: int, now_ms: int) -> None:
    log.warning(
        "%a was saved with %d queues to read and %d to write: it has %d now",
        topic.topic_name, topic.read_queue_nums, topic.write_queue_nums, queue_count,
    )  # fmt: skip
    limited = structs.replace(topic, read_queue_nums=queue_count, write_queue_nums=queue_count)
    state.topics.create_or_replace(limited, now_ms)
