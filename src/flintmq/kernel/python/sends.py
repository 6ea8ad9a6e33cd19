"""Sends like the ones before: their records, units and answers, of all frames of a read at once.

A `SendForm` is all that is known of such sends of one connection: the header with holes for time,
unique id and opaque number, and the pieces of record and answer around what differs.  Who makes a
form has found out that such a send may be stored as it is.

`lay_out_sends` takes frames as long as each has a form, and stops at the first that has none, that
is too large, or for which the file of the log has no room: that one is for the caller.

Invariant: record and answer are, byte for byte, those of the way without forms.  Nothing is changed
but that queues are opened, by ``growth_of``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

from flintmq.kernel.checksum import crc32
from flintmq.kernel.layout import CRC_MASK

TIME_DIGITS: Final = 13  # from the year 2001 to 2286
OPAQUE_DIGITS_MAX: Final = 9  # any number of so many digits fits 32 bits
PROPERTIES_BYTES_MAX: Final = 32_767  # a signed short
SHAPES_MAX: Final = 16

_ZERO = ord("0")
_UNIT = Struct(">qiq").pack
_LENGTH = Struct(">h").pack
_PREFIX = Struct(">iI").pack

RawFrame: TypeAlias = tuple[int, bytes, bytes]
"""Form, header and body of a frame."""


class SendForm(NamedTuple):
    """Sends that differ in time, unique id, opaque number and body alone.

    The header is ``head`` time ``middle`` id ``rest`` number ``,`` ``tail``.  The properties of
    the record are ``before`` id ``after``.  ``answer`` are the pieces around offset, queue offset,
    id and number; None where nobody waits for one.
    """

    head: bytes
    middle: bytes
    id_bytes: int
    rest: bytes
    tail: bytes
    fixed_bytes: int
    magic: bytes
    queue_and_flag: bytes
    sys_flag: bytes
    born_host: bytes
    store_rest: bytes
    topic_field: bytes
    before: bytes
    after: bytes
    tags_code: int
    keys: tuple[str, ...]
    queue: tuple[str, int]
    is_fifo: bool
    answer: tuple[bytes, bytes, bytes, bytes, bytes] | None


class SendRoom(NamedTuple):
    """Where records go and how large they may be.  ``log_stop`` is where the last one must end."""

    head_bytes: int
    log_offset: int
    log_stop: int
    record_bytes_max: int
    body_bytes_max: int
    now_ms: int


class LaidOut(NamedTuple):
    """What became of the first ``taken`` frames.

    ``grown`` has for every queue what ``growth_of`` gave, its units and its tags codes; ``sizes``
    those of the records by topic and whether they are FIFO.
    """

    taken: int
    records: bytes
    grown: list[tuple[Any, bytes, list[int]]]
    sizes: list[tuple[str, bool, list[int]]]
    keys: list[str]
    keyed: list[tuple[str, int, int, int]]
    answers: list[bytes]
    opaques: list[bytes]
    body_bytes: int


class _Queue:
    """What one queue gets."""

    __slots__ = ("codes", "growth", "stop", "units")

    def __init__(self, growth: Any) -> None:
        self.growth = growth
        self.stop: int = growth.stop
        self.units: list[bytes] = []
        self.codes: list[int] = []


def lay_out_sends(
    frames: Sequence[RawFrame],
    start: int,
    forms: Mapping[bytes, SendForm],
    growth_of: Callable[[tuple[str, int]], Any],
    room: SendRoom,
) -> LaidOut:
    """Take frames from ``start`` on; see the module."""
    head_bytes, log_offset, log_stop, record_bytes_max, body_bytes_max, now_ms = room
    queues: dict[tuple[str, int], _Queue] = {}
    sizes: dict[tuple[str, bool], list[int]] = {}
    parts: list[bytes] = []
    keys: list[str] = []
    keyed: list[tuple[str, int, int, int]] = []
    answers: list[bytes] = []
    opaques: list[bytes] = []
    all_bytes = 0
    at = start
    for at in range(start, len(frames)):
        json, header, body = frames[at]
        form = forms.get(header[:head_bytes])
        body_bytes = len(body)
        if form is None or json or not 0 < body_bytes <= body_bytes_max:
            break
        found = read_form(form, header)
        if found is None:
            break
        time, unique_id, opaque = found
        properties = form.before + unique_id + form.after
        properties_bytes = len(properties)
        size_bytes = form.fixed_bytes + body_bytes + properties_bytes
        if size_bytes > record_bytes_max or log_offset + size_bytes > log_stop:
            break
        if properties_bytes > PROPERTIES_BYTES_MAX:
            break
        queue = queues.get(form.queue)
        if queue is None:
            queue = queues[form.queue] = _Queue(growth_of(form.queue))
        head = _head(form, body, size_bytes, queue.stop, log_offset, int(time), now_ms)
        parts += (head, body, form.topic_field, _LENGTH(properties_bytes), properties)
        queue.units.append(_UNIT(log_offset, size_bytes, form.tags_code))
        queue.codes.append(form.tags_code)
        topic = form.queue[0]
        of_topic = sizes.get((topic, form.is_fifo))
        if of_topic is None:
            of_topic = sizes[topic, form.is_fifo] = []
        of_topic.append(size_bytes)
        keys.append(str(unique_id, "ascii"))
        keys += form.keys
        keyed.append((topic, 1 + len(form.keys), log_offset, now_ms))
        if form.answer is not None:
            opaques.append(opaque)
            answers.append(_answer(form.answer, log_offset, queue.stop, unique_id, opaque))
        queue.stop += 1
        log_offset += size_bytes
        all_bytes += body_bytes
    else:
        at = max(start, len(frames))
    return LaidOut(
        at - start,
        b"".join(parts),
        [(queue.growth, b"".join(queue.units), queue.codes) for queue in queues.values()],
        [(topic, is_fifo, found) for (topic, is_fifo), found in sizes.items()],
        keys,
        keyed,
        answers,
        opaques,
        all_bytes,
    )


def read_form(form: SendForm, header: bytes) -> tuple[bytes, bytes, bytes] | None:
    """Time, id and number of a header with the head of a form; nothing when the rest differs."""
    time_at = len(form.head)
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
    opaque = header[opaque_at:opaque_stop]
    if (
        len(time) == TIME_DIGITS
        and time.isdigit()
        and time[0] != _ZERO
        and unique_id.isalnum()
        and opaque.isdigit()
        and opaque[0] != _ZERO
        and len(opaque) <= OPAQUE_DIGITS_MAX
    ):
        return time, unique_id, opaque
    return None


def _head(
    form: SendForm,
    body: bytes,
    size_bytes: int,
    queue_offset: int,
    log_offset: int,
    born_ms: int,
    store_ms: int,
) -> bytes:
    """A record up to its body."""
    return _pack(len(form.born_host), len(form.store_rest))(
        size_bytes,
        form.magic,
        crc32(body) & CRC_MASK,
        form.queue_and_flag,
        queue_offset,
        log_offset,
        form.sys_flag,
        born_ms,
        form.born_host,
        store_ms,
        form.store_rest,
        len(body),
    )


def _answer(
    pieces: tuple[bytes, bytes, bytes, bytes, bytes],
    log_offset: int,
    queue_offset: int,
    unique_id: bytes,
    opaque: bytes,
) -> bytes:
    """The frame that says where a message is."""
    one, two, three, four, five = pieces
    header = b"%b%016X%b%d%b%b%b%b%b" % (
        one, log_offset, two, queue_offset, three, unique_id, four, opaque, five,
    )  # fmt: skip
    return _PREFIX(len(header) + 4, len(header)) + header


@lru_cache(maxsize=SHAPES_MAX)
def _pack(born_bytes: int, store_bytes: int) -> Callable[..., bytes]:
    """Writes everything before the body of a record, hosts being as wide as these are."""
    return Struct(f">i4sI8sqq4sq{born_bytes}sq{store_bytes}si").pack
