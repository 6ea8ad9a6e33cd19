"""From times and places in a topic to spans of its queues, and who to ask for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from flintmq.core.admin_cluster import fetch_route, readable_brokers
from flintmq.core.ask import NameServers
from flintmq.core.conversation import Conversation
from flintmq.core.offsets_remote import Extent, extent, offset_at
from flintmq.model.queue import QueueOffset, QueueRef, Span


@dataclass(frozen=True, slots=True)
class ToTime:
    """The first message stored at this time or later."""

    time_ms: int


@dataclass(frozen=True, slots=True)
class ToOffset:
    offset: QueueOffset


@dataclass(frozen=True, slots=True)
class ToStart:
    """The oldest message that is kept."""


@dataclass(frozen=True, slots=True)
class ToEnd:
    """Behind the newest message."""


Target: TypeAlias = ToTime | ToOffset | ToStart | ToEnd
"""A place in every queue of a topic."""


@dataclass(frozen=True, slots=True)
class LocatedSpan:
    """A span, and the address that has it."""

    span: Span
    address: str


def locate_spans(
    namesrv: NameServers,
    topic: str,
    start: Target = ToStart(),
    stop: Target = ToEnd(),
    *,
    broker: str | None = None,
    queue_id: int | None = None,
) -> Conversation[tuple[LocatedSpan, ...]]:
    """A span for every readable queue, empty ones too, or for the queues that are named."""
    route = yield from fetch_route(namesrv, topic)
    addresses = readable_brokers(route)
    found = []
    for queue in route.subscribe_queues(topic):
        address = addresses.get(queue.broker)
        if address is None or broker not in (None, queue.broker):
            continue
        if queue_id not in (None, queue.queue_id):
            continue
        bounds = yield from extent(address, queue)
        first = yield from resolve(address, queue, start, bounds)
        end = yield from resolve(address, queue, stop, bounds)
        found.append(LocatedSpan(Span(queue, first, max(first, end)), address))
    return tuple(found)


def resolve(
    address: str, queue: QueueRef, target: Target, bounds: Extent
) -> Conversation[QueueOffset]:
    """The offset a target means in one queue; always one that the queue has or gets next."""
    match target:
        case ToStart():
            return bounds.start
        case ToEnd():
            return bounds.stop
        case ToOffset(offset):
            return min(max(offset, bounds.start), bounds.stop)
        case ToTime(time_ms):
            found = yield from offset_at(address, queue, time_ms)
            return min(max(found, bounds.start), bounds.stop)
        case _:
            assert_never(target)
