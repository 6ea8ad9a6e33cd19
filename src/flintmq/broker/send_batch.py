"""Several messages in one send: each becomes a record of its own, side by side in the log.

What the header says of properties is put behind those of every message, as bytes, so a name
may stand twice and the header's counts.  Neither delays nor transactions nor retry topics are
for batches.

The records of a batch may be many times larger than its body, because of what is put to each;
so their size is known before any is made.
"""

from __future__ import annotations

from functools import lru_cache

from flintmq.broker.outcome import Refusal
from flintmq.broker.peer import Peer
from flintmq.broker.put import TIMER_NAMES, illegal, wanted_level
from flintmq.broker.send_answer import SentMessages, message_ids, sent_answer
from flintmq.broker.send_checks import MULTI_TAG, SendRequest
from flintmq.broker.send_properties import mark, waits_for_medium
from flintmq.broker.state import BrokerState
from flintmq.errors import LocalProtocolError, MalformedBody
from flintmq.model import properties as names
from flintmq.model.group import is_retry_topic
from flintmq.model.host import Host
from flintmq.model.java_hash import tags_code
from flintmq.model.sys_flag import INNER_BATCH, MULTI_TAGS, TRANSACTION_MASK
from flintmq.protocol.batch import split_batch
from flintmq.protocol.bodies.topic import TopicConfig
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.properties import (
    PROPERTIES_BYTES_MAX,
    encode_properties,
    parse_properties,
)
from flintmq.protocol.record import RECORD_BYTES_MAX, RECORD_BYTES_MIN
from flintmq.protocol.record_draft import RecordPattern, packed_host
from flintmq.store.dispatch import keys_of

BATCH_BYTES_MAX = RECORD_BYTES_MAX
"""All records of a batch: what a full body of small messages grows to, and twice that."""

PATTERNS_MAX = 1_024
"""Queues whose records are remembered in outline."""

_SEPARATOR = b"\x02"
_UNIQUE = names.UNIQ_KEY.encode() + b"\x01"
_UNIQUE_BYTES = len(_UNIQUE)
_LOOKED_AT = (names.TAGS, names.KEYS, names.UNIQ_KEY)
"""What a record is filtered and found by."""


def store_batch(
    request: SendRequest, topic: TopicConfig, state: BrokerState, peer: Peer, now_ms: int
) -> SentMessages:
    """Take a batch for one queue."""
    header = request.header
    if is_retry_topic(header.topic):
        raise Refusal(
            ResponseCode.MESSAGE_ILLEGAL,
            f"batch request does not support retry group {header.topic}",
        )
    properties = parse_properties(header.properties or "")
    mark(properties, state.config)
    properties[names.CLUSTER] = state.config.cluster
    _check_kind(request, properties, state)
    parts, common = _split(request, properties, state)
    queue_id = header.queue_id
    if queue_id < 0:
        queue_id = state.pick(topic.write_queue_nums)
    sys_flag = header.sys_flag
    if topic.topic_filter_type == MULTI_TAG:
        sys_flag |= MULTI_TAGS
    codes, keys = _looked_at(parts, properties)
    batch = state.log.plain.append_batch(
        _pattern(
            header.topic,
            queue_id,
            peer.host.is_v6,
            state.host,
            sys_flag,
            header.reconsume_times,
        ),
        parts,
        common,
        header.born_timestamp,
        packed_host(peer.host),
        tags_codes=codes,
        keys=keys,
        now_ms=now_ms,
    )
    size_bytes = batch.stop - batch.log_offsets[0]
    state.stats.sent(header.topic, len(parts), size_bytes, now_ms)
    ids = message_ids(state.host, batch.log_offsets)
    unique_id = properties.get(names.UNIQ_KEY)
    return SentMessages(
        sent_answer(state, ids, queue_id, batch.queue_offset, unique_id),
        batch.stop if waits_for_medium(properties) else None,
        ids,
        len(parts),
        size_bytes,
    )


def _check_kind(request: SendRequest, properties: dict[str, str], state: BrokerState) -> None:
    """Refuse what cannot be done to several messages at once."""
    is_delayed = wanted_level(properties) > 0 or any(name in properties for name in TIMER_NAMES)
    is_special = request.header.sys_flag & (TRANSACTION_MASK | INNER_BATCH)
    is_large = len(request.body) > state.config.store.message_bytes_max
    if is_delayed or is_special or is_large:
        raise illegal(state)


def _split(
    request: SendRequest, properties: dict[str, str], state: BrokerState
) -> tuple[list[tuple[bytes, bytes, int]], bytes]:
    """The messages of a batch, body, properties and flag, and what all properties end with."""
    try:
        parts = split_batch(request.body)
    except MalformedBody as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"MalformedBody: {error}") from None
    try:
        common = encode_properties(properties)
    except LocalProtocolError:
        raise illegal(state) from None
    each_bytes = RECORD_BYTES_MIN + len(request.header.topic) + len(common)
    limit = min(BATCH_BYTES_MAX, state.config.store.batch_bytes_max)
    if len(request.body) + each_bytes * len(parts) > limit:
        raise illegal(state)
    texts = [text for _, text, _ in parts]
    if not all(text[-1:] == _SEPARATOR for text in texts):
        parts = [(body, _ended(text), flag) for body, text, flag in parts]
        texts = [text for _, text, _ in parts]
    if max(map(len, texts)) + len(common) > PROPERTIES_BYTES_MAX:
        raise illegal(state)
    return parts, common


def _ended(text: bytes) -> bytes:
    return text + _SEPARATOR if text and text[-1:] != _SEPARATOR else text


def _looked_at(
    parts: list[tuple[bytes, bytes, int]], properties: dict[str, str]
) -> tuple[list[int], list[list[str]]]:
    """What each message is filtered by and found by: the code of its tag, and its keys.

    Where the header has a unique id, as all clients write one, that of a message does not count;
    and what else it has is mostly the same for all of them.
    """
    common = {name: properties[name] for name in _LOOKED_AT if name in properties}
    overrides_id = names.UNIQ_KEY in common
    known: dict[bytes, tuple[int, list[str]]] = {}
    codes, keys = [], []
    for _, text, _ in parts:
        if overrides_id and text[:_UNIQUE_BYTES] == _UNIQUE:
            text = text[text.find(_SEPARATOR) :]
        found = known.get(text)
        if found is None:
            each = parse_properties(text) | common
            found = known[text] = tags_code(each.get(names.TAGS)), keys_of(each)
        codes.append(found[0])
        keys.append(found[1])
    return codes, keys


@lru_cache(maxsize=PATTERNS_MAX)
def _pattern(
    topic: str, queue_id: int, born_is_v6: bool, host: Host, sys_flag: int, reconsume_times: int
) -> RecordPattern:
    return RecordPattern(
        topic,
        queue_id=queue_id,
        born_host=Host(bytes(16 if born_is_v6 else 4), 0),
        store_host=host,
        sys_flag=sys_flag,
        reconsume_times=reconsume_times,
    )
