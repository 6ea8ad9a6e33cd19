"""Samples of messages, transactions and timers, from what the broker counts anyway."""

from __future__ import annotations

from flintmq.broker.monitoring import broker_families as names
from flintmq.broker.state.broker_state import BrokerState
from flintmq.broker.tables.broker_stats import GROUP_GET_SIZE
from flintmq.metrics.families import Samples, Work, truth
from flintmq.model.group import is_system_group
from flintmq.model.topic import SCHEDULE_TOPIC

SCHEDULE_GROUP = "SCHEDULE_CONSUMER"
"""What RocketMQ calls its own reader of delayed messages."""

STORAGE = ("local", "disk")

TIMER_BOUNDS_S = (5, 60, 300, 900, 3_600, 14_400, 28_800, 86_400)

CHUNK = 20_000
"""Timers that are counted in one step: a millisecond."""


def message_samples(state: BrokerState) -> Work:
    """Messages stored, handed out and given up."""
    counts, is_system = state.stats.counts, state.topics.is_system
    stored, sizes, total = map(
        Samples, (names.MESSAGES_IN, names.MESSAGE_SIZE, names.THROUGHPUT_IN)
    )
    for (topic, kind), distribution in list(counts.stored.items()):
        labels = (topic, kind, truth(is_system(topic)))
        stored.add(distribution.count, *labels)
        total.add(distribution.sum, *labels)
        sizes.add(distribution, *labels)
        yield None
    yield from (stored, total, sizes)
    out, out_bytes = Samples(names.MESSAGES_OUT), Samples(names.THROUGHPUT_OUT)
    if counts.schedule_read[0]:
        for samples, value in zip((out, out_bytes), counts.schedule_read, strict=True):
            samples.add(value, SCHEDULE_TOPIC, SCHEDULE_GROUP, "true")
    for key, count, size_bytes in state.stats.totals(GROUP_GET_SIZE):
        topic, _, group = key.partition("@")
        labels = (topic, group, truth(is_system(topic) or is_system_group(group.upper())))
        out.add(count, *labels)
        out_bytes.add(size_bytes, *labels)
        yield None
    yield from (out, out_bytes)
    dead = Samples(names.SEND_TO_DLQ)
    for (topic, group), count in counts.dead.items():
        dead.add(count, topic, group, truth(is_system(topic) or is_system_group(group.upper())))
    yield dead


def transaction_samples(state: BrokerState) -> Work:
    """Half messages and their ends."""
    counts = state.stats.counts
    commits, latency = Samples(names.COMMITS), Samples(names.FINISH_LATENCY)
    for topic, times in counts.committed.items():
        commits.add(times.count, topic)
        latency.add(times, topic)
    rollbacks, halves = Samples(names.ROLLBACKS), Samples(names.HALF_MESSAGES)
    for topic, count in counts.rolled_back.items():
        rollbacks.add(count, topic)
    for topic, count in counts.half_open.items():
        halves.add(count, topic)
    yield from (commits, rollbacks, latency, halves)


def timer_samples(state: BrokerState, now_ms: int) -> Work:
    """Timer messages: those that came, those that went, and when the others are due."""
    counts, timers = state.stats.counts, state.timers
    came, went, delays = map(
        Samples, (names.TIMER_ENQUEUES, names.TIMER_DEQUEUES, names.DELAY_LATENCY)
    )
    for topic, asked in counts.timers_in.items():
        came.add(asked.count, topic)
        delays.add(asked, topic)
    for topic, count in counts.timers_out.items():
        went.add(count, topic)
    yield from (came, went, delays)
    waiting = Samples(names.TIMING_MESSAGES)
    for topic, count in timers.waiting_topics.items():
        if topic in state.topics:
            waiting.add(count, topic, *STORAGE)
    yield waiting
    within = dict.fromkeys(TIMER_BOUNDS_S, 0)
    due = 0
    for start in range(0, timers.scheduled_count, CHUNK):
        for due_ms in timers.due_times(start, CHUNK):
            wait_ms = due_ms - now_ms
            due += wait_ms <= 0
            for bound_s in TIMER_BOUNDS_S:
                if wait_ms <= bound_s * 1_000:
                    within[bound_s] += 1
                    break
        yield None
    snapshot = Samples(names.TIMER_SNAPSHOT)
    for bound_s, count in within.items():
        snapshot.add(count, str(bound_s), *STORAGE)
    yield snapshot
    for family, value in (
        (names.TIMER_ENQUEUE_LAG, timers.unread_count(state)),
        (names.TIMER_ENQUEUE_LATENCY, 0),
        (names.TIMER_DEQUEUE_LAG, due),
        (names.TIMER_DEQUEUE_LATENCY, timers.behind_ms(now_ms)),
    ):
        samples = Samples(family)
        samples.add(value, *STORAGE)
        yield samples
