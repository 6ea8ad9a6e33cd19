"""Whether units of a consume queue lead to their records.

A unit leads to its record when the log has, at the unit's log offset, a record of the unit's size
that names the same log offset, the queue's id and topic and the unit's queue offset as its own.
Bodies and properties are not read.

    leads_to_own      one unit of a queue of either kind; a record of a light queue (%LMQ%) has its
                      offset there in a property
    is_own_record     one record by its identity alone: not its magic, not its topic
    lead_to_records   many units, the whole rule, with numpy: a mask
    leading_spans     the first units of a read, and where their records lie: by the kernel, or by
                      numpy for many records where the kernel is plain

One loop has the rule inline, `fill` of `queue_reader`: a call for every record would make a pull
of records of different sizes an eighth slower.

Invariant: what `lead_to_records` and `leading_spans` accept, that loop accepts too.
`leading_spans` may stop early; whoever calls it then goes on unit by unit.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import numpy as np

from flintmq.errors import MalformedRecord
from flintmq.kernel.choice import PYTHON, kernel
from flintmq.kernel.face import loops
from flintmq.kernel.layout import (
    BODY_AT,
    BODY_LENGTH_AT,
    FIELDS,
    IDENTITY,
    RECORD_BYTES_MIN,
    SYS_FLAG_AT,
    V6_BITS,
    V6_BYTES_MORE,
    numpy_fields,
    record_struct,
)
from flintmq.kernel.python.pulls import ALIKE_MAX, Spans
from flintmq.model.light_queue import is_light, light_places
from flintmq.model.properties import INNER_MULTI_DISPATCH, INNER_MULTI_QUEUE_OFFSET
from flintmq.model.sys_flag import BORN_HOST_V6, STORE_HOST_V6
from flintmq.protocol.records.properties import parse_properties
from flintmq.protocol.records.record import (
    TOPIC_BYTES_MAX,
    Buffer,
    Version,
    encode_topic,
    measure_record,
)
from flintmq.protocol.records.record_scan import gather
from flintmq.store.files.layout import UNIT, UNIT_BYTES
from flintmq.store.log.commit_log import Segment
from flintmq.store.queues.consume_queue import ConsumeQueue

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints: TypeAlias = npt.NDArray[np.int64]
    Mask: TypeAlias = npt.NDArray[np.bool_]

_LOG_OFFSET: Final = list(FIELDS).index("log_offset")  # among what `measure_record` gives

FEW_MAX: Final = ALIKE_MAX
"""Units checked by the plain kernel; for more, numpy is faster."""

TOPICS_KEPT_MAX: Final = 4_096
"""Topics cached as they stand in a record."""

_CHECKED: Final = (
    "size",
    "magic",
    "queue_id",
    "queue_offset",
    "log_offset",
    "sys_flag",
    "body_length",
)
_HEADS: Final = np.dtype(numpy_fields(*_CHECKED))
_BODY_LENGTH: Final = record_struct("body_length", start=BODY_LENGTH_AT)
_BODY_LENGTHS: Final = np.dtype(numpy_fields("body_length", start=BODY_LENGTH_AT))


@lru_cache(maxsize=TOPICS_KEPT_MAX)
def topic_field(topic: str) -> bytes:
    """A topic and its length, as they stand behind the body of a record."""
    octets = topic.encode()
    version = Version.V1 if len(octets) <= TOPIC_BYTES_MAX[Version.V1] else Version.V2
    return encode_topic(topic, version)


def is_light_record(view: memoryview, log_offset: int, name: str, offset: int) -> bool:
    """Whether the record of a view lies at this place, and says that it is in a light queue."""
    try:
        _, fields, _, _, topic_at, topic_stop, stop = measure_record(view, 0)
        topic = str(view[topic_at:topic_stop], "utf-8")
    except (MalformedRecord, UnicodeDecodeError):
        return False
    properties = parse_properties(bytes(view[topic_stop + 2 : stop]))
    names = properties.get(INNER_MULTI_DISPATCH, "")
    offsets = properties.get(INNER_MULTI_QUEUE_OFFSET, "")
    own_place = fields[_LOG_OFFSET]
    return own_place == log_offset and (name, offset) in light_places(topic, names, offsets)


def leads_to_own(segment: Segment, queue: ConsumeQueue, unit: tuple[int, int], offset: int) -> bool:
    """Whether a unit, a log offset and a size, leads to the record of a queue's offset."""
    log_offset, size_bytes = unit
    at = log_offset - segment.start
    if not is_light(queue.topic):
        return is_own_record(segment.view, at, log_offset, size_bytes, queue.queue_id, offset)
    if size_bytes < RECORD_BYTES_MIN or not 0 <= at <= segment.size_bytes - size_bytes:
        return False
    return is_light_record(segment.view[at : at + size_bytes], log_offset, queue.topic, offset)


def is_own_record(
    buffer: Buffer, at: int, log_offset: int, size_bytes: int, queue_id: int, queue_offset: int
) -> bool:
    """Whether a record at byte ``at`` names this place in log and queue as its own."""
    if size_bytes < RECORD_BYTES_MIN or not 0 <= at <= len(buffer) - size_bytes:
        return False
    own_size, _, own_queue, own_queue_offset, own_log_offset = IDENTITY.unpack_from(buffer, at)
    own = own_size, own_queue, own_queue_offset, own_log_offset
    return bool(own == (size_bytes, queue_id, queue_offset, log_offset))


def has_topic_v6(view: memoryview, at: int, topic: bytes) -> bool:
    """Whether the record at byte ``at`` has an IPv6 host and is of this topic.

    ``topic`` is a `topic_field`.
    """
    flags = view[at + SYS_FLAG_AT + 3] & V6_BITS  # they are in the last byte of the flag
    body_at = at + BODY_AT + V6_BYTES_MORE * flags.bit_count()
    if not flags or body_at > len(view):
        return False
    body_bytes: int = _BODY_LENGTH.unpack_from(view, body_at - _BODY_LENGTH.size)[0]
    topic_at = body_at + body_bytes
    return body_bytes >= 0 and view[topic_at : topic_at + len(topic)] == topic


def lead_to_records(
    view: memoryview,
    low: int,
    high: int,
    log_offsets: Ints,
    sizes: Ints,
    queue_id: int,
    queue_offsets: Ints,
    topic: bytes,
) -> Mask:
    """Which of these units lead to their records in a file of the log.

    ``view`` is the file, which starts at log offset ``low`` and is written up to ``high``.
    """
    at = log_offsets - low
    stop = at + sizes
    good: Mask = (at >= 0) & (sizes >= RECORD_BYTES_MIN) & (stop <= high - low)
    if not good.all():
        rows = np.flatnonzero(good)
        good[rows] = lead_to_records(
            view, low, high, log_offsets[rows], sizes[rows], queue_id, queue_offsets[rows], topic
        )
        return good
    head = gather(view, _HEADS, at)
    good = head["log_offset"] == log_offsets
    good &= head["queue_offset"] == queue_offsets
    good &= head["size"] == sizes
    good &= head["queue_id"] == queue_id
    good &= (head["magic"] == Version.V1) | (head["magic"] == Version.V2)
    body_at, body_bytes = at + BODY_AT, head["body_length"]
    flags = head["sys_flag"] & V6_BITS
    if flags.any():
        v6_count = (flags & BORN_HOST_V6 != 0) + (flags & STORE_HOST_V6 != 0).astype(np.int64)
        body_at = np.minimum(body_at + V6_BYTES_MORE * v6_count, stop)
        body_bytes = gather(view, _BODY_LENGTHS, body_at - _BODY_LENGTH.size)["body_length"]
    topic_at = body_at + body_bytes
    good &= (body_bytes >= 0) & (topic_at + len(topic) <= stop)
    is_all_good = good.all()
    own = gather(view, np.dtype((np.void, len(topic))), topic_at if is_all_good else topic_at[good])
    same = own.view(np.uint8).reshape(len(own), len(topic)) == np.frombuffer(topic, np.uint8)
    if is_all_good:
        return cast("Mask", same.all(axis=1))
    good[good] = same.all(axis=1)
    return good


def leading_spans(
    units: bytes,
    first_offset: int,
    view: memoryview,
    low: int,
    high: int,
    *,
    log_from: int = 0,
    bytes_max: int,
    queue_id: int,
    topic: bytes,
) -> tuple[int, Spans]:
    """How many units from the first on lead to their records, and where in ``view`` these are.

    The view is a file of the log that starts at ``low`` and is written up to ``high``.  Records
    before ``log_from``, and more than ``bytes_max``, are not taken.  Records that lie side by
    side are one span.
    """
    count = len(units) // UNIT_BYTES
    find = _spans_of_many if count > FEW_MAX and kernel.name == PYTHON else loops.find_records
    return find(units, first_offset, view, low, high, log_from, bytes_max, queue_id, topic)


def _spans_of_many(
    units: bytes,
    first_offset: int,
    view: memoryview,
    low: int,
    high: int,
    log_from: int,
    bytes_max: int,
    queue_id: int,
    topic: bytes,
) -> tuple[int, Spans]:
    fields = np.frombuffer(units, UNIT, len(units) // UNIT_BYTES)
    size = fields["size"].astype(np.int64)
    log_offset = fields["log_offset"].astype(np.int64)
    count = _leading((size.cumsum() <= bytes_max) & (log_offset >= log_from))
    size, log_offset = size[:count], log_offset[:count]
    offsets = np.arange(first_offset, first_offset + count)
    count = _leading(lead_to_records(view, low, high, log_offset, size, queue_id, offsets, topic))
    if not count:
        return 0, []
    start = log_offset[:count] - low
    stop = start + size[:count]
    breaks = (start[1:] != stop[:-1]).nonzero()[0]
    starts = [int(start[0]), *start[breaks + 1].tolist()]
    stops = [*stop[breaks].tolist(), int(stop[-1])]
    return count, list(zip(starts, stops, strict=True))


def _leading(good: Mask) -> int:
    """How many are true before the first that is not."""
    return len(good) if good.all() else int(good.argmin())
