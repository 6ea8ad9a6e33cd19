"""Storing a message: the one way into the log for sends, retries and what the broker writes.

A delay level or a timer turns a message into one of a system topic, with its own topic and
queue kept as properties; everything else goes where it says.  The record is written at the
end of the turn.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from flintmq.broker.outcome import Refusal
from flintmq.errors import LocalProtocolError
from flintmq.model import properties as names
from flintmq.model.host import Host
from flintmq.model.java_hash import tags_code
from flintmq.model.sys_flag import INNER_BATCH, TRANSACTION_MASK, TransactionType
from flintmq.model.topic import SCHEDULE_TOPIC
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.properties import encode_properties
from flintmq.protocol.record_draft import draft_record
from flintmq.store.dispatch import keys_of
from flintmq.store.log_columns import inner_count
from flintmq.store.message_log import Appended

if TYPE_CHECKING:
    from flintmq.broker.state import BrokerState

JAVA_INT = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)

TIMER_NAMES = (names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS)
"""How a producer asks for a time of delivery, in the order they count."""

_DELAYABLE = frozenset({int(TransactionType.NONE), int(TransactionType.COMMIT)})


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


def illegal(state: BrokerState) -> Refusal:
    """The answer to a message whose parts are too large."""
    limit = state.config.store.message_bytes_max
    return Refusal(
        ResponseCode.MESSAGE_ILLEGAL,
        "the message is illegal, maybe msg body or properties length not matched. "
        f"msg body length limit {limit}B, msg properties length limit 32KB.",
    )


def put_message(state: BrokerState, message: NewMessage, now_ms: int) -> Appended:
    """Append a message, delayed if it asks for that.  Raises `Refusal` for what is illegal."""
    level = 0
    if message.sys_flag & TRANSACTION_MASK in _DELAYABLE:
        level = wanted_level(message.properties)
        if level > 0:
            level = _delay(state, message, level)
        elif state.timers.takes(message):
            state.timers.schedule(state, message, now_ms)
    return append(state, message, now_ms, delay_level=max(level, 0))


def append(
    state: BrokerState,
    message: NewMessage,
    now_ms: int,
    *,
    delay_level: int = 0,
    encoded: bytes | None = None,
) -> Appended:
    """Append a message as it is.  ``encoded`` is what to store of its properties, if known."""
    properties = message.properties
    count = 1
    if message.sys_flag & INNER_BATCH:
        count, encoded = _number_batch(state, message), None
    try:
        draft = draft_record(
            message.topic,
            message.body,
            encode_properties(properties) if encoded is None else encoded,
            queue_id=message.queue_id,
            born_ms=message.born_ms,
            born_host=message.born_host,
            store_host=message.store_host,
            flag=message.flag,
            sys_flag=message.sys_flag,
            reconsume_times=message.reconsume_times,
            prepared_offset=message.prepared_offset,
        )
    except LocalProtocolError:
        raise illegal(state) from None
    bit_map = b""
    if state.config.bit_map_filter:
        bit_map = state.filters.bit_map(message.topic, properties)
    return state.log.append(
        draft,
        message.topic,
        message.queue_id,
        tags_code=tags_code(properties.get(names.TAGS)),
        keys=keys_of(properties),
        delay_level=delay_level,
        bit_map=bit_map,
        count=count,
        now_ms=now_ms,
    )


def _number_batch(state: BrokerState, message: NewMessage) -> int:
    """Tell how many messages an inner batch has; it is told where they begin.

    Only topics that keep batches take one: no other queue could count its messages.
    """
    batched, properties = state.log.batched, message.properties
    if message.topic not in batched:
        raise illegal(state)
    base = batched.next_offset(message.topic, message.queue_id)
    properties[names.INNER_BASE] = str(base)
    return inner_count(properties.get(names.INNER_NUM, ""))


def wanted_level(properties: Mapping[str, str]) -> int:
    """The delay level a message asks for; 0 and below mean none."""
    text = properties.get(names.DELAY)
    if text is None:
        return 0
    if not JAVA_INT.fullmatch(text) or not -(2**31) <= int(text) < 2**31:
        raise Refusal(
            ResponseCode.SYSTEM_ERROR, f'NumberFormatException: For input string: "{text}"'
        )
    return int(text)


def _delay(state: BrokerState, message: NewMessage, level: int) -> int:
    """Make it a message of the schedule topic; tell its level, which may be lower."""
    properties = message.properties
    level = min(level, len(state.config.store.delay_levels_ms))
    for name in TIMER_NAMES:
        properties.pop(name, None)
    properties[names.DELAY] = str(level)
    properties[names.REAL_TOPIC] = message.topic
    properties[names.REAL_QUEUE_ID] = str(message.queue_id)
    message.topic = SCHEDULE_TOPIC
    message.queue_id = level - 1
    state.delays.note_new()
    return level
