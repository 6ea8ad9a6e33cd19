"""How far a group is behind, over all its topics and brokers.

The brokers do the counting (GET_CONSUME_STATS, 208): each knows the topics in which the group has
offsets, its retry topic among them.  A queue in which the group never committed counts from 0.

Invariant: a lag is never negative.  An offset beyond the end of its queue, as one has after a
topic was made anew, counts as no lag.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flintmq.core.admin.cluster import fetch_cluster
from flintmq.core.admin.groups import list_groups
from flintmq.core.ask import ask
from flintmq.core.conversation import Conversation
from flintmq.core.routes import NameServers
from flintmq.model.group import is_retry_topic
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.protocol.bodies.stats import ConsumeStats
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.group import ConsumeStatsOf


@dataclass(frozen=True, slots=True)
class QueueLag:
    """Where a queue ends and where the group stands in it.

    ``last_consumed_ms`` is when the last consumed message was stored.  ``in_flight`` counts
    what was pulled and is not committed and, at our brokers, what was popped and is not
    acknowledged; 4.9 does not tell.
    """

    queue: QueueRef
    max_offset: QueueOffset
    consumer_offset: QueueOffset
    last_consumed_ms: int | None
    in_flight: int | None

    @property
    def lag(self) -> int:
        return max(0, self.max_offset - self.consumer_offset)


@dataclass(frozen=True, slots=True)
class GroupLag:
    """Every queue in which the group has offsets, in the order consumers sort them."""

    group: str
    queues: tuple[QueueLag, ...]
    consumed_per_second: float

    @property
    def lag(self) -> int:
        return sum(queue.lag for queue in self.queues)

    @property
    def in_flight(self) -> int:
        return sum(queue.in_flight or 0 for queue in self.queues)

    @property
    def retries(self) -> int:
        """Messages that failed and wait to be delivered again."""
        return sum(queue.lag for queue in self.queues if is_retry_topic(queue.queue.topic))


def group_lag(
    namesrv: NameServers, group: str, *, topic: str | None = None
) -> Conversation[GroupLag]:
    """Ask every broker; an unknown group has no queues.

    One broker that cannot be asked fails the whole: a sum without it would look like progress.
    """
    cluster = yield from fetch_cluster(namesrv)
    return (yield from _lag_at(cluster.readable().values(), group, topic))


def every_group_lag(namesrv: NameServers) -> Conversation[tuple[GroupLag, ...]]:
    """The lag of every group that brokers are set up for, in the order of names.

    Groups of the system are left out; one that never committed has no queues.
    """
    cluster = yield from fetch_cluster(namesrv)
    addresses = cluster.readable().values()
    groups = yield from list_groups(namesrv)
    found: list[GroupLag] = []
    for name in (group.name for group in groups if not group.is_system):
        found += [(yield from _lag_at(addresses, name, None))]
    return tuple(found)


def _lag_at(addresses: Iterable[str], group: str, topic: str | None) -> Conversation[GroupLag]:
    queues: list[QueueLag] = []
    per_second = 0.0
    for address in addresses:
        header = ConsumeStatsOf(consumer_group=group, topic=topic)
        reply = yield from ask(address, RequestCode.GET_CONSUME_STATS, header)
        stats = ConsumeStats.from_body(reply.body)
        per_second += stats.consume_tps
        for queue, progress in stats.offset_table.items():
            pulled = progress.pull_offset
            last_ms = progress.last_timestamp
            queues.append(
                QueueLag(
                    queue,
                    QueueOffset(progress.broker_offset),
                    QueueOffset(progress.consumer_offset),
                    last_ms if last_ms > 0 else None,
                    None if pulled is None else max(0, pulled - progress.consumer_offset),
                )
            )
    queues.sort(key=lambda queue: queue.queue)
    return GroupLag(group, tuple(queues), per_second)
