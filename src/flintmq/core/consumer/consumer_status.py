"""What a consumer is doing, queue by queue, and what each waits for: for people and for tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from flintmq.core.consumer.assigned_queue import (
    AssignedQueue,
    Closing,
    Dropped,
    Locating,
    Locking,
    Moved,
    Working,
)
from flintmq.core.consumer.pull_loop import Awaiting, Cached, PullLoop, Reason
from flintmq.core.consumer.settle_orderly import OrderlySettling, Suspended
from flintmq.core.pop.pop_table import PopStatus
from flintmq.model.queue import QueueOffset, QueueRef


@dataclass(frozen=True, slots=True)
class RunningListener:
    """A listener at work on a batch."""

    first_offset: QueueOffset
    message_id: str
    count: int
    started_ms: int


@dataclass(frozen=True, slots=True)
class AssignedQueueStatus:
    """One queue.  ``reason`` is a word, ``text`` a sentence; ``until_ms`` where it is known."""

    queue: QueueRef
    stage: str
    reason: str
    text: str
    until_ms: int | None
    next_offset: QueueOffset | None
    settled_to: QueueOffset | None
    cached_count: int
    cached_bytes: int
    cached_span: int
    sending_back: int
    locked_until_ms: int | None
    running: tuple[RunningListener, ...]
    pulled_ms: int | None = None
    consumed_ms: int | None = None
    """When the last pull was answered, and when the last listener ended."""
    bad_count: int = 0
    """Records that could not be decoded."""


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """All queues of a member; ``troubles`` has the topics that could not be shared out.

    ``bad_count`` is of all queues since the start, those that are not ours any more included.
    """

    group: str
    client_id: str
    phase: str
    queues: tuple[AssignedQueueStatus, ...]
    troubles: Mapping[str, str]
    bad_count: int = 0
    pops: tuple[PopStatus, ...] = ()
    """Where messages are popped."""


def queue_status(home: AssignedQueue, settled_to: QueueOffset | None) -> AssignedQueueStatus:
    reason, text, until_ms, next_offset = _waiting(home)
    cached, settling = home.cached, home.settling
    return AssignedQueueStatus(
        queue=home.queue,
        stage=type(home.stage).__name__.lower(),
        reason=reason,
        text=text,
        until_ms=until_ms,
        next_offset=next_offset,
        settled_to=settled_to,
        cached_count=cached.count,
        cached_bytes=cached.size_bytes,
        cached_span=cached.span,
        sending_back=home.sending_back,
        locked_until_ms=home.locked_until_ms,
        running=tuple(
            RunningListener(
                batch.messages[0].queue_offset,
                batch.messages[0].message_id,
                len(batch.messages),
                batch.started_ms or 0,
            )
            for batch in settling.running
        ),
        pulled_ms=home.pulled_ms,
        consumed_ms=home.consumed_ms,
        bad_count=home.stage.loop.bad_count if isinstance(home.stage, Working) else 0,
    )


Waits: TypeAlias = tuple[str, str, int | None, QueueOffset | None]
"""Reason, sentence, until when, and the offset to pull next."""


def _waiting(home: AssignedQueue) -> Waits:
    stage, running = home.stage, len(home.settling.running)
    if isinstance(stage, Locking):
        return "lock", "waits for its lock at the broker", None, None
    if isinstance(stage, Locating):
        due_ms = stage.due_ms if stage.ask is None else None
        return "start offset", "waits to hear where to begin", due_ms, None
    if isinstance(stage, Moved):
        text = f"rests before it begins anew at {stage.to}"
        return "offset moved", text, stage.until_ms, stage.to
    if isinstance(stage, Closing):
        if stage.last is not None:
            return "closing", f"commits {stage.last.offset} before it is given up", None, None
        return "closing", f"waits for {running} listeners before it is given up", None, None
    if isinstance(stage, Dropped):
        return "dropped", f"waits for {running} listeners; their results are ignored", None, None
    loop = stage.loop
    settling = home.settling
    if isinstance(settling, OrderlySettling) and isinstance(settling.state, Suspended):
        text = "a message was not consumed; the queue rests before it tries again"
        return "suspended", text, settling.state.until_ms, loop.next_offset
    return what_loop_waits_for(loop, home.cached)


def what_loop_waits_for(loop: PullLoop, cached: Cached) -> Waits:
    """What a queue waits for that is pulled."""
    if isinstance(loop.state, Awaiting):
        text = f"pulls from {loop.state.pull.offset} since {loop.state.asked_ms}"
        return "pull", text, None, loop.next_offset
    state, limits = loop.state, loop.limits
    text = state.text or {
        Reason.COUNT: f"{cached.count} messages cached, the limit is {limits.count_max}",
        Reason.SIZE: f"{cached.size_bytes} bytes cached, the limit is {limits.bytes_max}",
        Reason.BAD_RECORD: f"stopped: {loop.stopped_by}",
        Reason.SPAN: f"offsets {cached.span} apart, the limit is {limits.span_max}",
    }.get(state.reason, state.reason.value)
    return state.reason.name.lower().replace("_", " "), text, state.until_ms, loop.next_offset
