"""A message as it leaves: checked, named, packed, its properties written.

A `Draft` is the same for every try to send it, so that a message that was stored twice can be
told by its unique id.  What no broker would take is refused here, before any is asked: a body
that is too large, properties over the limit of a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from flintmq.core.group.actions import SendToRetry
from flintmq.errors import BodyTooLarge, InvalidMessage, InvalidSetting
from flintmq.kernel.face import loops
from flintmq.model import properties as names
from flintmq.model.group import is_retry_topic
from flintmq.model.message import KEY_SEPARATOR, Message
from flintmq.model.sys_flag import Compression, TransactionType, with_compression
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.compression import pack
from flintmq.protocol.records.batch import BATCH_ENTRIES_MAX, join_batch
from flintmq.protocol.records.properties import PROPERTIES_BYTES_MAX, format_properties

MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""What producers and brokers allow unless told otherwise."""

BATCH_BYTES_MAX: Final = 1024 * 1024
"""One batch.  Its records are larger than its body, and brokers hold those against 4 MiB."""

COMPRESS_FROM_BYTES: Final = 4_096

_ENTRY_BYTES = 22  # sizes, flag and checksum of a message in a batch
_UTF8_BYTES_MAX = 4

_ID = f"{names.UNIQ_KEY}\x01"
_WAIT = f"\x02{names.WAIT}\x01true\x02"
_NO_WAIT = f"\x02{names.WAIT}\x01false\x02"
_TAGS = f"{names.TAGS}\x01"


class Draft(msgspec.Struct, frozen=True, gc=False):
    """What is sent, whichever queue it goes to.  ``topic`` is the name on the wire."""

    topic: str
    body: bytes
    properties: str
    message_id: str
    born_ms: int
    code: int = int(RequestCode.SEND_MESSAGE_V2)
    sys_flag: int = 0
    flag: int = 0
    count: int = 1
    is_batch: bool = False
    is_timed: bool = False
    """Whether it asks for a time of delivery, which brokers before 5.0 ignore."""
    reconsume_times: int = 0
    max_reconsume_times: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftRules:
    """The settings of a producer that are about the form of its messages."""

    message_bytes_max: int = MESSAGE_BYTES_MAX
    batch_bytes_max: int = BATCH_BYTES_MAX
    compress_from_bytes: int = COMPRESS_FROM_BYTES
    compression: Compression = Compression.ZLIB
    compression_level: int = 5
    instance_id: str = ""
    """The namespace, which travels with every message."""

    def __post_init__(self) -> None:
        for name in ("message_bytes_max", "batch_bytes_max", "compress_from_bytes"):
            if getattr(self, name) <= 0:
                raise InvalidSetting(name, str(getattr(self, name)), "give a number above 0")
        if not 0 <= self.compression_level <= 9:
            raise InvalidSetting("compression_level", str(self.compression_level), "is 0 to 9")


def draft_message(
    message: Message,
    topic: str,
    *,
    unique_id: str,
    now_ms: int,
    rules: DraftRules,
    extra: Mapping[str, str] | None = None,
    code: int = int(RequestCode.SEND_MESSAGE_V2),
) -> Draft:
    """One message.  ``extra`` are properties of ours that a user may not give."""
    _check_body(message, rules)
    text = _property_text(message, unique_id, rules.instance_id)
    if extra:
        text += format_properties(extra)
    _check_properties(text)
    body, sys_flag = message.body, 0
    if len(body) >= rules.compress_from_bytes:
        packed = pack(body, rules.compression, rules.compression_level)
        if len(packed) < len(body):
            body, sys_flag = packed, with_compression(0, rules.compression)
    return Draft(
        topic,
        body,
        text,
        unique_id,
        now_ms,
        code,
        sys_flag,
        message.flag,
        is_timed=message.delay_ms is not None or message.deliver_at_ms is not None,
    )


def draft_half(
    message: Message, topic: str, *, group: str, unique_id: str, now_ms: int, rules: DraftRules
) -> Draft:
    """The first half of a transaction: stored, but shown to nobody until its end."""
    if message.delay_level or message.delay_ms is not None or message.deliver_at_ms is not None:
        raise InvalidSetting("delay", message.topic, "a message in a transaction is not delayed")
    extra = {names.TRAN_MSG: "true", names.PRODUCER_GROUP: group}
    draft = draft_message(
        message, topic, unique_id=unique_id, now_ms=now_ms, rules=rules, extra=extra
    )
    return msgspec.structs.replace(draft, sys_flag=draft.sys_flag | TransactionType.PREPARED)


def draft_copy(copy: SendToRetry, *, now_ms: int) -> Draft:
    """The copy of a message that its broker did not take back."""
    message = copy.ask.message
    return draft_stored(copy.topic, message.body, copy.properties, now_ms=now_ms, flag=message.flag)


def draft_stored(
    topic: str,
    body: bytes,
    properties: Mapping[str, str],
    *,
    now_ms: int,
    flag: int = 0,
    sys_flag: int = 0,
) -> Draft:
    """A message that is sent on with the properties it came with, as consumers retry theirs.

    How often it was consumed travels in the header of such a message, not in its properties.
    """
    rest = dict(properties)
    times = rest.pop(names.RECONSUME_TIME, "0") if is_retry_topic(topic) else "0"
    most = rest.pop(names.MAX_RECONSUME_TIMES, None) if is_retry_topic(topic) else None
    text = format_properties(rest)
    _check_properties(text)
    return Draft(
        topic,
        body,
        text,
        rest.get(names.UNIQ_KEY, ""),
        now_ms,
        sys_flag=sys_flag,
        flag=flag,
        reconsume_times=int(times),
        max_reconsume_times=None if most is None else int(most),
    )


def draft_batches(
    messages: Iterable[Message],
    topic: str,
    *,
    unique_ids: Sequence[str],
    now_ms: int,
    rules: DraftRules,
) -> list[Draft]:
    """Messages of one topic, packed into as few batches as the limit allows, in their order."""
    chosen = list(messages)
    if not is_retry_topic(topic):
        whole = loops.lay_out_entries(
            chosen,
            list(unique_ids),
            rules.instance_id,
            rules.message_bytes_max,
            rules.batch_bytes_max,
        )
        if whole is not None:
            return [_batch(topic, whole, unique_ids, chosen[0], now_ms)]
    _check_batch(chosen, topic)
    drafts: list[Draft] = []
    entries: list[tuple[bytes, bytes, int]] = []
    ids: list[str] = []
    size_bytes = 0
    tags: str | None = ""  # of the last message with no more than tags, and what came of them:
    tail = ""  # most are alike

    def close() -> None:
        drafts.append(_batch(topic, join_batch(entries), ids, chosen[0], now_ms))
        entries.clear()
        ids.clear()

    for message, unique_id in zip(chosen, unique_ids, strict=True):
        _check_body(message, rules)
        is_plain = not (message.keys or message.properties)
        if is_plain and message.tags == tags:
            rest = tail
        else:
            rest = _property_tail(message, rules.instance_id)
            if is_plain:
                tags, tail = message.tags, rest
        properties = _property_bytes(f"{_ID}{unique_id}{rest}")
        entry_bytes = _ENTRY_BYTES + len(message.body) + len(properties)
        if entries and (
            size_bytes + entry_bytes > rules.batch_bytes_max or len(entries) == BATCH_ENTRIES_MAX
        ):
            close()
            size_bytes = 0
        entries.append((message.body, properties, message.flag))
        ids.append(unique_id)
        size_bytes += entry_bytes
    close()
    return drafts


def _batch(
    topic: str, body: bytes, unique_ids: Sequence[str], first: Message, now_ms: int
) -> Draft:
    count, ids = len(unique_ids), ",".join(unique_ids)
    return draft_entries(topic, body, count, ids, now_ms=now_ms, wait_stored=first.wait_stored)


def draft_entries(
    topic: str,
    entries: bytes,
    count: int,
    message_ids: str = "",
    *,
    now_ms: int,
    wait_stored: bool = True,
) -> Draft:
    """The body of one batch that is laid out already."""
    return Draft(
        topic,
        entries,
        (_WAIT if wait_stored else _NO_WAIT)[1:],
        message_ids,
        now_ms,
        int(RequestCode.SEND_BATCH_MESSAGE),
        count=count,
        is_batch=True,
    )


def _check_batch(messages: Sequence[Message], topic: str) -> None:
    if not messages:
        raise InvalidMessage("batch", "", "needs a message")
    first = messages[0]
    if is_retry_topic(topic):
        raise InvalidSetting("batch", topic, "messages to a retry topic are sent one by one")
    for message in messages:
        if message.topic != first.topic:
            raise InvalidSetting("batch", message.topic, f"all go to one topic, to {first.topic!r}")
        if message.wait_stored != first.wait_stored:
            raise InvalidSetting("batch", message.topic, "wait_stored must be the same for all")
        if message.delay_level or message.delay_ms is not None or message.deliver_at_ms is not None:
            raise InvalidSetting("batch", message.topic, "a message in a batch is not delayed")


def _check_body(message: Message, rules: DraftRules) -> None:
    size_bytes = len(message.body)
    if size_bytes > rules.message_bytes_max:
        raise BodyTooLarge(rules.message_bytes_max, f"a body of {size_bytes} bytes")


def _check_properties(text: str) -> None:
    if len(text) * _UTF8_BYTES_MAX > PROPERTIES_BYTES_MAX:
        _property_bytes(text)


def _property_bytes(text: str) -> bytes:
    try:
        octets = text.encode()
    except UnicodeEncodeError as error:
        reason = f"are no Unicode text: {error.reason}"
        raise InvalidMessage("properties", "", reason) from None
    if len(octets) > PROPERTIES_BYTES_MAX:
        reason = f"take {len(octets)} bytes and a record has room for {PROPERTIES_BYTES_MAX}"
        raise InvalidMessage("properties", "", reason)
    return octets


def _property_text(message: Message, unique_id: str, instance_id: str) -> str:
    """The property string.  A `Message` has checked already that nothing can tear it apart."""
    return f"{_ID}{unique_id}{_property_tail(message, instance_id)}"


def _property_tail(message: Message, instance_id: str) -> str:
    """The properties that follow the unique id, encoded."""
    text = _WAIT if message.wait_stored else _NO_WAIT
    if message.tags is not None:
        text += f"{_TAGS}{message.tags}\x02"
    if message.keys:
        text += f"{names.KEYS}\x01{KEY_SEPARATOR.join(message.keys)}\x02"
    if message.delay_level:
        text += f"{names.DELAY}\x01{message.delay_level}\x02"
    if message.delay_ms is not None:
        text += f"{names.TIMER_DELAY_MS}\x01{message.delay_ms}\x02"
    if message.deliver_at_ms is not None:
        text += f"{names.TIMER_DELIVER_MS}\x01{message.deliver_at_ms}\x02"
    if instance_id:
        text += f"{names.INSTANCE_ID}\x01{instance_id}\x02"
    for name, value in message.properties.items():
        text += f"{name}\x01{value}\x02"
    return text
