"""Several messages in one send: each becomes a record of its own, side by side in the log.

What the header says of properties is put behind those of every message, as bytes, so a name
may stand twice and the header's counts.  Neither delays nor transactions nor retry topics are
for batches.

The records of a batch may be many times larger than its body, because of what is put to each;
so their size is known before any is made.
"""

from __future__ import annotations

from collections.abc import Iterator

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
from flintmq.model.java_hash import tags_code
from flintmq.model.queue import LogOffset
from flintmq.model.sys_flag import INNER_BATCH, MULTI_TAGS, TRANSACTION_MASK
from flintmq.protocol.batch import BatchEntry, decode_batch
from flintmq.protocol.bodies.topic import TopicConfig
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.properties import (
    PROPERTIES_BYTES_MAX,
    encode_properties,
    parse_properties,
)
from flintmq.protocol.record import RECORD_BYTES_MAX, RECORD_BYTES_MIN
from flintmq.protocol.record_draft import draft_records
from flintmq.store.dispatch import keys_of

BATCH_BYTES_MAX = RECORD_BYTES_MAX
"""All records of a batch: what a full body of small messages grows to, and twice that."""

_SEPARATOR = b"\x02"
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
    entries, texts = _split(request, properties, state)
    queue_id = header.queue_id
    if queue_id < 0:
        queue_id = state.pick(topic.write_queue_nums)
    sys_flag = header.sys_flag
    if topic.topic_filter_type == MULTI_TAG:
        sys_flag |= MULTI_TAGS
    common = {name: properties[name] for name in _LOOKED_AT if name in properties}
    parsed = [parse_properties(entry.properties) | common for entry in entries]
    appended = state.log.append_batch(
        draft_records(
            header.topic,
            [(entry.body, text, entry.flag) for entry, text in zip(entries, texts, strict=True)],
            queue_id=queue_id,
            born_ms=header.born_timestamp,
            born_host=peer.host,
            store_host=state.host,
            sys_flag=sys_flag,
            reconsume_times=header.reconsume_times,
        ),
        header.topic,
        queue_id,
        tags_codes=[tags_code(each.get(names.TAGS)) for each in parsed],
        keys=[keys_of(each) for each in parsed],
        now_ms=now_ms,
    )
    first, last = appended[0], appended[-1]
    stop = LogOffset(last.log_offset + last.size_bytes)
    size_bytes = stop - first.log_offset
    state.stats.sent(header.topic, len(appended), size_bytes, now_ms)
    ids = ",".join(message_ids(state.host, [each.log_offset for each in appended]))
    unique_id = properties.get(names.UNIQ_KEY)
    return SentMessages(
        sent_answer(state, ids, queue_id, first.queue_offset, unique_id),
        stop if waits_for_medium(properties) else None,
        ids,
        len(appended),
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
) -> tuple[list[BatchEntry], list[bytes]]:
    """The messages of a batch, and the properties each is stored with."""
    try:
        entries = decode_batch(request.body)
    except MalformedBody as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"MalformedBody: {error}") from None
    try:
        common = encode_properties(properties)
    except LocalProtocolError:
        raise illegal(state) from None
    each_bytes = RECORD_BYTES_MIN + len(request.header.topic) + len(common)
    limit = min(BATCH_BYTES_MAX, state.config.store.batch_bytes_max)
    if len(request.body) + each_bytes * len(entries) > limit:
        raise illegal(state)
    texts = list(_joined(entries, common))
    if max(map(len, texts)) > PROPERTIES_BYTES_MAX:
        raise illegal(state)
    return entries, texts


def _joined(entries: list[BatchEntry], common: bytes) -> Iterator[bytes]:
    for entry in entries:
        own = entry.properties
        if own and not own.endswith(_SEPARATOR):
            own += _SEPARATOR
        yield own + common
