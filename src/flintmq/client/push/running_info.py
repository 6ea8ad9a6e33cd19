"""The answer to GET_CONSUMER_RUNNING_INFO (307): settings, queues, rates and stacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from flintmq.client.push.consume_stats import TopicRates
from flintmq.client.push.listeners import Work
from flintmq.client.push.push_settings import PushConfig
from flintmq.client.push.thread_pool import RunningJob
from flintmq.core.consumer.consumer_status import GroupStatus, QueueStatus
from flintmq.core.group.consumer_settings import MIB, ConsumerSettings
from flintmq.core.group.subscriptions import Subscriptions
from flintmq.model.group import ConsumeType
from flintmq.protocol.bodies.client_call import (
    CLIENT_VERSION,
    CONSUME_ORDERLY,
    CONSUME_TYPE,
    NAME_SERVERS,
    START_TIMESTAMP,
    THREADS,
    ConsumeRates,
    QueueState,
    RunningConsumer,
    queue_note,
)
from flintmq.protocol.command import VERSION
from flintmq.protocol.version import version_name

_SETTINGS = tuple(each.name for each in fields(ConsumerSettings))


def running_consumer(
    config: PushConfig,
    status: GroupStatus,
    subscriptions: Subscriptions,
    rates: Sequence[TopicRates],
    running: Sequence[RunningJob[Work]] | None,
    *,
    name_servers: Sequence[str],
    started_ms: int,
    now_ms: int,
    wall_ahead_ms: int = 0,
) -> RunningConsumer:
    """``running`` is None where no stacks are wanted; ``now_ms`` is of the engine's clock.

    ``wall_ahead_ms`` is what the time of day is ahead of that clock.  Tools take a queue for
    blocked that has messages and was last consumed a minute ago.
    """

    def moment(ms: int | None) -> int:
        return 0 if ms is None else ms + wall_ahead_ms

    return RunningConsumer(
        jstack=None if running is None else stacks_text(running),
        mq_table={
            queue.queue: QueueState(
                cached_msg_count=queue.cached_count,
                cached_msg_min_offset=queue.settled_to or 0 if queue.cached_count else 0,
                cached_msg_max_offset=(
                    (queue.settled_to or 0) + queue.cached_span if queue.cached_count else 0
                ),
                cached_msg_size_in_mib=queue.cached_bytes // MIB,
                commit_offset=queue.settled_to or 0,
                dropped=queue.stage in ("closing", "dropped", "moved"),
                last_consume_timestamp=moment(queue.consumed_ms),
                last_pull_timestamp=moment(queue.pulled_ms),
                locked=queue.locked_until_ms is not None,
            )
            for queue in status.queues
        },
        properties=_properties(config, subscriptions, name_servers, started_ms),
        status_table={
            each.topic: ConsumeRates(
                consume_failed_msgs=each.failed_last_hour,
                consume_failed_tps=each.failed_per_s,
                consume_ok_tps=each.ok_per_s,
                consume_rt=each.consume_ms,
                pull_rt=each.pull_ms,
                pull_tps=each.pulled_per_s,
            )
            for each in rates
        },
        subscription_set=subscriptions.section().subscription_data_set,
        user_consumer_info={
            queue_note(queue.queue): waits_text(queue, now_ms) for queue in status.queues
        },
    )


def waits_text(queue: QueueStatus, now_ms: int) -> str:
    """What a queue does and waits for, in words."""
    parts = []
    if queue.running:
        first = min(queue.running, key=lambda each: each.started_ms)
        spent_s = (now_ms - first.started_ms) // 1000
        parts.append(f"a listener is at {first.message_id} for {spent_s} s")
    if queue.cached_count:
        parts.append(f"{queue.cached_count} messages are not settled")
    if queue.sending_back:
        parts.append(f"{queue.sending_back} are being sent back")
    if queue.reason == "pull":
        parts.append("a pull waits at the broker")
    else:
        rest = "" if queue.until_ms is None else f", {max(0, queue.until_ms - now_ms)} ms more"
        parts.append(f"{queue.text}{rest}")
    return "; ".join(parts)


def stacks_text(running: Sequence[RunningJob[Work]]) -> str:
    """Every listener at work, for people."""
    if not running:
        return "no listener is running"
    return "\n".join(
        f"{each.worker} for {each.running_ms} ms on {each.job.messages[0].message_id} "
        f"of {each.job.queue}\n{each.stack}"
        for each in running
    )


def _properties(
    config: PushConfig, subscriptions: Subscriptions, name_servers: Sequence[str], started_ms: int
) -> dict[str, str]:
    ordered = any(subscriptions.is_ordered(each.topic) for each in subscriptions)
    return {
        **{name: str(getattr(config, name)) for name in _SETTINGS},
        NAME_SERVERS: ";".join(name_servers),
        THREADS: str(config.threads_min),
        CONSUME_ORDERLY: str(ordered).lower(),
        START_TIMESTAMP: str(started_ms),
        CONSUME_TYPE: ConsumeType.PUSH.value,
        CLIENT_VERSION: version_name(VERSION),
    }
