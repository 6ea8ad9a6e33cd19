"""Batches: one that came in one send, split and laid out, and the body of one to send.

An entry of a batch is ``size 4 · magic 4 · crc 4 · flag 4 · body length 4 · body · properties
length 2 · properties``.  Taken are batches as clients write them: the properties of every message
begin with its unique id, and what follows is the same for all and known.  Of any other batch, of
one that is malformed or too large, and where the file of the log has no room for it, nothing is
given: the caller takes its longer way, which also finds the words for a refusal.

Invariant: what is given is, byte for byte, what the longer way gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import accumulate, chain, count, repeat
from struct import Struct
from typing import Any, Final, NamedTuple

from flintmq.kernel.checksum import crc32
from flintmq.kernel.layout import CRC_MASK, PROPERTIES_BYTES_MAX
from flintmq.kernel.python.send_forms import BatchForm, SendForm, SendRoom
from flintmq.model import properties as names
from flintmq.model.message import Message

ENTRIES_MAX: Final = 262_144
SHAPES_MAX: Final = 1_024
"""Sizes of messages for which the way to split them is remembered."""

ENTRY_HEAD_BYTES: Final = 20
ENTRY_BYTES_MIN: Final = ENTRY_HEAD_BYTES + 2
UNIQUE_ID_START: Final = b"UNIQ_KEY\x01"
SEPARATOR: Final = b"\x02"

_unpack_head = Struct(">i8xii").unpack_from
_unpack_short = Struct(">h").unpack_from
_LENGTH = Struct(">h").pack
_ENTRY_HEAD = Struct(">iIIii").pack
_ID_BYTES: Final = len(UNIQUE_ID_START)
_TIME = Struct(">q").pack
_UNIT = Struct(">qiq").pack


class BatchParts(NamedTuple):
    """The messages of a batch: where their records will be, and what stands in them."""

    bodies: Sequence[bytes]
    texts: Sequence[bytes]
    flags: Sequence[int]
    lengths: list[int]
    """Of all properties of a record."""
    sizes: list[int]
    log_offsets: list[int]
    stop: int
    tags_code: int
    keys: tuple[str, ...]
    """All but the unique id."""


def split_batch(
    body: bytes,
    form: SendForm,
    batch: BatchForm,
    common_bytes: int,
    log_offset: int,
    room: SendRoom,
) -> BatchParts | None:
    """The parts of a batch that is taken; ``common_bytes`` end the properties of each message."""
    parts = split_entries(body)
    if parts is None or len(body) + batch.each_bytes * len(parts[0]) > room.batch_bytes_max:
        return None
    bodies, texts, flags = parts
    if not all(map(bytes.endswith, texts, repeat(SEPARATOR))):
        texts = [text + SEPARATOR if text[-1:] != SEPARATOR else text for text in texts]
    rest = rest_of_all(texts)
    known = None if rest is None else batch.rests.get(rest)
    if known is None:
        return None
    lengths = [len(text) + common_bytes for text in texts]
    fixed_bytes = form.fixed_bytes
    sizes = [fixed_bytes + len(one) + two for one, two in zip(bodies, lengths, strict=True)]
    log_offsets = list(accumulate(sizes, initial=log_offset))
    stop = log_offsets.pop()
    if (
        max(lengths) > PROPERTIES_BYTES_MAX
        or max(sizes) > room.record_bytes_max
        or stop > room.log_stop
        or stop - log_offset > room.batch_bytes_max
    ):
        return None
    return BatchParts(bodies, texts, flags, lengths, sizes, log_offsets, stop, *known)


def records_of(
    parts: BatchParts,
    form: SendForm,
    common: bytes,
    born_ms: int,
    place: tuple[int, int],
    now_ms: int,
) -> Iterable[bytes]:
    """The records of a batch, in pieces; ``common`` ends the properties of each.

    ``place`` is the queue, and the queue offset of the first.
    """
    queue_id, queue_offset = place
    alike = b"".join(
        (form.sys_flag, _TIME(born_ms), form.born_host, _TIME(now_ms), form.store_rest)
    )
    bodies, lengths = parts.bodies, parts.lengths
    heads = map(
        _pack(len(alike)),
        parts.sizes,
        repeat(form.magic),
        map(CRC_MASK.__and__, map(crc32, bodies)),
        repeat(queue_id),
        parts.flags,
        count(queue_offset),
        parts.log_offsets,
        repeat(alike),
        map(len, bodies),
    )
    tails = {length: form.topic_field + _LENGTH(length) for length in set(lengths)}
    rows = zip(heads, bodies, map(tails.__getitem__, lengths), parts.texts, repeat(common))
    return chain.from_iterable(rows)


def units_of(parts: BatchParts) -> bytes:
    """What the queue of a batch is told of its records."""
    return b"".join(map(_UNIT, parts.log_offsets, parts.sizes, repeat(parts.tags_code)))


def message_ids(prefix: bytes, log_offsets: Iterable[int]) -> bytes:
    """The ids of messages at these places, joined by commas."""
    return b",".join([b"%b%016X" % (prefix, log_offset) for log_offset in log_offsets])


def rest_of_all(texts: Sequence[bytes]) -> bytes | None:
    """What follows the unique id in all properties, where they begin with one and agree in it."""
    first = texts[0]
    rest = first[first.find(SEPARATOR) :]
    if (
        all(map(bytes.startswith, texts, repeat(UNIQUE_ID_START)))
        and all(map(bytes.endswith, texts, repeat(rest)))
        and b"".join(texts).count(SEPARATOR) == rest.count(SEPARATOR) * len(texts)
    ):
        return rest
    return None


def split_entries(
    body: bytes,
) -> tuple[Sequence[bytes], Sequence[bytes], Sequence[int]] | None:
    """Bodies, properties and flags of a batch; nothing where it is malformed."""
    alike = _split_alike(body)
    if alike is not None:
        return alike
    parts: list[tuple[bytes, bytes, int]] = []
    at, end = 0, len(body)
    while at < end:
        if end - at < ENTRY_BYTES_MIN:
            return None
        size_bytes, flag, body_bytes = _unpack_head(body, at)
        body_at = at + ENTRY_HEAD_BYTES
        body_stop = body_at + body_bytes
        stop = at + size_bytes
        if body_bytes < 0 or not body_stop + 2 <= stop <= end or len(parts) >= ENTRIES_MAX:
            return None
        if body_stop + 2 + _unpack_short(body, body_stop)[0] != stop:
            return None
        parts.append((body[body_at:body_stop], body[body_stop + 2 : stop], flag))
        at = stop
    if not parts:
        return None
    bodies, texts, flags = zip(*parts, strict=True)
    return bodies, texts, flags


def _split_alike(body: bytes) -> tuple[Any, Any, Any] | None:
    """The parts of a batch whose messages are all as large as the first, in a fifth of the time."""
    if len(body) < ENTRY_BYTES_MIN:
        return None
    size_bytes, _, body_bytes = _unpack_head(body)
    properties_bytes = size_bytes - ENTRY_BYTES_MIN - body_bytes
    if body_bytes < 0 or not 0 <= properties_bytes <= PROPERTIES_BYTES_MAX:
        return None
    number, rest = divmod(len(body), size_bytes)
    if rest or number > ENTRIES_MAX:
        return None
    sizes, flags, bodies_bytes, bodies, all_bytes, properties = zip(
        *_unpack_alike(body_bytes, properties_bytes)(body), strict=True
    )
    if (
        sizes.count(size_bytes) == number
        and bodies_bytes.count(body_bytes) == number
        and all_bytes.count(properties_bytes) == number
    ):
        return bodies, properties, flags
    return None


@lru_cache(maxsize=SHAPES_MAX)
def _unpack_alike(body_bytes: int, properties_bytes: int) -> Callable[[bytes], Iterable[Any]]:
    return Struct(f">i8xii{body_bytes}sh{properties_bytes}s").iter_unpack


@lru_cache(maxsize=SHAPES_MAX)
def _pack(alike_bytes: int) -> Callable[..., bytes]:
    """Writes a record up to its body; ``alike_bytes`` are from the system flag to its size."""
    return Struct(f">i4sIiiqq{alike_bytes}si").pack


def lay_out_entries(
    messages: list[Message],
    unique_ids: list[str],
    instance_id: str,
    body_bytes_max: int,
    batch_bytes_max: int,
) -> bytes | None:
    """The body of one batch to send, with all these messages; None where they are not plain.

    Plain are messages of one topic without keys, properties of their own and a delay, that all wait
    for the store or all do not, and that fit one batch.
    """
    if not messages or len(messages) != len(unique_ids) or len(messages) > ENTRIES_MAX:
        return None
    topic, waits = messages[0].topic, bool(messages[0].wait_stored)
    parts: list[bytes] = []
    tags: str | None = ""  # of the message before, and what came of them: most have the same
    tail = b""
    shape, head, middle = (-1, 0, 0), b"", b""
    left_bytes = batch_bytes_max
    try:
        for message, unique_id in zip(messages, unique_ids, strict=True):
            if message.keys or message.properties or not _may_share(message, topic, waits):
                return None
            if not tail or message.tags != tags:
                tags = message.tags
                tail = _tail(tags, instance_id, waits=waits)
            octets, body, flag = unique_id.encode(), message.body, message.flag
            properties_bytes = _ID_BYTES + len(octets) + len(tail)
            own = len(body), properties_bytes, flag
            if own != shape:
                size_bytes = ENTRY_BYTES_MIN + len(body) + properties_bytes
                if len(body) > body_bytes_max or properties_bytes > PROPERTIES_BYTES_MAX:
                    return None
                head = _ENTRY_HEAD(size_bytes, 0, 0, flag, len(body))
                middle = _LENGTH(properties_bytes) + UNIQUE_ID_START
                shape = own
            left_bytes -= ENTRY_BYTES_MIN + len(body) + properties_bytes
            if left_bytes < 0:
                return None
            parts += (head, body, middle, octets, tail)
    except UnicodeEncodeError:
        return None
    return b"".join(parts)


def _may_share(message: Message, topic: str, waits: bool) -> bool:
    return (
        message.topic == topic
        and bool(message.wait_stored) is waits
        and not message.delay_level
        and message.delay_ms is None
        and message.deliver_at_ms is None
    )


def _tail(tags: str | None, instance_id: str, *, waits: bool) -> bytes:
    """The properties behind the unique id."""
    text = f"\x02{names.WAIT}\x01{'true' if waits else 'false'}\x02"
    if tags is not None:
        text += f"{names.TAGS}\x01{tags}\x02"
    if instance_id:
        text += f"{names.INSTANCE_ID}\x01{instance_id}\x02"
    return text.encode()
