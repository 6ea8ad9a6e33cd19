"""Finding messages and offsets outside the flow of consumption.

    12  QUERY_MESSAGE               records by key, or by unique id
    33  VIEW_MESSAGE_BY_ID          one record by its place in the log
    29  SEARCH_OFFSET_BY_TIMESTAMP  a queue's offset for a time
    30  GET_MAX_OFFSET, 31 GET_MIN_OFFSET, 32 GET_EARLIEST_MSG_STORETIME
    321 QUERY_CONSUME_QUEUE         a look into the index of a queue

A topic or a queue that is not there has no messages; that is no error.
"""

from __future__ import annotations

from base64 import b64encode

import msgspec

from flintmq.broker.requests.outcome import Answer, Outcome, Refusal
from flintmq.broker.requests.peer import Peer
from flintmq.broker.state.broker_state import BrokerState, Processor
from flintmq.broker.tables.filters import BLOOM
from flintmq.errors import InvalidExpression
from flintmq.filter.tags import parse_tags
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.protocol.bodies.client import Subscription
from flintmq.protocol.bodies.group import GroupFilter
from flintmq.protocol.bodies.stats import QueuePage, QueueUnit
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.frame import FRAME_BYTES_MAX
from flintmq.protocol.headers.common_headers import OfQueue
from flintmq.protocol.headers.lookup import (
    QueryAnswer,
    QueryConsumeQueue,
    QueryMessage,
    ViewMessage,
)
from flintmq.protocol.headers.offset import (
    MaxOffset,
    OffsetAnswer,
    SearchOffset,
    StoreTimeAnswer,
)
from flintmq.protocol.typed_request import TypedRequest
from flintmq.store.queues.batch_reader import NO_BATCH
from flintmq.store.queues.consume_queue import Bound
from flintmq.store.queues.queue_extension import ExtensionUnit, is_address
from flintmq.store.record_lookup import LoggedUnit

UNIQUE_KEY_COUNT_MAX = 32
"""Records a query by unique id may find, whatever it asks for; RocketMQ's number."""

BODY_BYTES_MAX = FRAME_BYTES_MAX - 64 * 1024
"""The largest body of found records: a frame with room for its header."""

ENTRIES_MAX = 4_096
"""Entries of a queue in one answer."""

NO_TIME_MS = -1
"""The store time of a queue without messages."""


def query_message(
    request: TypedRequest[QueryMessage], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """QUERY_MESSAGE (12): the newest records that probably carry a key, until an answer is full."""
    header = request.header
    count_max = UNIQUE_KEY_COUNT_MAX if header.is_unique_key else max(header.max_num, 0)
    matches = state.log.lookup.by_key(
        header.topic, header.key, count_max, header.begin_timestamp, header.end_timestamp
    )
    views = _newest(matches.views)
    if not views:
        raise Refusal(
            ResponseCode.QUERY_NOT_FOUND,
            "can not find message, maybe time range not correct",
            QueryAnswer(index_last_update_timestamp=0, index_last_update_phyoffset=0),
        )
    answer = QueryAnswer(
        index_last_update_timestamp=matches.indexed_ms,
        index_last_update_phyoffset=matches.indexed_to,
    )
    return Answer(header=answer, body=views)


def view_message(
    request: TypedRequest[ViewMessage], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """VIEW_MESSAGE_BY_ID (33): the record at a log offset."""
    offset = request.header.offset
    view = state.log.lookup.record_view(LogOffset(offset))
    if view is None:
        remark = f"can not find message by the offset, {offset}"
        raise Refusal(ResponseCode.SYSTEM_ERROR, remark)
    return Answer(body=[view])


def search_offset(
    request: TypedRequest[SearchOffset], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """SEARCH_OFFSET_BY_TIMESTAMP (29): the first offset of a time, or on request the last."""
    header = request.header
    is_upper = (header.boundary_type or "").upper() == "UPPER"
    offset = state.log.lookup.offset_by_time(
        header.topic, header.queue_id, header.timestamp, Bound.UPPER if is_upper else Bound.LOWER
    )
    return _offset(offset)


def max_offset(
    request: TypedRequest[MaxOffset], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """GET_MAX_OFFSET (30): the offset of the next message of a queue."""
    return _offset(state.log.max_offset(request.header.topic, request.header.queue_id))


def min_offset(
    request: TypedRequest[OfQueue], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """GET_MIN_OFFSET (31): the offset of the oldest message of a queue."""
    topic, queue_id = request.header.topic, request.header.queue_id
    if topic in state.log.batched and not state.log.max_offset(topic, queue_id):
        return _offset(NO_BATCH)
    return _offset(state.log.min_offset(topic, queue_id))


def earliest_store_time(
    request: TypedRequest[OfQueue], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """GET_EARLIEST_MSG_STORETIME (32): when the oldest message of a queue was stored."""
    time_ms = state.log.lookup.earliest_store_ms(request.header.topic, request.header.queue_id)
    return Answer(header=StoreTimeAnswer(timestamp=NO_TIME_MS if time_ms is None else time_ms))


def _offset(offset: QueueOffset) -> Answer:
    return Answer(header=OffsetAnswer(offset=offset))


def _newest(views: list[memoryview]) -> list[memoryview]:
    """As many of the last views as fit into an answer, in their order."""
    left = BODY_BYTES_MAX
    for count, view in enumerate(reversed(views)):
        left -= len(view)
        if left < 0:
            return views[len(views) - count :]
    return views


# The index of a queue


def query_queue(
    request: TypedRequest[QueryConsumeQueue], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """QUERY_CONSUME_QUEUE (321): units of a queue.

    With extended queues, also what a group's filter says to them.
    """
    header = request.header
    topic, queue_id, group = header.topic, header.queue_id, header.consumer_group
    last = state.log.max_offset(topic, queue_id)
    if not last:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"{queue_id}@{topic} is not exist!")
    subscription, found, filter_text = None, None, None
    if group is not None:
        subscription = state.clients.subscription(group, topic)
        found = state.filters.find(topic, group)
        filter_text = f"{group}@{topic} is not online!"
        if subscription is not None:
            filter_text = "null" if found is None else found.to_file().decode()
    count_max = min(header.count, ENTRIES_MAX)
    entries = state.log.lookup.entries(topic, queue_id, QueueOffset(header.index), count_max)
    if not entries and not state.log.min_offset(topic, queue_id) <= header.index < last:
        return Answer(remark=f"Index {header.index} of {queue_id}@{topic} is not exist!")
    page = QueuePage(
        filter_data=filter_text,
        max_queue_index=last,
        min_queue_index=state.log.min_offset(topic, queue_id),
        queue_data=tuple(_unit(each, subscription, found) for each in entries),
        subscription_data=subscription,
    )
    return Answer(body=page.to_body())


def _unit(
    entry: LoggedUnit, subscription: Subscription | None, found: GroupFilter | None
) -> QueueUnit:
    log_offset, size_bytes, code, extension = entry
    if extension is None:
        missing = f"Cq extend not exist!addr: {code}" if is_address(code) else None
        return QueueUnit(
            msg=missing, physic_offset=log_offset, physic_size=size_bytes, tags_code=code
        )
    written = {
        "filterBitMap": b64encode(extension.bit_map).decode(),
        "msgStoreTime": extension.store_ms,
        "tagsCode": extension.tags_code,
    }
    return QueueUnit(
        bit_map=f"{int.from_bytes(extension.bit_map, 'little'):0{len(extension.bit_map) * 8}b}",
        eval=subscription is not None and _takes(subscription, found, extension),
        extend_data_json=msgspec.json.encode(written).decode(),
        physic_offset=log_offset,
        physic_size=size_bytes,
        tags_code=code,
    )


def _takes(subscription: Subscription, found: GroupFilter | None, unit: ExtensionUnit) -> bool:
    """Whether a group may want a message, as far as its extension unit tells."""
    if subscription.is_tag:
        try:
            return parse_tags(subscription.sub_string).matches_code(unit.tags_code)
        except InvalidExpression:
            return False
    if found is None or found.bloom_filter_data is None:
        return True
    return BLOOM.may_match(unit.bit_map, found.bloom_filter_data.bit_pos)


PROCESSORS: dict[RequestCode, Processor] = {
    RequestCode.QUERY_MESSAGE: query_message,
    RequestCode.VIEW_MESSAGE_BY_ID: view_message,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: search_offset,
    RequestCode.GET_MAX_OFFSET: max_offset,
    RequestCode.GET_MIN_OFFSET: min_offset,
    RequestCode.GET_EARLIEST_MSG_STORETIME: earliest_store_time,
    RequestCode.QUERY_CONSUME_QUEUE: query_queue,
}
