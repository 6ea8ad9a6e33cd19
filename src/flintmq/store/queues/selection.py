"""Which messages of a queue a reader wants, decided by their units where that is possible.

A unit holds the hash of the message's tag, so a subscription to tags is tested for many
units at once without touching their records.  With extended queues it holds an address
instead, and the extension unit there has the hash and a bit map for other filters.  An
extension unit that cannot be read speaks against nothing: the client looks again.

A damaged hash must not make a message pass for one with another tag.  So a record that is
taken because of its unit's hash is asked for its own tag too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from flintmq.errors import MalformedRecord
from flintmq.model.java_hash import tags_code
from flintmq.model.properties import TAGS
from flintmq.model.queue import QueueOffset
from flintmq.protocol.records.properties import PROPERTIES_BYTES_MAX, parse_properties
from flintmq.protocol.records.record import measure_record
from flintmq.store.files.layout import EXTENSION_ADDRESS_MAX, UNIT_BYTES, UNIT_STRUCT
from flintmq.store.queues.consume_queue import ConsumeQueue, Units
from flintmq.store.queues.queue_extension import QueueExtension

CHUNK_UNITS = 128
"""Units looked at before the rest of a read's units is fetched."""

FEW_CODES = 16
"""Up to so many tags are compared one by one, which is quicker than a search."""

Candidate: TypeAlias = tuple[int, tuple[int, int, int]]
"""Queue offset, and log offset, size and tags code of a unit that may be wanted."""

_TAG_MARK = TAGS.encode() + b"\x01"
_PROPERTY_END = 2


@dataclass(frozen=True, slots=True)
class Selection:
    """What a reader wants.  A test that is not given passes everything.

    ``tags_codes`` are hashes of tags.  ``bit_map`` is asked about the bit map of units that
    have one, and when they were stored; ``record`` about the whole record.  A ``record`` test that
    is ``cost`` times as much work as a usual one sees that many times fewer records in one read.
    """

    tags_codes: frozenset[int] | None = None
    bit_map: Callable[[bytes, int], bool] | None = None
    record: Callable[[memoryview], bool] | None = None
    cost: int = 1

    @property
    def looks_at_units(self) -> bool:
        return self.tags_codes is not None or self.bit_map is not None

    @property
    def looks_at_records(self) -> bool:
        return self.tags_codes is not None or self.record is not None

    @property
    def takes_all(self) -> bool:
        return not self.looks_at_units and not self.looks_at_records

    def takes(self, record: memoryview, code: int) -> bool:
        """Whether a record that its unit spoke for, with ``code``, is wanted indeed."""
        codes = self.tags_codes
        if codes is not None and not _has_tag(record, code) and _own_code(record) not in codes:
            return False
        return self.record is None or self.record(record)


EVERYTHING = Selection()


def candidates(
    queue: ConsumeQueue,
    extension: QueueExtension | None,
    wanted: Selection,
    units: Units,
    start: QueueOffset,
    stop: QueueOffset,
) -> Iterator[Iterable[Candidate]]:
    """Units in [start, stop) that may be wanted, some at a time; ``units`` are the first."""
    while len(units):
        if wanted.looks_at_units:
            yield _matching(units, start, extension, wanted)
        else:
            yield enumerate(UNIT_STRUCT.iter_unpack(units.data), start)
        start = QueueOffset(start + len(units))
        units = queue.units(start, min(stop - start, CHUNK_UNITS))


def _matching(
    units: Units, start: QueueOffset, extension: QueueExtension | None, wanted: Selection
) -> Iterator[Candidate]:
    held = units["tags_code"].astype(np.int64)
    if wanted.tags_codes is None:
        fits = np.ones(len(units), np.bool_)
    else:
        low = held.astype(np.int32)  # a hash is 32 bits wide
        fits = held <= EXTENSION_ADDRESS_MAX
        if len(wanted.tags_codes) <= FEW_CODES:
            for code in wanted.tags_codes:
                fits |= low == code
        else:
            codes = np.fromiter(wanted.tags_codes, np.int32, len(wanted.tags_codes))
            fits |= np.isin(low, codes)
    unpack, octets = UNIT_STRUCT.unpack_from, units.data
    for index in np.flatnonzero(fits).tolist():
        log_offset, size, code = unpack(octets, index * UNIT_BYTES)
        if code <= EXTENSION_ADDRESS_MAX and extension is not None:
            extended = extension.read(code)
            if extended is not None:
                code = extended.tags_code
                if wanted.tags_codes is not None and code not in wanted.tags_codes:
                    continue
                if wanted.bit_map is not None and not wanted.bit_map(
                    extended.bit_map, extended.store_ms
                ):
                    continue
        yield start + index, (log_offset, size, code)


def _has_tag(record: memoryview, code: int) -> bool:
    """Whether the record's last ``TAGS`` has this hash.  A quick look that may miss it."""
    tail = bytes(record[-PROPERTIES_BYTES_MAX:])
    at = tail.rfind(_TAG_MARK)
    if at < 2:
        return False
    first = int.from_bytes(tail[at - 2 : at]) == len(tail) - at  # the length of the properties
    if tail[at - 1] != _PROPERTY_END and not first:
        return False
    stop = tail.find(_PROPERTY_END, at)
    tag = tail[at + len(_TAG_MARK) : stop if stop > 0 else len(tail)]
    return tags_code(tag.decode("utf-8", "replace")) == code


def _own_code(record: memoryview) -> int | None:
    try:
        *_, topic_stop, stop = measure_record(record, 0)
    except MalformedRecord:
        return None
    return tags_code(parse_properties(bytes(record[topic_stop + 2 : stop])).get(TAGS))
