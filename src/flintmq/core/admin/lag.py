"""How far a group is behind, over all its topics and brokers.

The brokers do the counting (208): each knows the topics in which the group has offsets, its
retry topic among them.  A queue in which the group never committed counts from 0.

Invariant: a lag is never negative.  An offset beyond the end of its queue, as one has after a
topic was made anew, counts as no lag.
"""

from __future__ import annotations

from dataclasses import dataclass

from flintmq.core.admin.cluster import fetch_cluster
from flintmq.core.ask import ask
from flintmq.core.conversation import Conversation
from flintmq.core.routes import NameServers
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.protocol.bodies.stats import ConsumeStats
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.group import ConsumeStatsOf


@dataclass(frozen=True, slots=True)
class QueueLag:
    """Where a queue ends and where the group stands in it.

    ``last_consumed_ms`` is when the last consumed message was stored.  ``in_flight`` counts
    what was pulled and is not committed; 4.9 does not tell.
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


@dataclass(frozen=True, slots=True)
class LagTrend:
    """How a lag changes.  ``drain_s`` is None where it does not shrink, or is not known yet."""

    consumed_per_s: float | None
    stored_per_s: float | None
    drain_s: float | None


def lag_trend(
    before: GroupLag | None, after: GroupLag, elapsed_ms: int
) -> tuple[LagTrend, dict[QueueRef, LagTrend]]:
    """Between two looks, in all and by queue.  An offset that went back counts as no progress."""
    known = {} if before is None else {each.queue: each for each in before.queues}
    consumed = stored = 0
    by_queue = {}
    for each in after.queues:
        past = known.get(each.queue)
        if past is None:
            by_queue[each.queue] = _trend(None, None, each.lag, elapsed_ms)
            continue
        moved = max(0, each.consumer_offset - past.consumer_offset)
        grown = max(0, each.max_offset - past.max_offset)
        by_queue[each.queue] = _trend(moved, grown, each.lag, elapsed_ms)
        consumed, stored = consumed + moved, stored + grown
    if before is None:
        return _trend(None, None, after.lag, elapsed_ms), by_queue
    return _trend(consumed, stored, after.lag, elapsed_ms), by_queue


def _trend(consumed: int | None, stored: int | None, lag: int, elapsed_ms: int) -> LagTrend:
    if consumed is None or stored is None or elapsed_ms <= 0:
        return LagTrend(None, None, 0.0 if lag == 0 else None)
    shrinks_per_s = (consumed - stored) * 1000 / elapsed_ms
    drain_s = 0.0 if lag == 0 else lag / shrinks_per_s if shrinks_per_s > 0 else None
    return LagTrend(consumed * 1000 / elapsed_ms, stored * 1000 / elapsed_ms, drain_s)


def group_lag(
    namesrv: NameServers, group: str, *, topic: str | None = None
) -> Conversation[GroupLag]:
    """Ask every broker; an unknown group has no queues.

    One broker that cannot be asked fails the whole: a sum without it would look like progress.
    """
    cluster = yield from fetch_cluster(namesrv)
    queues: list[QueueLag] = []
    per_second = 0.0
    for address in cluster.readable().values():
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
