"""What a consumer does and waits for, as `consumer.status()` tells it.

Queues come from the machine; listeners at work, with where in their code they are, from the pool.
Times are milliseconds from now, since a clock that only goes forward means nothing to people.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flintmq.client.push.consume_stats import ConsumerStats, TopicRates
from flintmq.client.push.delivery import Delivery
from flintmq.client.push.listeners import Work
from flintmq.client.push.thread_pool import RunningJob
from flintmq.core.consumer.consumer_status import AssignedQueueStatus as Waiting
from flintmq.core.consumer.consumer_status import GroupStatus
from flintmq.core.pop.pop_table import PopStatus
from flintmq.model.queue import QueueOffset, QueueRef


@dataclass(frozen=True, slots=True)
class ListenerStatus:
    """A listener at work: on which messages, for how long, and where it is.

    ``queue`` is of the names on the wire.
    """

    queue: QueueRef
    first_offset: QueueOffset
    message_id: str
    count: int
    worker: str
    running_ms: int
    stack: str


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """One queue.  ``waits_for`` is a word, ``why`` a sentence; ``wait_ms`` where it is known."""

    queue: QueueRef
    stage: str
    waits_for: str
    why: str
    wait_ms: int | None
    next_offset: QueueOffset | None
    settled_to: QueueOffset | None
    cached_count: int
    cached_bytes: int
    cached_span: int
    sending_back: int
    is_locked: bool
    listeners: tuple[ListenerStatus, ...]
    bad_count: int = 0
    """Records that could not be decoded since the queue is ours."""


@dataclass(frozen=True, slots=True)
class ConsumerStatus:
    """All of a consumer.

    ``troubles`` are topics that could not be shared out, and addresses of brokers that refuse
    our heartbeats, each with why.
    """

    group: str
    client_id: str
    state: str
    queues: tuple[QueueStatus, ...]
    listeners: tuple[ListenerStatus, ...]
    waiting_batches: int
    threads: int
    troubles: Mapping[str, str]
    rates: Mapping[str, TopicRates]
    bad_count: int = 0
    """Records that could not be decoded, of all queues since the start."""
    pops: tuple[PopStatus, ...] = ()
    """Where messages are popped, instead of queues of one's own."""


@dataclass(frozen=True, slots=True)
class PullingStatus:
    """All of a consumer that pulls when it is told to, or pulls ahead.

    Queues and topics have the names the program knows; ``troubles`` as in `ConsumerStatus`.
    """

    group: str
    client_id: str
    state: str
    queues: tuple[QueueStatus, ...]
    troubles: Mapping[str, str]


def idle_queue(
    queue: QueueRef,
    waits_for: str,
    why: str,
    *,
    wait_ms: int | None = None,
    settled_to: QueueOffset | None = None,
    bad_count: int = 0,
) -> QueueStatus:
    """A queue that nobody pulls ahead: the program says when."""
    return QueueStatus(
        queue=queue,
        stage="own",
        waits_for=waits_for,
        why=why,
        wait_ms=wait_ms,
        next_offset=None,
        settled_to=settled_to,
        cached_count=0,
        cached_bytes=0,
        cached_span=0,
        sending_back=0,
        is_locked=False,
        listeners=(),
        bad_count=bad_count,
    )


def consumer_status(
    group: GroupStatus, delivery: Delivery, stats: ConsumerStats, now_ms: int
) -> ConsumerStatus:
    listeners = tuple(map(listener_status, delivery.running()))
    return ConsumerStatus(
        group=group.group,
        client_id=group.client_id,
        state=group.phase,
        queues=queue_statuses(group.queues, now_ms, listeners),
        listeners=listeners,
        waiting_batches=delivery.waiting_count,
        threads=delivery.pool.size,
        troubles=group.troubles,
        rates={rates.topic: rates for rates in stats.rates(now_ms)},
        bad_count=group.bad_count,
        pops=group.pops,
    )


def queue_statuses(
    queues: Iterable[Waiting], now_ms: int, listeners: tuple[ListenerStatus, ...] = ()
) -> tuple[QueueStatus, ...]:
    """What the machine says of queues, in their order, for people."""
    return tuple(_queue(each, listeners, now_ms) for each in sorted(queues, key=_name))


def _name(waiting: Waiting) -> QueueRef:
    return waiting.queue


def listener_status(running: RunningJob[Work]) -> ListenerStatus:
    work = running.job
    first = work.messages[0]
    return ListenerStatus(
        work.queue,
        first.queue_offset,
        first.message_id,
        len(work.messages),
        running.worker,
        running.running_ms,
        running.stack,
    )


def _queue(waiting: Waiting, listeners: tuple[ListenerStatus, ...], now_ms: int) -> QueueStatus:
    until_ms, locked_ms = waiting.until_ms, waiting.locked_until_ms
    return QueueStatus(
        queue=waiting.queue,
        stage=waiting.stage,
        waits_for=waiting.reason,
        why=waiting.text,
        wait_ms=None if until_ms is None else max(0, until_ms - now_ms),
        next_offset=waiting.next_offset,
        settled_to=waiting.settled_to,
        cached_count=waiting.cached_count,
        cached_bytes=waiting.cached_bytes,
        cached_span=waiting.cached_span,
        sending_back=waiting.sending_back,
        is_locked=locked_ms is not None and locked_ms > now_ms,
        listeners=tuple(each for each in listeners if each.queue == waiting.queue),
        bad_count=waiting.bad_count,
    )
