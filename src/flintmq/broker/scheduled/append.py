"""Appends a message as a record of the log: every message that no send or batch appends itself.

The record is written at the end of the turn.  The caller names topic and queue;
nothing is looked up or delayed here.
"""

from __future__ import annotations

import msgspec

from flintmq.broker.requests.outcome import Refusal
from flintmq.broker.scheduled.light_messages import number_light
from flintmq.broker.tables.broker_tables import BrokerTables
from flintmq.errors import LocalProtocolError
from flintmq.model import properties as names
from flintmq.model.host import Host
from flintmq.model.java_hash import tags_code
from flintmq.model.sys_flag import INNER_BATCH
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.records.properties import encode_properties
from flintmq.protocol.records.record_checksum import unlike_checksummed
from flintmq.protocol.records.record_pattern import RecordPattern, packed_host, pattern_of
from flintmq.store.message_log import Appended
from flintmq.store.queues.dispatch import keys_of
from flintmq.store.recovery.log_columns import inner_count

TIMER_NAMES = (names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS)
"""How a producer asks for a time of delivery, in the order they count."""


class NewMessage(msgspec.Struct, gc=False):
    """A message on its way into the log.  `put_message` may change it."""

    topic: str
    queue_id: int
    body: bytes
    properties: dict[str, str]
    born_ms: int
    born_host: Host
    store_host: Host
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    prepared_offset: int = 0


def illegal(state: BrokerTables) -> Refusal:
    """The answer to a message whose parts are too large."""
    limit = state.config.store.message_bytes_max
    return Refusal(
        ResponseCode.MESSAGE_ILLEGAL,
        "the message is illegal, maybe msg body or properties length not matched. "
        f"msg body length limit {limit}B, msg properties length limit 32KB.",
    )


def read_only() -> Refusal:
    """The answer to a message for a broker whose log only a master may extend."""
    return Refusal(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        "service not available now. It may be caused by one of the following reasons: "
        "messages are put to the slave, the broker is being replaced as master.",
    )


def append(
    state: BrokerTables,
    message: NewMessage,
    now_ms: int,
    *,
    delay_level: int = 0,
    encoded: bytes | None = None,
) -> Appended:
    """Append a message as it is.

    ``encoded`` is what to store of its properties, if known; it ends with the broker's own marks.
    """
    if state.is_read_only:
        raise read_only()
    properties = message.properties
    count = 1
    if message.sys_flag & INNER_BATCH:
        count, encoded = _number_batch(state, message), None
    light: list[str] = []
    if state.log.raw.light.is_on:
        light = number_light(state, message.topic, properties)
        encoded = None if light else encoded
    bit_map = b""
    if state.config.bit_map_filter:
        bit_map = state.filters.bit_map(message.topic, properties)
    code = tags_code(properties.get(names.TAGS))
    try:
        appended = state.log.append(
            _pattern(message),
            message.body,
            unlike_checksummed(encode_properties(properties)) if encoded is None else encoded,
            message.born_ms,
            packed_host(message.born_host),
            tags_code=code,
            keys=keys_of(properties),
            delay_level=delay_level,
            bit_map=bit_map,
            count=count,
            now_ms=now_ms,
        )
    except LocalProtocolError:
        raise illegal(state) from None
    if light:
        place = appended.log_offset, appended.size_bytes
        state.log.raw.light.add(light, *place, code, now_ms)
    return appended


def _pattern(message: NewMessage) -> RecordPattern:
    """The pattern of its record, cached unless the record ends a transaction."""
    born_is_v6, store_host = message.born_host.is_v6, message.store_host
    if message.prepared_offset:
        return RecordPattern(
            message.topic,
            message.queue_id,
            store_host=store_host,
            born_is_v6=born_is_v6,
            flag=message.flag,
            sys_flag=message.sys_flag,
            reconsume_times=message.reconsume_times,
            prepared_offset=message.prepared_offset,
        )
    return pattern_of(
        message.topic,
        message.queue_id,
        born_is_v6,
        store_host.packed,
        store_host.port,
        message.flag,
        message.sys_flag,
        message.reconsume_times,
    )


def _number_batch(state: BrokerTables, message: NewMessage) -> int:
    """Return how many messages an inner batch has, and write its first offset into it.

    Only topics that keep batches take one: no other queue could count its messages.
    """
    batched, properties = state.log.batched, message.properties
    if message.topic not in batched:
        raise illegal(state)
    base = batched.next_offset(message.topic, message.queue_id)
    properties[names.INNER_BASE] = str(base)
    return inner_count(properties.get(names.INNER_NUM, ""))
