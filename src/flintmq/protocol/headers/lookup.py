"""Finding messages outside the flow of consumption: by key, by log offset, by queue entry."""

from __future__ import annotations

from msgspec import field

from flintmq.protocol.fields import Header, Int32, Int64


class QueryMessage(Header, frozen=True, kw_only=True):
    """12 QUERY_MESSAGE; with ``is_unique_key`` the key is a unique id and not a user's key."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    is_unique_key: bool = field(default=False, name="_UNIQUE_KEY_QUERY")


class QueryAnswer(Header, frozen=True, kw_only=True):
    """How far the index was when it was asked; both 0 with code 22."""

    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


class ViewMessage(Header, frozen=True, kw_only=True):
    """33 VIEW_MESSAGE_BY_ID; ``offset`` is a log offset."""

    topic: str | None = None
    offset: Int64


class QueryConsumeQueue(Header, frozen=True, kw_only=True):
    """321 QUERY_CONSUME_QUEUE: ``count`` entries from ``index`` on."""

    topic: str
    queue_id: Int32
    index: Int64
    count: Int32
    consumer_group: str | None = None
