"""consumerFilter.json: the SQL92 filters a broker keeps for its groups, alive or gone."""

from __future__ import annotations

from flintmq.protocol.bodies.body import Body
from flintmq.protocol.fields import Int32, Int64


class BloomBits(Body, frozen=True, kw_only=True):
    """The bits a filter has in the bit map of every message of its topic."""

    bit_num: Int32 = 0
    bit_pos: tuple[Int32, ...] = ()


class GroupFilter(Body, frozen=True, kw_only=True):
    """One filter of one group, and since when it is there."""

    bloom_filter_data: BloomBits | None = None
    born_time: Int64 = 0
    client_version: Int64 = 0
    consumer_group: str
    dead: bool = False
    dead_time: Int64 = 0
    expression: str = ""
    expression_type: str = "SQL92"
    topic: str


class TopicFilters(Body, frozen=True, kw_only=True):
    """The filters of one topic by group."""

    group_filter_data: dict[str, GroupFilter] = {}
    topic: str | None = None


class FilterTable(Body, frozen=True, kw_only=True):
    """The filters of a broker by topic."""

    filter_data_by_topic: dict[str, TopicFilters] = {}
