"""Figures of groups, topics, brokers and queues that an admin asks a broker for.

Progress of groups (GET_CONSUME_STATS 208, GET_BROKER_CONSUME_STATS 317), extents of queues
(GET_TOPIC_STATS_INFO 202), rates of a broker (VIEW_BROKER_STATS_DATA 315), and the units of one
consume queue (QUERY_CONSUME_QUEUE 321).
"""

from __future__ import annotations

from flintmq.protocol.bodies.body import Body
from flintmq.protocol.bodies.client import Subscription
from flintmq.protocol.bodies.common_bodies import QueueField
from flintmq.protocol.fields import Int32, Int64


class QueueProgress(Body, frozen=True, kw_only=True):
    """Where a queue ends and where a group stands in it.  ``pull_offset`` is of 5.x."""

    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    last_timestamp: Int64 = 0
    pull_offset: Int64 | None = None

    @property
    def lag(self) -> int:
        return self.broker_offset - self.consumer_offset


class ConsumeStats(Body, frozen=True, kw_only=True):
    """Answer to GET_CONSUME_STATS (208).  An unknown group has an empty table."""

    consume_tps: float = 0.0
    offset_table: dict[QueueField, QueueProgress] = {}

    @property
    def lag(self) -> int:
        return sum(progress.lag for progress in self.offset_table.values())


class ConsumeStatsList(Body, frozen=True, kw_only=True):
    """Answer to GET_BROKER_CONSUME_STATS (317): every group of a broker, one map for each."""

    broker_addr: str | None = None
    consume_stats_list: tuple[dict[str, tuple[ConsumeStats, ...]], ...] = ()
    total_diff: Int64 = 0
    total_inflight_diff: Int64 | None = None


class QueueExtent(Body, frozen=True, kw_only=True):
    """First and next offset of a queue, and when it last grew."""

    last_update_timestamp: Int64 = 0
    max_offset: Int64 = 0
    min_offset: Int64 = 0


class TopicStats(Body, frozen=True, kw_only=True):
    """Answer to GET_TOPIC_STATS_INFO (202).  ``topic_put_tps`` is of 5.x."""

    offset_table: dict[QueueField, QueueExtent] = {}
    topic_put_tps: float | None = None


class RateSample(Body, frozen=True, kw_only=True):
    """One counter over one period."""

    avgpt: float = 0.0
    sum: Int64 = 0
    tps: float = 0.0


class BrokerStats(Body, frozen=True, kw_only=True):
    """Answer to VIEW_BROKER_STATS_DATA (315)."""

    stats_day: RateSample = RateSample()
    stats_hour: RateSample = RateSample()
    stats_minute: RateSample = RateSample()


class QueueUnit(Body, frozen=True, kw_only=True):
    """One entry: where the record lies, its tag code, and whether the group's filter takes it."""

    bit_map: str | None = None
    eval: bool = False
    extend_data_json: str | None = None
    msg: str | None = None
    physic_offset: Int64 = 0
    physic_size: Int32 = 0
    tags_code: Int64 = 0


class QueuePage(Body, frozen=True, kw_only=True):
    """Some entries, and where the queue begins and ends."""

    filter_data: str | None = None
    max_queue_index: Int64 = 0
    min_queue_index: Int64 = 0
    queue_data: tuple[QueueUnit, ...] | None = None
    subscription_data: Subscription | None = None
