"""Sends like the ones before: their records, units and answers, of all frames of a read at once.

`lay_out_sends` takes frames, of one message or of a batch, as long as each has a form, and stops at
the first that has none, that is too large, or for which the file of the log has no room: that one
is for the caller.

Invariant: record and answer are, byte for byte, those of the way without forms.  Nothing is changed
but that queues are opened, by ``growth_of``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Final, TypeAlias

from flintmq.kernel.checksum import crc32
from flintmq.kernel.layout import CRC_MASK, PROPERTIES_BYTES_MAX
from flintmq.kernel.python.batches import message_ids, records_of, split_batch, units_of
from flintmq.kernel.python.send_forms import (
    BatchForm,
    Keyed,
    LaidOut,
    RawFrame,
    SendForm,
    SendRoom,
)

TIME_DIGITS: Final = 13  # from the year 2001 to 2286
DIGITS_MAX: Final = 9  # any number of so many digits fits 32 bits
SHAPES_MAX: Final = 16

FormValues: TypeAlias = tuple[int, bytes, bytes, bytes]
"""Queue id, time, unique id and opaque number of a header."""

_ZERO = ord("0")
_UNIT = Struct(">qiq").pack
_LENGTH = Struct(">h").pack
_PREFIX = Struct(">iI").pack


class _Queue:
    """What one queue gets."""

    __slots__ = ("codes", "growth", "stop", "units")

    def __init__(self, growth: Any) -> None:
        self.growth = growth
        self.stop: int = growth.stop
        self.units: list[bytes] = []
        self.codes: list[int] = []


class _Laying:
    """What the frames so far became."""

    __slots__ = (
        "answers",
        "batches",
        "body_bytes",
        "growth_of",
        "keyed",
        "keys",
        "log_offset",
        "opaques",
        "parts",
        "queues",
        "room",
        "sizes",
    )

    def __init__(self, growth_of: Callable[[tuple[str, int]], Any], room: SendRoom) -> None:
        self.growth_of = growth_of
        self.room = room
        self.log_offset = room.log_offset
        self.queues: dict[tuple[str, int], _Queue] = {}
        self.sizes: dict[tuple[str, bool], list[int]] = {}
        self.batches: list[tuple[str, int, int]] = []
        self.parts: list[bytes] = []
        self.keys: list[str] = []
        self.keyed: list[Keyed] = []
        self.answers: list[bytes] = []
        self.opaques: list[bytes] = []
        self.body_bytes = 0

    def take(self, form: SendForm, found: FormValues, body: bytes) -> bool:
        """Lay out a send of one message; False where it is too large or has no room."""
        queue_id, time, unique_id, opaque = found
        room, log_offset, body_bytes = self.room, self.log_offset, len(body)
        properties = form.before + unique_id + form.after
        properties_bytes = len(properties)
        size_bytes = form.fixed_bytes + body_bytes + properties_bytes
        if size_bytes > room.record_bytes_max or log_offset + size_bytes > room.log_stop:
            return False
        if properties_bytes > PROPERTIES_BYTES_MAX:
            return False
        queue = self._queue((form.topic, queue_id))
        place = queue_id, queue.stop
        head = _head(form, body, size_bytes, place, log_offset, int(time), room.now_ms)
        self.parts += (head, body, form.topic_field, _LENGTH(properties_bytes), properties)
        queue.units.append(_UNIT(log_offset, size_bytes, form.tags_code))
        queue.codes.append(form.tags_code)
        topic = form.topic
        of_topic = self.sizes.get((topic, form.is_fifo))
        if of_topic is None:
            of_topic = self.sizes[topic, form.is_fifo] = []
        of_topic.append(size_bytes)
        self.keys.append(str(unique_id, "ascii"))
        self.keys += form.keys
        self.keyed.append((topic, 1 + len(form.keys), log_offset, room.now_ms))
        if form.answer is not None:
            self.opaques.append(opaque)
            log_place = b"%016X" % log_offset
            self.answers.append(_answer(form.answer, log_place, place, unique_id, opaque))
        queue.stop += 1
        self.log_offset += size_bytes
        self.body_bytes += body_bytes
        return True

    def take_batch(self, form: SendForm, batch: BatchForm, found: FormValues, body: bytes) -> bool:
        """Lay out a batch; False where it is for the longer way."""
        queue_id, time, unique_id, opaque = found
        room, log_offset, topic = self.room, self.log_offset, form.topic
        common = form.before + unique_id + form.after
        parts = split_batch(body, form, batch, len(common), log_offset, room)
        if parts is None or log_offset > room.turn_stop:
            return False
        queue, number = self._queue((topic, queue_id)), len(parts.sizes)
        place = queue_id, queue.stop
        self.parts += records_of(parts, form, common, int(time), place, room.now_ms)
        units = units_of(parts)
        queue.units.append(units)
        queue.codes += [parts.tags_code] * number
        self.batches.append((topic, number, parts.stop - log_offset))
        self.keys.append(str(unique_id, "ascii"))
        self.keys += parts.keys
        self.keyed.append((topic, 1 + len(parts.keys), units, room.now_ms))
        if form.answer is not None:
            self.opaques.append(opaque)
            ids = message_ids(batch.id_prefix, parts.log_offsets)[len(batch.id_prefix) :]
            self.answers.append(_answer(form.answer, ids, place, unique_id, opaque))
        queue.stop += number
        self.log_offset = parts.stop
        self.body_bytes += len(body)
        return True

    def _queue(self, key: tuple[str, int]) -> _Queue:
        queue = self.queues.get(key)
        if queue is None:
            queue = self.queues[key] = _Queue(self.growth_of(key))
        return queue


def lay_out_sends(
    frames: Sequence[RawFrame],
    start: int,
    forms: Mapping[bytes, tuple[SendForm, ...]],
    growth_of: Callable[[tuple[str, int]], Any],
    room: SendRoom,
) -> LaidOut:
    """Take frames from ``start`` on; see the module."""
    head_bytes, body_bytes_max = room.head_bytes, room.body_bytes_max
    laying = _Laying(growth_of, room)
    taken = 0
    for json, header, body in frames[start:]:
        if json or not 0 < len(body) <= body_bytes_max:
            break
        found = None
        for form in forms.get(header[:head_bytes], ()):
            found = read_form(form, header)
            if found is not None:
                break
        if found is None:
            break
        batch = form.batch
        if not (
            laying.take(form, found, body)
            if batch is None
            else laying.take_batch(form, batch, found, body)
        ):
            break
        taken += 1
    return LaidOut(
        taken,
        b"".join(laying.parts),
        [(queue.growth, b"".join(queue.units), queue.codes) for queue in laying.queues.values()],
        [(topic, is_fifo, sizes) for (topic, is_fifo), sizes in laying.sizes.items()],
        laying.batches,
        laying.keys,
        laying.keyed,
        laying.answers,
        laying.opaques,
        laying.body_bytes,
    )


def read_form(form: SendForm, header: bytes) -> FormValues | None:
    """The values of a header with the head of a form; nothing when the rest differs."""
    queue_at = len(form.head)
    queue_stop = header.find(b'"', queue_at)
    queue = header[queue_at:queue_stop]
    if queue_stop < 0 or not queue.isdigit() or len(queue) > DIGITS_MAX:
        return None
    if (queue[0] == _ZERO and len(queue) > 1) or not header.startswith(form.gap, queue_stop):
        return None
    time_at = queue_stop + len(form.gap)
    time_stop = time_at + TIME_DIGITS
    id_at = time_stop + len(form.middle)
    id_stop = id_at + form.id_bytes
    opaque_at = id_stop + len(form.rest)
    if header[time_stop:id_at] != form.middle or header[id_stop:opaque_at] != form.rest:
        return None
    opaque_stop = header.find(b",", opaque_at)
    if opaque_stop < 0 or header[opaque_stop + 1 :] != form.tail:
        return None
    time, unique_id = header[time_at:time_stop], header[id_at:id_stop]
    opaque, queue_id = header[opaque_at:opaque_stop], int(queue)
    if (
        queue_id < form.queues
        and len(time) == TIME_DIGITS
        and time.isdigit()
        and time[0] != _ZERO
        and unique_id.isalnum()
        and opaque.isdigit()
        and opaque[0] != _ZERO
        and len(opaque) <= DIGITS_MAX
    ):
        return queue_id, time, unique_id, opaque
    return None


def _head(
    form: SendForm,
    body: bytes,
    size_bytes: int,
    place: tuple[int, int],
    log_offset: int,
    born_ms: int,
    store_ms: int,
) -> bytes:
    """A record up to its body."""
    return _pack(len(form.born_host), len(form.store_rest))(
        size_bytes,
        form.magic,
        crc32(body) & CRC_MASK,
        place[0],
        form.flag,
        place[1],
        log_offset,
        form.sys_flag,
        born_ms,
        form.born_host,
        store_ms,
        form.store_rest,
        len(body),
    )


def _answer(
    pieces: tuple[bytes, bytes, bytes, bytes, bytes, bytes],
    log_place: bytes,
    place: tuple[int, int],
    unique_id: bytes,
    opaque: bytes,
) -> bytes:
    """The frame that says where a message is, or all those of a batch."""
    one, two, three, four, five, six = pieces
    header = b"%b%b%b%d%b%d%b%b%b%b%b" % (
        one, log_place, two, place[0], three, place[1], four, unique_id, five, opaque, six,
    )  # fmt: skip
    return _PREFIX(len(header) + 4, len(header)) + header


@lru_cache(maxsize=SHAPES_MAX)
def _pack(born_bytes: int, store_bytes: int) -> Callable[..., bytes]:
    """Writes everything before the body of a record, hosts being as wide as these are."""
    return Struct(f">i4sIi4sqq4sq{born_bytes}sq{store_bytes}si").pack
