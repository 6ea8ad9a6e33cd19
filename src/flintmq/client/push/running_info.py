"""What a consumer tells an admin of itself (GET_CONSUMER_RUNNING_INFO, 307).

`describe_consumer` serves push and pull consumers and the group member of a Spark query alike;
what only a push consumer has, rates and stacks, is added by `running_consumer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Final

from msgspec.structs import replace

from flintmq.client.push.consume_stats import TopicRates
from flintmq.client.push.listeners import Work
from flintmq.client.push.push_settings import PushConfig
from flintmq.client.push.thread_pool import RunningJob
from flintmq.core.consumer.consumer_status import AssignedQueueStatus, GroupStatus
from flintmq.core.group.consumer_settings import MIB, ConsumerSettings
from flintmq.core.group.subscriptions import Subscriptions
from flintmq.model.group import ConsumeType
from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies.client import Subscription
from flintmq.protocol.bodies.client_call import (
    CLIENT_VERSION,
    CONSUME_ORDERLY,
    CONSUME_TYPE,
    NAME_SERVERS,
    START_TIMESTAMP,
    THREADS,
    ConsumeRates,
    PopQueueState,
    QueueState,
    RunningConsumer,
    queue_note,
)
from flintmq.protocol.bodies.common_bodies import PopQueue
from flintmq.protocol.command import VERSION
from flintmq.protocol.version import version_name

GROUP_SETTINGS: Final = tuple(each.name for each in fields(ConsumerSettings))
"""The settings that a member of a group shows."""


def describe_consumer(
    settings: object,
    names: Iterable[str],
    *,
    consume_type: ConsumeType,
    ordered: bool,
    name_servers: Iterable[str],
    started_ms: int,
    subscriptions: tuple[Subscription, ...],
    queues: dict[QueueRef, QueueState],
    threads: int | None = None,
) -> RunningConsumer:
    """The settings of these names, the subscriptions, and the state of each queue."""
    of_pool = {} if threads is None else {THREADS: str(threads)}
    return RunningConsumer(
        properties={
            **{name: str(getattr(settings, name)) for name in names},
            NAME_SERVERS: ";".join(name_servers),
            **of_pool,
            CONSUME_ORDERLY: str(ordered).lower(),
            START_TIMESTAMP: str(started_ms),
            CONSUME_TYPE: consume_type.value,
            CLIENT_VERSION: version_name(VERSION),
        },
        subscription_set=subscriptions,
        mq_table=queues,
    )


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

    described = describe_consumer(
        config,
        GROUP_SETTINGS,
        consume_type=ConsumeType.PUSH,
        ordered=any(subscriptions.is_ordered(each.topic) for each in subscriptions),
        name_servers=name_servers,
        started_ms=started_ms,
        subscriptions=subscriptions.section().subscription_data_set,
        threads=config.threads_min,
        queues={
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
    )
    return replace(
        described,
        mq_pop_table=_pop_states(status, moment) or None,
        jstack=None if running is None else stacks_text(running),
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
        user_consumer_info={
            queue_note(queue.queue): waits_text(queue, now_ms) for queue in status.queues
        },
    )


def _pop_states(
    status: GroupStatus, moment: Callable[[int | None], int]
) -> dict[PopQueue, PopQueueState]:
    """The places that are popped; ``moment`` makes a time of day of one of the clock."""
    return {
        PopQueue(
            broker_name=place.source.broker,
            queue_id=place.source.queue_id,
            topic=place.source.topic,
        ): PopQueueState(
            wait_ack_count=place.unacked_count,
            dropped=not place.is_ours,
            last_pop_timestamp=moment(place.popped_ms),
        )
        for place in status.pops
    }


def waits_text(queue: AssignedQueueStatus, now_ms: int) -> str:
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
