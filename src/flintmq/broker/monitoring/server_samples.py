"""Samples of the broker itself: its requests, its store, its loop."""

from __future__ import annotations

from collections.abc import Sequence

from flintmq.broker.counters.call_times import OTHER, RequestKind, RequestTimes
from flintmq.broker.monitoring import broker_families as names
from flintmq.broker.monitoring.group_samples import REMOTING
from flintmq.broker.monitoring.message_samples import STORAGE
from flintmq.broker.state.broker_state import BrokerState
from flintmq.core.replication.follow_status import Following
from flintmq.metrics.families import Family, Samples, Value, Work, truth
from flintmq.net.refusals import USUAL_LIMITS
from flintmq.protocol.codes import RequestCode, ResponseCode

PROCESSORS = (
    "send",
    "async_put",
    "pull",
    "ack",
    "query_message",
    "client_manager",
    "heartbeat",
    "lite_pull",
    "transaction",
    "consumer_manager",
    "admin",
    "reply",
)
"""RocketMQ's thread pools, of which each has a queue."""


def call_samples(times: RequestTimes) -> Work:
    """How long requests took."""
    samples = Samples(names.RPC_LATENCY)
    for key, distribution in list(times.calls.items()):
        call = RequestKind(*key)
        if not distribution.count:
            continue  # the one of sends is there from the start
        samples.add(
            distribution,
            REMOTING,
            "other" if call.code == OTHER else RequestCode(call.code).name.lower(),
            _answer_name(call.answer_code),
            truth(call.is_held),
            "oneway" if call.is_oneway else "success",
        )
        yield None
    yield samples
    topics, groups = Samples(names.TOPIC_CREATE_TIME), Samples(names.GROUP_CREATE_TIME)
    for (is_well, is_system), distribution in times.topic_creates.items():
        topics.add(distribution, _status(is_well), truth(is_system))
    for is_well, distribution in times.group_creates.items():
        groups.add(distribution, _status(is_well))
    yield from (topics, groups)


def broker_samples(
    state: BrokerState, connections: int, why_not_ready: Sequence[str], now_ms: int
) -> Work:
    """Figures that a broker has one of."""
    watermark = Samples(names.WATERMARK)
    for processor in PROCESSORS:
        watermark.add(state.unsynced_count if processor == "send" else 0, processor)
    yield watermark
    yield _one(names.PERMISSION, state.config.permission)
    yield _one(names.TOPIC_NUMBER, len(state.topics))
    yield _one(names.GROUP_NUMBER, len(state.groups))
    yield from _store_samples(state, now_ms)
    yield from _replica_samples(state)
    yield from _scrub_samples(state)
    yield _one(names.READY, 0 if why_not_ready else 1)
    yield _one(names.CONNECTIONS, connections)
    yield _one(names.HELD_PULLS, len(state.held))
    yield _one(names.UNSYNCED_SENDS, state.unsynced_count)
    yield _one(names.UNSYNCED_BYTES, state.unsynced_bytes)
    yield _one(names.PUT_LATENCY, state.put_times.since_start)
    yield _one(names.PUTS_FAILED, state.put_times.failed_count)
    yield _one(names.LOOP_STALLS, state.stalls.count)
    yield _one(names.LOOP_STALL_MAX, state.stalls.longest_s)
    yield _one(names.FAILED_SAVES, state.failed_saves)
    yield _one(names.BACKWARD_COMMITS, state.offsets.backward_count)
    skipped = Samples(names.NOT_DELIVERED)
    skipped.add(state.delays.unreadable_count, "delayed")
    skipped.add(state.timers.unreadable_count, "timer")
    yield skipped
    yield _one(names.CONFLICTS, len(state.clients.conflicts()))
    refused = Samples(names.REFUSED)
    counts = {**dict.fromkeys(USUAL_LIMITS, 0), **state.refusals.counts}
    for limit, count in counts.items():
        refused.add(count, limit)
    yield refused
    yield _one(names.NOT_COUNTED, state.stats.dropped_count)


def _store_samples(state: BrokerState, now_ms: int) -> Work:
    log = state.log
    used_bytes, usable_bytes = log.extent.disk_bytes()
    earliest_ms = log.extent.earliest_ms()
    age_ms = 0 if earliest_ms is None else max(now_ms - earliest_ms, 0)
    yield _one(names.STORAGE_SIZE, used_bytes, *STORAGE)
    yield _one(names.FLUSH_BEHIND, log.end_offset - log.durable_to, *STORAGE)
    yield _one(names.DISPATCH_BEHIND, 0, *STORAGE)
    yield _one(names.RESERVE_TIME, age_ms, *STORAGE)
    yield _one(names.DISK_USABLE, usable_bytes)
    yield _one(names.WRITABLE, 1 if log.why_not is None else 0)
    yield _one(names.LOG_START, log.extent.start_offset)
    yield _one(names.LOG_END, log.end_offset)


def _replica_samples(state: BrokerState) -> Work:
    end = state.log.end_offset
    reported = [slave for slave in state.slaves.slaves if slave.reported_ms is not None]
    behind: dict[str, int] = {}  # by host: the port is another one with every connection
    for slave in reported:
        behind[slave.host] = max(behind.get(slave.host, 0), end - slave.acked_to)
    samples = Samples(names.SLAVE_BEHIND)
    for host, behind_bytes in behind.items():
        samples.add(behind_bytes, host)
    yield _one(names.SLAVES, len(reported))
    yield samples
    following = Samples(names.FOLLOWING)
    if not state.config.role.is_master:
        following.add(1 if state.following.phase is Following.FOLLOWING else 0)
    yield following


def _scrub_samples(state: BrokerState) -> Work:
    scrub, is_on = state.log.raw.scrub, bool(state.config.scrub_bytes_per_s)
    for family, value in (
        (names.SCRUB_BYTES, scrub.checked_bytes),
        (names.SCRUB_FOUND, scrub.found_count),
        (names.SCRUB_HEALED, scrub.healed_count),
        (names.SCRUB_DAMAGED, len(scrub.damages)),
    ):
        samples = Samples(family)
        if is_on:
            samples.add(value)
        yield samples


def _one(family: Family, value: Value, *labels: str) -> Samples:
    samples = Samples(family)
    samples.add(value, *labels)
    return samples


def _status(is_well: bool) -> str:
    return "success" if is_well else "failure"


def _answer_name(code: int) -> str:
    try:
        return ResponseCode(code).name.lower()
    except ValueError:
        return str(code)
