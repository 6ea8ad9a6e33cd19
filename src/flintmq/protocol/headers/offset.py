"""Where a group stands in a queue (14, 15), and where a queue begins and ends (29 to 32)."""

from __future__ import annotations

from flintmq.protocol.fields import Header, Int32, Int64
from flintmq.protocol.headers.common_headers import Named, OfQueue


class QueryConsumerOffset(Named, frozen=True, kw_only=True):
    """14 QUERY_CONSUMER_OFFSET, answered 22 where nothing is known."""

    consumer_group: str
    topic: str
    queue_id: Int32
    set_zero_if_not_found: bool | None = None


class UpdateConsumerOffset(Named, frozen=True, kw_only=True):
    """UPDATE_CONSUMER_OFFSET (15)."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64


class SearchOffset(OfQueue, frozen=True, kw_only=True):
    """29 SEARCH_OFFSET_BY_TIMESTAMP.

    ``boundary_type`` is UPPER, in any case, for the last message of that time; anything
    else is the first one.
    """

    timestamp: Int64
    boundary_type: str | None = None


class MaxOffset(OfQueue, frozen=True, kw_only=True):
    """GET_MAX_OFFSET (30)."""

    committed: bool | None = None


class OffsetAnswer(Header, frozen=True, kw_only=True):
    """The offset that 14, 29, 30 and 31 ask for."""

    offset: Int64


class StoreTimeAnswer(Header, frozen=True, kw_only=True):
    """To 32 GET_EARLIEST_MSG_STORETIME; -1 when nothing is stored."""

    timestamp: Int64
