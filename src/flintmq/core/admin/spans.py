"""From times and places in a topic to spans of its queues, and who to ask for each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from flintmq.core.admin.cluster import readable_brokers, require_route
from flintmq.core.conversation import Conversation
from flintmq.core.reading.broker_offsets import earliest_ms, extent, offset_at
from flintmq.core.reading.time_text import parse_time
from flintmq.core.routes import NameServers
from flintmq.errors import NoRoute
from flintmq.model.queue import Extent, QueueOffset, QueueRef, Span


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

START = ToStart()
END = ToEnd()


_OFFSET = re.compile(r"[0-9]{1,10}")


def read_target(text: str, now_ms: int) -> Target:
    """``start``, ``end``, an offset, or a time; `InvalidSetting` for anything else.

    ``s@1794803628010`` is a time as kcat's users write it.
    """
    if text in ("start", "first", "earliest", "beginning"):
        return START
    if text in ("end", "last", "latest"):
        return END
    if _OFFSET.fullmatch(text):
        return ToOffset(QueueOffset(int(text)))
    return ToTime(parse_time(text.removeprefix("s@"), now_ms))


@dataclass(frozen=True, slots=True)
class LocatedSpan:
    """A span, and the address that has it."""

    span: Span
    address: str


def locate_spans(
    namesrv: NameServers,
    topic: str,
    start: Target = START,
    stop: Target = END,
    *,
    broker: str | None = None,
    queue_id: int | None = None,
) -> Conversation[tuple[LocatedSpan, ...]]:
    """A span for every readable queue, empty ones too, or for the queues that are named."""
    route = yield from require_route(namesrv, topic)
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


def queue_address(namesrv: NameServers, queue: QueueRef) -> Conversation[str]:
    """The address of the broker to ask about a queue."""
    route = yield from require_route(namesrv, queue.topic)
    address = readable_brokers(route).get(queue.broker)
    if address is None or queue not in route.subscribe_queues(queue.topic):
        raise NoRoute(queue.topic, f"it has no queue {queue.queue_id} on {queue.broker}")
    return address


def queue_extent(namesrv: NameServers, queue: QueueRef) -> Conversation[Extent]:
    """Where one queue starts and stops."""
    address = yield from queue_address(namesrv, queue)
    return (yield from extent(address, queue))


def queue_offset_at(
    namesrv: NameServers, queue: QueueRef, time_ms: int
) -> Conversation[QueueOffset]:
    """The first message of one queue stored at a time or later."""
    address = yield from queue_address(namesrv, queue)
    return (yield from offset_at(address, queue, time_ms))


def queue_earliest_ms(namesrv: NameServers, queue: QueueRef) -> Conversation[int | None]:
    """When the oldest message of one queue was stored."""
    address = yield from queue_address(namesrv, queue)
    return (yield from earliest_ms(address, queue))


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
