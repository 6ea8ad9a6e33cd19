"""The tasks of a micro-batch of listeners: which parts of which queues each of them has.

    listener without ``tasks``   ordered: a task for each queue; else long queues are cut, so that
                                 there are tasks for all cores
    listener with ``tasks=n``    n tasks at most: queues are cut if there are fewer of them, unless
                                 they are ordered, and share tasks if there are more

Messages that are redelivered come from one topic for the whole group.  If the app has one listener,
they share its tasks; else they have tasks of their own, and ``tasks`` does not limit those.

Invariant: the parts cover the spans exactly; an ordered queue is in one part; a listener with
``tasks=n`` has n tasks at most.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence

from flintmq.arrow.reading.queue_source import ReadPart
from flintmq.core.group.subscriptions import Subscriptions
from flintmq.model.group import is_retry_topic
from flintmq.model.queue import QueueRef, Span
from flintmq.spark.source.partitions import cut

Task = tuple[ReadPart, ...]


def share_out(
    spans: Sequence[Span],
    subscriptions: Subscriptions,
    tasks: Mapping[str, int | None],
    *,
    origin: Callable[[QueueRef], str],
    tasks_usual: int,
) -> list[Task]:
    """The tasks for these spans.  ``tasks`` is what listeners say, by topics as on the wire."""
    limits = {topic: count for topic, count in tasks.items() if count is not None}
    only = next(iter(limits)) if len(tasks) == 1 and limits else None
    limited: dict[str, list[Span]] = {}
    others: list[Span] = []
    for span in spans:
        topic = span.queue.topic
        if only is not None and is_retry_topic(topic):
            topic = only
        (limited.setdefault(topic, []) if topic in limits else others).append(span)

    def parts(some: Sequence[Span], least: int) -> list[ReadPart]:
        whole = [span for span in some if subscriptions.is_ordered(span.queue.topic)]
        free = [span for span in some if not subscriptions.is_ordered(span.queue.topic)]
        return [
            *cut(whole, origin=origin, partitions={}),
            *cut(free, origin=origin, partitions={}, partitions_min=least),
        ]

    made: list[Task] = [(part,) for part in parts(others, tasks_usual)]
    for topic, some in limited.items():
        made += _joined(parts(some, limits[topic]), limits[topic])
    return made


def _joined(parts: Sequence[ReadPart], count: int) -> list[Task]:
    """The parts in so many tasks at most, with about as many messages in each."""
    if len(parts) <= count:
        return [(part,) for part in parts]
    tasks: list[list[ReadPart]] = [[] for _ in range(count)]
    least = [(0, place) for place in range(count)]
    for part in sorted(parts, key=lambda part: -len(part.span)):
        rows, place = heapq.heappop(least)
        tasks[place].append(part)
        heapq.heappush(least, (rows + len(part.span), place))
    return [tuple(sorted(task, key=lambda part: part.span.queue)) for task in tasks]
