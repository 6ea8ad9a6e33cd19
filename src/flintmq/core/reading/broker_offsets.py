"""Where a queue begins and ends, and where a group stands in it: questions to its broker.

Every one is one call.  A group's offset that the broker does not know is None and never a
number: where to start then is a decision, and not made here.
"""

from __future__ import annotations

from flintmq.core.ask import ASK_MS, ask, refusal
from flintmq.core.conversation import Call, Conversation
from flintmq.errors import RemoteProtocolError
from flintmq.model.queue import Extent, QueueOffset, QueueRef
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.headers.common_headers import OfQueue
from flintmq.protocol.headers.offset import (
    MaxOffset,
    OffsetAnswer,
    QueryConsumerOffset,
    SearchOffset,
    StoreTimeAnswer,
    UpdateConsumerOffset,
)

_KNOWN_OR_NOT = frozenset({int(ResponseCode.SUCCESS), int(ResponseCode.QUERY_NOT_FOUND)})


def group_offset(
    address: str,
    group: str,
    queue: QueueRef,
    *,
    zero_if_young: bool | None = None,
    timeout_ms: int = ASK_MS,
) -> Conversation[QueueOffset | None]:
    """The committed offset of a group (QUERY_CONSUMER_OFFSET, 14); None without any.

    In a queue from which nothing was deleted yet brokers say 0 instead, so that a group that
    starts at the end misses nothing of a new topic; 5.x can be told not to.

    A broker that cannot say is an error and not None: whoever took that for "never consumed"
    would skip messages or read them all again.
    """
    header = QueryConsumerOffset(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        set_zero_if_not_found=zero_if_young,
        broker_name=queue.broker,
    )
    reply = yield from ask(
        address,
        RequestCode.QUERY_CONSUMER_OFFSET,
        header,
        timeout_ms=timeout_ms,
        accepted=_KNOWN_OR_NOT,
    )
    return None if reply.code == ResponseCode.QUERY_NOT_FOUND else _offset(reply, address)


def commit_request(
    group: str, queue: QueueRef, offset: QueueOffset, *, oneway: bool = False
) -> Command:
    """UPDATE_CONSUMER_OFFSET (15).  ``offset`` is the next one the group wants."""
    header = UpdateConsumerOffset(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        commit_offset=offset,
        broker_name=queue.broker,
    )
    return request(RequestCode.UPDATE_CONSUMER_OFFSET, header, oneway=oneway)


def commit_offset(
    address: str, group: str, queue: QueueRef, offset: QueueOffset, *, timeout_ms: int = ASK_MS
) -> Conversation[None]:
    """Commit an offset (UPDATE_CONSUMER_OFFSET, 15) and wait until the broker has it."""
    reply = yield Call(address, commit_request(group, queue, offset), timeout_ms)
    if reply.code != ResponseCode.SUCCESS:
        raise refusal(reply, address)


def commit_oneway(
    address: str, group: str, queue: QueueRef, offset: QueueOffset, *, timeout_ms: int = ASK_MS
) -> Conversation[None]:
    """Commit an offset (UPDATE_CONSUMER_OFFSET, 15) oneway: nobody says whether it was taken."""
    yield Call(address, commit_request(group, queue, offset, oneway=True), timeout_ms)


def max_offset(address: str, queue: QueueRef) -> Conversation[QueueOffset]:
    """The offset of the next message (GET_MAX_OFFSET, 30)."""
    header = MaxOffset(topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker)
    reply = yield from ask(address, RequestCode.GET_MAX_OFFSET, header)
    return _offset(reply, address)


def min_offset(address: str, queue: QueueRef) -> Conversation[QueueOffset]:
    """The offset of the oldest message (GET_MIN_OFFSET, 31)."""
    reply = yield from ask(address, RequestCode.GET_MIN_OFFSET, _of(queue))
    return _offset(reply, address)


def extent(address: str, queue: QueueRef) -> Conversation[Extent]:
    """The first and the next offset; the first is asked before, so it is never the larger one."""
    start = yield from min_offset(address, queue)
    stop = yield from max_offset(address, queue)
    return Extent(start, max(start, stop))


def offset_at(address: str, queue: QueueRef, time_ms: int) -> Conversation[QueueOffset]:
    """The first offset stored at a time or later (SEARCH_OFFSET_BY_TIMESTAMP, 29).

    Between two messages 4.9 gives the earlier one and 5.x the later.
    """
    header = SearchOffset(
        topic=queue.topic,
        queue_id=queue.queue_id,
        timestamp=time_ms,
        broker_name=queue.broker,
    )
    reply = yield from ask(address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
    return _offset(reply, address)


def earliest_ms(address: str, queue: QueueRef) -> Conversation[int | None]:
    """When the oldest message was stored (GET_EARLIEST_MSG_STORETIME, 32); None without any."""
    reply = yield from ask(address, RequestCode.GET_EARLIEST_MSG_STORETIME, _of(queue))
    time_ms = reply.header(StoreTimeAnswer).timestamp
    return None if time_ms < 0 else time_ms


def _of(queue: QueueRef) -> OfQueue:
    return OfQueue(topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker)


def _offset(reply: Command, address: str) -> QueueOffset:
    offset = reply.header(OffsetAnswer).offset
    if offset < 0:
        raise RemoteProtocolError(f"{address} gave {offset} for an offset")
    return QueueOffset(offset)
