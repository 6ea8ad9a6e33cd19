"""Finding single messages, and having a member consume one at once.

An offset message id says on which broker a message is and where; the broker is asked only if
it is one of the cluster, because an id is any text that somebody typed.  A unique id and a key
are looked up in the key index of every broker that has the topic; the index knows hashes, so
what comes back is compared once more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flintmq.core.admin.cluster import fetch_cluster, readable_brokers, require_route
from flintmq.core.admin.groups import connections_at
from flintmq.core.admin.spans import ToTime, locate_spans
from flintmq.core.ask import CLIENT_CALL_MS, ask, refusal
from flintmq.core.conversation import Call, Conversation
from flintmq.core.reading.read_span import (
    EVERYTHING,
    OnBad,
    SpanReader,
    Wanted,
    ignore,
    read_messages,
)
from flintmq.core.routes import NameServers
from flintmq.errors import InvalidName, InvalidSetting
from flintmq.model import properties as names
from flintmq.model.message import ReceivedMessage
from flintmq.model.message_id import parse_offset_id
from flintmq.model.queue import QueueOffset, Span
from flintmq.protocol.bodies.client_call import DirectOutcome, DirectResult
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import request
from flintmq.protocol.headers.client_call import ConsumeDirectly
from flintmq.protocol.headers.lookup import QueryMessage, ViewMessage
from flintmq.protocol.records.received import decode_messages
from flintmq.protocol.records.sift import as_stored

COUNT_MAX = 64
"""Messages one search gives unless told otherwise; a broker gives no more for a key."""

FOREVER_MS = 2**63 - 1

_FOUND_OR_NOT = frozenset({int(ResponseCode.SUCCESS), int(ResponseCode.QUERY_NOT_FOUND)})


@dataclass(frozen=True, slots=True)
class DirectConsumption:
    """What a listener made of a message.  ``remark`` holds its exception, if there was one."""

    outcome: DirectOutcome | None
    remark: str
    elapsed_ms: int


def message_at(
    namesrv: NameServers, offset_id: str, *, on_bad: OnBad = ignore
) -> Conversation[ReceivedMessage | None]:
    """The message an offset id leads to (VIEW_MESSAGE_BY_ID, 33); None when it is deleted."""
    address, broker, log_offset = yield from _locate(namesrv, offset_id)
    header = ViewMessage(offset=log_offset)
    reply = yield Call(address, request(RequestCode.VIEW_MESSAGE_BY_ID, header), CLIENT_CALL_MS)
    if reply.code == ResponseCode.SYSTEM_ERROR and "can not find message" in (reply.remark or ""):
        return None
    if reply.code != ResponseCode.SUCCESS:
        raise refusal(reply, address)
    found = _decoded(reply.body, broker, on_bad)
    return found[0] if found else None


def messages_by_id(
    namesrv: NameServers, topic: str, unique_id: str, *, on_bad: OnBad = ignore
) -> Conversation[tuple[ReceivedMessage, ...]]:
    """Every message of a topic with this unique id (QUERY_MESSAGE, 12), retries included."""
    return (
        yield from _query(
            namesrv,
            topic,
            unique_id,
            lambda message: message.properties.get(names.UNIQ_KEY) == unique_id,
            is_unique_key=True,
            on_bad=on_bad,
        )
    )


def messages_by_key(
    namesrv: NameServers,
    topic: str,
    key: str,
    *,
    count_max: int = COUNT_MAX,
    start_ms: int = 0,
    stop_ms: int = FOREVER_MS,
    on_bad: OnBad = ignore,
) -> Conversation[tuple[ReceivedMessage, ...]]:
    """The messages of a topic that carry a key (QUERY_MESSAGE, 12), oldest first."""
    return (
        yield from _query(
            namesrv,
            topic,
            key,
            lambda message: key in message.keys,
            count_max=count_max,
            start_ms=start_ms,
            stop_ms=stop_ms,
            on_bad=on_bad,
        )
    )


def messages_by_time(
    namesrv: NameServers,
    topic: str,
    start_ms: int,
    stop_ms: int,
    *,
    wanted: Wanted = EVERYTHING,
    count_max: int = COUNT_MAX,
    on_bad: OnBad = ignore,
) -> Conversation[tuple[ReceivedMessage, ...]]:
    """Pull what was stored in ``[start_ms, stop_ms)``, queue by queue; oldest first.

    With more than ``count_max`` it is the first so many of each queue, and of those the oldest.
    Between two messages 4.9 finds the earlier one, so one more is read than it says.
    """
    spans = yield from locate_spans(namesrv, topic, ToTime(start_ms), ToTime(stop_ms))
    found: list[ReceivedMessage] = []
    for located in spans:
        queue, start, stop = located.span.queue, located.span.start, located.span.stop
        reader = SpanReader(
            Span(queue, start, QueueOffset(stop + 1)), located.address, wanted=wanted
        )
        read = yield from read_messages(reader, wanted, count_max=count_max + 1, on_bad=on_bad)
        found += (message for message in read if start_ms <= message.store_ms < stop_ms)
    found.sort(key=lambda message: message.store_ms)
    return tuple(found[:count_max])


def consume_directly(
    namesrv: NameServers, group: str, offset_id: str, *, client_id: str | None = None
) -> Conversation[DirectConsumption]:
    """Have a member of the group consume a message now (CONSUME_MESSAGE_DIRECTLY, 309).

    It goes through the broker that has the message, which does not choose a member by itself.
    No offset changes.
    """
    address, broker, _ = yield from _locate(namesrv, offset_id)
    message = yield from message_at(namesrv, offset_id)
    if message is None:
        raise InvalidName("message id", offset_id, "that message is gone")
    if client_id is None:
        client_id = yield from _any_member(address, broker, group)
    header = ConsumeDirectly(
        consumer_group=group,
        client_id=client_id,
        msg_id=offset_id,
        broker_name=broker,
        topic=message.topic,
    )
    reply = yield from ask(
        address, RequestCode.CONSUME_MESSAGE_DIRECTLY, header, timeout_ms=CLIENT_CALL_MS
    )
    result = DirectResult.from_body(reply.body)
    return DirectConsumption(result.consume_result, result.remark or "", result.spent_time_mills)


def _any_member(address: str, broker: str, group: str) -> Conversation[str]:
    connections = yield from connections_at(address, group)
    online = () if connections is None else connections.connection_set
    if not online:
        raise InvalidSetting("group", group, f"no member of it is connected to {broker}")
    return min(client.client_id for client in online)


def _locate(namesrv: NameServers, offset_id: str) -> Conversation[tuple[str, str, int]]:
    host, log_offset = parse_offset_id(offset_id)
    cluster = yield from fetch_cluster(namesrv)
    broker = cluster.broker_at(str(host))
    if broker is None:
        reason = f"it leads to {host}, which is no broker of this cluster; is it a unique id?"
        raise InvalidName("message id", offset_id, reason)
    return str(host), broker, log_offset


def _query(
    namesrv: NameServers,
    topic: str,
    key: str,
    fits: Callable[[ReceivedMessage], bool],
    *,
    is_unique_key: bool = False,
    count_max: int = COUNT_MAX,
    start_ms: int = 0,
    stop_ms: int = FOREVER_MS,
    on_bad: OnBad = ignore,
) -> Conversation[tuple[ReceivedMessage, ...]]:
    route = yield from require_route(namesrv, topic)
    header = QueryMessage(
        topic=topic,
        key=key,
        max_num=count_max,
        begin_timestamp=start_ms,
        end_timestamp=stop_ms,
        is_unique_key=is_unique_key,
    )
    found: list[ReceivedMessage] = []
    for broker, address in readable_brokers(route).items():
        reply = yield from ask(address, RequestCode.QUERY_MESSAGE, header, accepted=_FOUND_OR_NOT)
        if reply.code == ResponseCode.SUCCESS:
            found += filter(fits, _decoded(reply.body, broker, on_bad))
    found.sort(key=lambda message: message.store_ms)
    return tuple(found[-count_max:])


def _decoded(records: bytes, broker: str, on_bad: OnBad) -> list[ReceivedMessage]:
    """For people: what cannot be decoded comes as it is stored, ``on_bad`` is called with it."""
    received = decode_messages(records, broker=broker)
    if received.fault is not None:
        raise received.fault
    for one in received.bad:
        on_bad(one)
    return [*received.messages, *map(as_stored, received.bad)]
