"""Several messages in one send: each becomes a record of its own, side by side in the log.

In a topic that keeps batches they stay one record, whose body is that of the request, if the batch
has a unique id; what the header says of properties is then said of the whole batch.

What the header says of properties is put behind those of every message, as bytes, so a name
may stand twice and the header's counts.  Neither delays nor transactions nor retry topics are
for batches.

The records of a batch may be many times larger than its body, because of what is put to each;
so their size is known before any is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat

from flintmq.broker.counters.message_counts import type_of
from flintmq.broker.requests.outcome import Refusal
from flintmq.broker.requests.peer import Peer
from flintmq.broker.scheduled.append import TIMER_NAMES, append, illegal
from flintmq.broker.send.send_answer import SentMessages, message_ids, sent_answer
from flintmq.broker.send.send_checks import SendRequest, new_message
from flintmq.broker.send.send_properties import mark, waits_for_disk
from flintmq.broker.state.broker_state import BrokerState
from flintmq.broker.state.put_message import wanted_level
from flintmq.errors import LocalProtocolError, MalformedBody
from flintmq.kernel.layout import RECORD_BYTES_MIN
from flintmq.kernel.python.batches import rest_of_all
from flintmq.model import properties as names
from flintmq.model.group import is_retry_topic
from flintmq.model.java_hash import tags_code
from flintmq.model.queue import LogOffset
from flintmq.model.sys_flag import INNER_BATCH, NEED_UNWRAP, TRANSACTION_MASK
from flintmq.protocol.bodies.topic import TopicConfig
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.records.batch import BatchColumns, split_batch
from flintmq.protocol.records.properties import (
    PROPERTIES_BYTES_MAX,
    encode_properties,
    parse_properties,
    split_unique_id,
)
from flintmq.protocol.records.record import RECORD_BYTES_MAX
from flintmq.protocol.records.record_checksum import CHECKSUM_BYTES
from flintmq.protocol.records.record_pattern import packed_host, pattern_of
from flintmq.store.files.layout import BATCH_COUNT_MAX
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.queues.dispatch import keys_of

BATCH_BYTES_MAX = RECORD_BYTES_MAX
"""All records of a batch: what a full body of small messages grows to, and twice that."""

_SEPARATOR = b"\x02"
FOUND_BY = (names.TAGS, names.KEYS, names.UNIQ_KEY)
"""What a record is filtered and found by."""

_FOUND_BY = tuple(f"{name}\x01".encode() for name in FOUND_BY)
_ID_START = f"{names.UNIQ_KEY}\x01"


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
    is_inner = header.topic in state.log.batched and names.UNIQ_KEY in properties
    _check_kind(request, properties, state, INNER_BATCH if is_inner else 0)
    if is_inner:
        return _store_inner(request, topic, properties, state, peer, now_ms)
    try:
        common = encode_properties(properties)
    except LocalProtocolError:
        raise illegal(state) from None
    try:
        parts = split_checked(request.body, header.topic, common, state.config.store)
    except MalformedBody as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"MalformedBody: {error}") from None
    if parts is None:
        raise illegal(state)
    message = new_message(request, topic, properties, state, peer)
    found_by = {name: properties[name] for name in FOUND_BY if name in properties}
    rest = rest_of_all(parts.properties) if names.UNIQ_KEY in found_by else None
    codes, keys = looked_at(parts.properties, found_by, rest)
    batch = state.log.plain.append_batch(
        pattern_of(
            message.topic,
            message.queue_id,
            peer.host.is_v6,
            state.host.packed,
            state.host.port,
            0,  # each message has its own flag
            message.sys_flag,
            message.reconsume_times,
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
    count = len(batch.log_offsets)
    state.stats.sent(header.topic, count, size_bytes, now_ms)
    state.stats.counts.add_alike(header.topic, type_of(properties), count, size_bytes)
    ids = message_ids(state.host, batch.log_offsets)
    unique_id = properties.get(names.UNIQ_KEY)
    return SentMessages(
        sent_answer(state, ids, message.queue_id, batch.queue_offset, unique_id),
        batch.stop if waits_for_disk(properties) else None,
        ids,
        count,
        size_bytes,
    )


def _store_inner(
    request: SendRequest,
    topic: TopicConfig,
    properties: dict[str, str],
    state: BrokerState,
    peer: Peer,
    now_ms: int,
) -> SentMessages:
    """Take a batch as one record."""
    try:
        count = len(split_batch(request.body).bodies)
    except MalformedBody as error:
        raise Refusal(ResponseCode.SYSTEM_ERROR, f"MalformedBody: {error}") from None
    if count > BATCH_COUNT_MAX:
        raise illegal(state)
    properties[names.INNER_NUM] = str(count)
    message = new_message(request, topic, properties, state, peer)
    message.sys_flag |= INNER_BATCH | NEED_UNWRAP
    appended = append(state, message, now_ms)
    state.stats.sent(message.topic, count, appended.size_bytes, now_ms)
    kind = type_of(properties)
    state.stats.counts.add_alike(message.topic, kind, count, appended.size_bytes)
    id_text = message_ids(state.host, [appended.log_offset])
    unique_id = properties[names.UNIQ_KEY]
    stop = LogOffset(appended.log_offset + appended.size_bytes)
    return SentMessages(
        sent_answer(
            state, id_text, message.queue_id, appended.queue_offset, unique_id, is_inner_batch=True
        ),
        stop if waits_for_disk(properties) else None,
        id_text,
        count,
        appended.size_bytes,
    )


def _check_kind(
    request: SendRequest, properties: dict[str, str], state: BrokerState, allowed: int = 0
) -> None:
    """Refuse what cannot be done to several messages at once; ``allowed`` flags may be set."""
    is_delayed = wanted_level(properties) > 0 or any(name in properties for name in TIMER_NAMES)
    is_special = request.header.sys_flag & ~allowed & (TRANSACTION_MASK | INNER_BATCH)
    is_large = len(request.body) > state.config.store.message_bytes_max
    if is_delayed or is_special or is_large:
        raise illegal(state)


def split_checked(
    body: bytes, topic: str, common: bytes, config: StoreConfig
) -> BatchColumns | None:
    """The messages of a batch; nothing when they take too much room.

    ``common`` is what the properties of all end with.  Raises `MalformedBody`.
    """
    if config.serves_light and _LIGHT_NAME in body:  # records of a batch are in no light queue
        return None
    parts = split_batch(body)
    common_bytes = len(common) + CHECKSUM_BYTES * config.record_checksums
    each_bytes = RECORD_BYTES_MIN + len(topic) + common_bytes
    limit = min(BATCH_BYTES_MAX, config.batch_bytes_max)
    texts = parts.properties
    if len(body) + each_bytes * len(texts) > limit:
        return None
    if not all(map(bytes.endswith, texts, repeat(_SEPARATOR))):
        texts = list(map(_ended, texts))
        parts = parts._replace(properties=texts)
    if max(map(len, texts)) + common_bytes > PROPERTIES_BYTES_MAX:
        return None
    return parts


_LIGHT_NAME = names.INNER_MULTI_QUEUE_OFFSET.encode()


def _ended(text: bytes) -> bytes:
    return text + _SEPARATOR if text and text[-1:] != _SEPARATOR else text


def looked_at(
    texts: Sequence[bytes], common: Mapping[str, str], rest: bytes | None
) -> tuple[list[int], list[list[str]]]:
    """What each message is filtered by and found by: the code of its tag, and its keys.

    ``common`` is what the header says of that.  Where it has a unique id, as all clients write
    one, that of a message does not count; and what else it has is mostly the same for all: then
    it is ``rest``.
    """
    has_id = names.UNIQ_KEY in common
    if rest is not None:
        code, own_keys = looked_up(rest, common)
        return [code] * len(texts), [own_keys] * len(texts)
    ids = _ids_alone(texts)
    if ids is not None:
        code, own_keys = looked_up(b"", common)
        keys = [own_keys] * len(ids) if has_id else [[unique_id, *own_keys] for unique_id in ids]
        return [code] * len(ids), keys
    known: dict[bytes, tuple[int, list[str]]] = {}
    codes, keys = [], []
    for text in texts:
        if has_id and (split := split_unique_id(text)) is not None:
            text = split[0] + split[2]
        found = known.get(text)
        if found is None:
            found = known[text] = looked_up(text, common)
        codes.append(found[0])
        keys.append(found[1])
    return codes, keys


def _ids_alone(texts: Sequence[bytes]) -> list[str] | None:
    """The unique ids, where all properties begin with one and have nothing else to be found by.

    So are those of a producer that gives each message of a batch a property of its own.
    """
    pieces = [text.partition(_SEPARATOR) for text in texts]
    rests = _SEPARATOR.join([rest for _, _, rest in pieces])
    if any(name in rests for name in _FOUND_BY):
        return None
    heads = _SEPARATOR.join([head for head, _, _ in pieces])
    if not heads.isascii() or heads.count(b"\x01") != len(texts):
        return None
    found = heads.decode("ascii").split("\x02")
    ids = [head[len(_ID_START) :] for head in found]
    return ids if all(ids) and all(map(str.startswith, found, repeat(_ID_START))) else None


def looked_up(text: bytes, common: Mapping[str, str]) -> tuple[int, list[str]]:
    """The code of the tag and the keys of a message; ``common`` is what counts more."""
    properties = {**parse_properties(text), **common}
    return tags_code(properties.get(names.TAGS)), keys_of(properties)
