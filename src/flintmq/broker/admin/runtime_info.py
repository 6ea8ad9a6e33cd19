"""The figures of a running broker under RocketMQ's names: the answer to 28.

Every name a broker 4.9.7 or 5.3.3 reports is here, since tools parse some and fail without them.
What has no meaning here is reported as a constant: where RocketMQ has a thread pool with a queue
before it and this broker has none, the queue is empty and has no capacity; queues are written with
the log, so nothing waits to be dispatched; nobody holds a lock of the page cache.  Days begin at
midnight UTC.
"""

from __future__ import annotations

from flintmq.broker.state.broker_state import BrokerState
from flintmq.broker.tables.broker_stats import (
    TEN_MINUTES,
    TEN_SECONDS,
    TIMER_DELIVERED_NUMS,
    TOPIC_PUT_NUMS,
    TWO_DAYS,
    Counter,
    Window,
)
from flintmq.model.topic import SCHEDULE_TOPIC, TIMER_TOPIC
from flintmq.protocol.command import VERSION
from flintmq.protocol.version import version_name
from flintmq.store.files.layout import COMMIT_LOG_DIRECTORY

DAMAGES_SHOWN_MAX = 10
"""Damaged places of the log that are listed."""

CONFLICTS_SHOWN_MAX = 20
"""Subscription conflicts that are listed with their texts."""

NO_BUFFER_LIMIT = 2**31 - 1
"""What RocketMQ says of its buffer pool when it has none."""

_DAY_MS = TWO_DAYS.step_ms
_RATES = ((TEN_SECONDS, 10_000), (TEN_MINUTES, 60_000), (TEN_MINUTES, 600_000))
_QUEUES = ("send", "pull", "litePull", "query", "ack")


def runtime_table(state: BrokerState, now_ms: int) -> dict[str, str]:
    """Every figure as text."""
    figures: dict[str, object] = {
        "brokerActive": "false" if state.is_stopping else "true",
        "brokerVersionDesc": version_name(VERSION),
        "brokerVersion": VERSION,
        "bootTimestamp": state.started_ms,
        "runtime": _span_text(now_ms - state.started_ms),
        "startAcceptSendRequestTimeStamp": state.config.accept_sends_from_ms,
        **_message_figures(state, now_ms),
        **_queue_figures(state),
        **_store_figures(state),
        **_timer_figures(state, now_ms),
        **_own_figures(state),
    }
    return {name: str(value) for name, value in sorted(figures.items())}


def _message_figures(state: BrokerState, now_ms: int) -> dict[str, object]:
    stats = state.stats
    puts, put_bytes = stats.puts.times, stats.puts.sum
    transferred = _rates(now_ms, stats.gets)
    return {
        **_totals("msgPutTotal", stats.puts, now_ms),
        **_totals("msgGetTotal", stats.gets, now_ms),
        "putTps": _rates(now_ms, stats.puts),
        "getFoundTps": _rates(now_ms, stats.found),
        "getMissTps": _rates(now_ms, stats.missed),
        "getTotalTps": _rates(now_ms, stats.found, stats.missed),
        "getTransferedTps": transferred,  # 4.9
        "getTransferredTps": transferred,
        "putMessageTimesTotal": puts,
        "putMessageSizeTotal": put_bytes,
        "putMessageAverageSize": put_bytes / puts if puts else 0.0,
        "putMessageFailedTimes": state.put_times.failed_count,
        "putMessageDistributeTime": state.put_times.distribution(now_ms),
        "putMessageEntireTimeMax": state.put_times.longest_ms,
        "putLatency99": f"{state.put_times.percentile(0.99, now_ms):.2f}",
        "putLatency999": f"{state.put_times.percentile(0.999, now_ms):.2f}",
        "getMessageEntireTimeMax": state.pull_ms_max,
    }


def _totals(prefix: str, counter: Counter, now_ms: int) -> dict[str, object]:
    morning_ms = now_ms - now_ms % _DAY_MS
    return {
        f"{prefix}YesterdayMorning": counter.before(TWO_DAYS, morning_ms - _DAY_MS)[1],
        f"{prefix}TodayMorning": counter.before(TWO_DAYS, morning_ms)[1],
        f"{prefix}TodayNow": counter.times,
    }


def _rates(now_ms: int, *counters: Counter) -> str:
    """How many a second in the last ten seconds, minute and ten minutes."""
    return " ".join(
        str(sum(_rate(counter, window, width_ms, now_ms) for counter in counters))
        for window, width_ms in _RATES
    )


def _rate(counter: Counter, window: Window, width_ms: int, now_ms: int) -> float:
    return counter.growth(window, now_ms, width_ms).counted.per_second


def _queue_figures(state: BrokerState) -> dict[str, object]:
    """The queues of RocketMQ's thread pools: here only sends wait, for the disk."""
    figures: dict[str, object] = {}
    for name in _QUEUES:
        figures[f"{name}ThreadPoolQueueSize"] = 0
        figures[f"{name}ThreadPoolQueueCapacity"] = 0
        figures[f"{name}ThreadPoolQueueHeadWaitTimeMills"] = 0
    figures["sendThreadPoolQueueSize"] = state.unsynced_count
    figures["sendThreadPoolQueueCapacity"] = state.config.unsynced_sends_max
    figures["EndTransactionQueueSize"] = 0
    figures["EndTransactionThreadPoolQueueCapacity"] = 0
    return figures


def _store_figures(state: BrokerState) -> dict[str, object]:
    log = state.log
    used_bytes, usable_bytes = log.extent.disk_bytes()
    total_bytes = used_bytes + usable_bytes
    ratio = used_bytes / total_bytes if total_bytes else 0.0
    earliest_ms = log.extent.earliest_ms()
    total, free = _size_text(total_bytes), _size_text(usable_bytes)
    return {
        "commitLogMinOffset": log.extent.start_offset,
        "commitLogMaxOffset": log.end_offset,
        "commitLogDiskRatio": ratio,
        f"commitLogDiskRatio_{COMMIT_LOG_DIRECTORY}": ratio,  # not where it is on this machine
        "consumeQueueDiskRatio": ratio,
        "commitLogDirCapacity": f"Total : {total}, Free : {free}.",
        "earliestMessageTimeStamp": -1 if earliest_ms is None else earliest_ms,
        "remainHowManyDataToFlush": _size_text(log.end_offset - log.durable_to),
        "remainTransientStoreBufferNumbs": NO_BUFFER_LIMIT,
        "dispatchBehindBytes": 0,
        "dispatchMaxBuffer": 0,
        "pageCacheLockTimeMills": 0,
    }


def _timer_figures(state: BrokerState, now_ms: int) -> dict[str, object]:
    timers, stats = state.timers, state.stats
    figures: dict[str, object] = {
        "timerReadBehind": timers.behind_ms(now_ms) // 1_000,
        "timerOffsetBehind": timers.unread_count(state),
        "timerCongestNum": timers.waiting_count(state),
        "popInFlightMessages": state.in_flight.message_count,
        "popRevivedMessages": state.in_flight.revived_count,
        "timerEnqueueTps": stats.per_second(TOPIC_PUT_NUMS, TIMER_TOPIC, now_ms),
        "timerDequeueTps": stats.per_second(TIMER_DELIVERED_NUMS, TIMER_TOPIC, now_ms),
    }
    delivered = state.delays.table().offset_table
    for level in range(1, len(state.config.store.delay_levels_ms) + 1):
        stop = state.log.max_offset(SCHEDULE_TOPIC, level - 1)
        figures[f"scheduleMessageOffset_{level}"] = f"{delivered.get(level, 0)},{stop}"
    return figures


def _own_figures(state: BrokerState) -> dict[str, object]:
    """Figures that RocketMQ does not report."""
    conflicts = state.clients.conflicts()
    shown = [str(each) for each in conflicts[:CONFLICTS_SHOWN_MAX]]
    if len(conflicts) > len(shown):
        shown.append(f"and {len(conflicts) - len(shown)} more")
    return {
        "brokerRole": state.config.role.value,
        "brokerId": state.config.broker_id,
        "fenced": "true" if state.is_fenced else "false",
        "roleFault": state.role_fault,
        "slaves": "; ".join(
            f"{slave.address}: {state.log.end_offset - slave.acked_to} bytes behind"
            for slave in state.slaves.slaves
            if slave.reported_ms is not None
        ),
        "following": state.following.phase.value,
        "followingReason": state.following.reason or "",
        "subscriptionConflicts": "; ".join(shown),
        "heldPulls": len(state.held),
        "refused": state.refusals.total,
        **{f"refused_{limit}": count for limit, count in state.refusals.counts.items()},
        **_scrub_figures(state),
        "failedSaves": state.failed_saves,
        "offsetCommitsBackward": state.offsets.backward_count,
        "statsNotCounted": state.stats.dropped_count,
        "delayedNotDelivered": state.delays.unreadable_count,
        "timersNotDelivered": state.timers.unreadable_count,
        "loopStalls": state.stalls.count,
        "loopStallMaxMillis": round(state.stalls.longest_s * 1000),
    }


def _scrub_figures(state: BrokerState) -> dict[str, object]:
    """What the scrub of the log found; only where it is on."""
    if not state.config.scrub_bytes_per_s:
        return {}
    scrub = state.log.raw.scrub
    shown = [str(damage) for damage in list(scrub.damages.values())[:DAMAGES_SHOWN_MAX]]
    if len(scrub.damages) > len(shown):
        shown.append(f"and {len(scrub.damages) - len(shown)} more")
    return {
        "scrubPasses": scrub.passes,
        "scrubbedBytes": scrub.checked_bytes,
        "scrubFound": scrub.found_count,
        "scrubHealed": scrub.healed_count,
        "scrubDamages": "; ".join(shown),
    }


def _span_text(span_ms: int) -> str:
    minutes, seconds = divmod(max(0, span_ms) // 1_000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


def _size_text(size_bytes: int) -> str:
    """``1.5 GiB``, as RocketMQ writes sizes."""
    if size_bytes < 1_024:
        return f"{size_bytes} B"
    size = float(size_bytes)
    for letter in "KMGTPE":
        size /= 1_024
        if size < 1_024 or letter == "E":
            break
    return f"{size:.1f} {letter}iB"
