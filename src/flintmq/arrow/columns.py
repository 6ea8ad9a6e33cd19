"""Pages of queues as Arrow batches, with no Python object per message.

    pages ─► join small ones ─┬─ all plain ─► the compiled kernel ──────┬─► one array per column
                              └─ else, or no compiled kernel ─► `page_rows` ─► cut ─┘      │
                                                                              RecordBatch ◄┘

Only the columns that are asked for are made, and of the properties only those that a column
needs are looked for.  What is the same in every row is made once.

    body             unpacked; inner batches come as one row for each message
    message_id       the sender's id, or store host and log offset where there is none
    tags             null where there are none
    keys             an empty array where there are none
    topic            the queue's, without the namespace; a retry topic is shown as it is
    born_time, …     null where it lies beyond what a timestamp can hold
    properties       what the message carries; nothing that a consumer adds is among it
    key, headers     (Kafka) the first key, all properties; null where there are none
    bad_record       null, except for a record that cannot be decoded: its reason and its bytes

A record that cannot be decoded has a null body, if the rule of `BadRecords` leaves it a row at all;
all that stands outside its body is as it says.

Invariant: rows are what `Page.received` gives for the same pages, in the same order; a broken
frame is `MalformedRecord`.  Every batch has the schema of `arrow_schema`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flintmq.arrow.bad_records import BadRecords
from flintmq.arrow.byte_spans import text_column
from flintmq.arrow.column_makers import MAKERS, NEEDS, RowSource, Source
from flintmq.arrow.page_rows import Rows, rows_of
from flintmq.arrow.plain_pages import PlainPages
from flintmq.arrow.reading.queue_source import ReadPart
from flintmq.arrow.schema import Shape, arrow_schema
from flintmq.core.reading.read_span import EVERYTHING, Page, Wanted
from flintmq.kernel.layout import RECORD_BYTES_MIN
from flintmq.model.bad_record import BadRecord
from flintmq.model.group import without_namespace
from flintmq.model.properties import TAGS
from flintmq.model.queue import QueueRef
from flintmq.protocol.records.property_scan import Spans, property_spans

if TYPE_CHECKING:
    import numpy.typing as npt

ROWS_MAX: Final = 4_096
"""Rows of a batch.  So many stay in a processor's cache: larger batches cost more."""

JOIN_BYTES: Final = 1024 * 1024
"""Pages are joined up to so many bytes.  Beyond that a copy costs more than it saves."""

BATCH_BYTES: Final = 2 * 1024 * 1024
"""About as much as a batch holds, for the same reason; a single row may have more."""

_CONSTANT: Final = frozenset({"topic", "broker", "queue_id", "partition", "timestampType"})
"""The columns that are the same in all rows of a queue."""

LOG_APPEND_TIME: Final = 1
"""Kafka's word for a time that the broker gave."""


class Columns:
    """Makes the batches of one task, which reads these parts.

    ``wanted`` compares tags again, of which a broker knows the hash alone.  ``verify_crc``
    checks bodies against their checksums, which costs as much as all the rest together where
    bodies are large.  ``bad_records`` says what becomes of records that cannot be decoded.
    """

    def __init__(
        self,
        shape: Shape,
        parts: Sequence[ReadPart],
        *,
        wanted: Wanted = EVERYTHING,
        namespace: str = "",
        rows_max: int = ROWS_MAX,
        verify_crc: bool = True,
        bad_records: BadRecords | None = None,
    ) -> None:
        if rows_max < 1:
            raise ValueError(f"rows_max must be 1 or more, not {rows_max}")
        self._schema = arrow_schema(shape)
        self._rows_max = rows_max
        self._verify_crc = verify_crc
        self._bad_records = bad_records or BadRecords()
        self._record_bytes = RECORD_BYTES_MIN
        tags = wanted.tag_test()
        self._tags = pa.array(sorted(tags.tags), pa.string()) if tags and tags.tags else None
        needed = {NEEDS[name] for name in self._schema.names if name in NEEDS}
        self._needed = sorted(needed if self._tags is None else needed | {TAGS})
        self._constant = {
            part.span.queue: {
                "topic": without_namespace(namespace, part.span.queue.topic),
                "broker": part.span.queue.broker,
                "queue_id": part.span.queue.queue_id,
                "partition": part.partition,
                "timestampType": LOG_APPEND_TIME,
            }
            for part in parts
        }
        self._same: dict[str, pa.Array] = {}
        self._same_queue: QueueRef | None = None
        self._plain = PlainPages(
            [field.name for field in self._schema], self._needed, verify_crc=verify_crc
        )

    def batches(self, page: Page) -> Iterator[pa.RecordBatch]:
        """The rows of one page."""
        return self._convert([page])

    def read(self, pages: Iterable[Page]) -> Iterator[pa.RecordBatch]:
        """The rows of all pages.  Small ones wait until there are enough for a batch."""
        waiting: list[Page] = []
        size_bytes = count = 0
        for page in pages:
            page_bytes = len(page.records)
            if page_bytes == 0:
                continue
            page_count = min(page.stop - page.start, page_bytes // self._record_bytes)
            if size_bytes + page_bytes > JOIN_BYTES or count + page_count > self._rows_max:
                yield from self._convert(waiting)
                waiting, size_bytes, count = [], 0, 0
            waiting.append(page)
            size_bytes += page_bytes
            count += page_count
            if 2 * page_bytes > JOIN_BYTES or 2 * page_count > self._rows_max:
                yield from self._convert(waiting)
                waiting, size_bytes, count = [], 0, 0
        yield from self._convert(waiting)

    def _convert(self, pages: Sequence[Page]) -> Iterator[pa.RecordBatch]:
        source = self._plain.source(pages, self._rows_max, BATCH_BYTES)
        if source is not None:
            self._record_bytes = source.size_bytes // max(1, source.row_count)
            if source.row_count:
                batch = self._made(source)
                if self._tags is not None:
                    batch = batch.filter(_has_tag(source, self._tags))
                if batch.num_rows:
                    yield batch
            return
        for rows in rows_of(pages, verify_crc=self._verify_crc):
            if len(rows):
                self._record_bytes = len(rows.records.buffer) // len(rows)
            for some in _cuts(rows, self._rows_max):
                batch = self._batch(some)
                if batch.num_rows:
                    yield batch

    def _batch(self, rows: Rows) -> pa.RecordBatch:
        spans = property_spans(rows.records, *self._needed)
        source = RowSource(rows, dict(zip(self._needed, spans, strict=True)))
        if self._tags is not None:
            source = _with_tags(source, self._tags)
        if source.rows.bad is not None:
            source = self._with_rule(source, source.rows.bad)
        return self._made(source)

    def _made(self, source: Source) -> pa.RecordBatch:
        constant = self._constants(source)
        columns = [
            constant[field.name]
            if field.name in constant
            else MAKERS[field.name](source, field.type)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _with_rule(self, source: RowSource, bad: Sequence[BadRecord | None]) -> RowSource:
        """Only the rows that the rule for bad records leaves."""
        rows, apply_rule = source.rows, self._bad_records.apply_rule
        place = repeat(0) if rows.place is None else rows.place.tolist()
        stays = np.fromiter(
            (
                one is None or apply_rule(one, rows.queues[at])
                for one, at in zip(bad, place, strict=False)
            ),
            np.bool_,
            len(bad),
        )
        return _only(source, stays)

    def _constants(self, source: Source) -> dict[str, pa.Array]:
        """The columns that are the same in all rows of a queue."""
        if source.place is None:
            same = self._same_of(source.queues[0])
            return {name: column.slice(0, source.row_count) for name, column in same.items()}
        place = pa.array(source.place)
        each = [self._constant[queue] for queue in source.queues]
        return {
            field.name: pa.array([one[field.name] for one in each], field.type).take(place)
            for field in self._schema
            if field.name in _CONSTANT
        }

    def _same_of(self, queue: QueueRef) -> dict[str, pa.Array]:
        """The constant columns of a queue, as long as the largest batch; kept for the next ones."""
        if queue != self._same_queue:
            self._same_queue = queue
            values = self._constant[queue]
            self._same = {
                field.name: pa.repeat(pa.scalar(values[field.name], field.type), self._rows_max)
                for field in self._schema
                if field.name in _CONSTANT
            }
        return self._same


def _with_tags(source: RowSource, tags: pa.StringArray) -> RowSource:
    """Only the rows with one of these tags."""
    return _only(source, _has_tag(source, tags).to_numpy(zero_copy_only=False))


def _has_tag(source: Source, tags: pa.StringArray) -> pa.BooleanArray:
    return pc.is_in(text_column(source.values(TAGS)), tags)


def _only(source: RowSource, chosen: npt.NDArray[np.bool_]) -> RowSource:
    """Only the chosen rows."""
    if chosen.all():
        return source
    found = {
        name: Spans(start[chosen], length[chosen]) for name, (start, length) in source.found.items()
    }
    return RowSource(source.rows.only(chosen), found)


def _cuts(rows: Rows, rows_max: int) -> Iterator[Rows]:
    """The rows in pieces that make a batch each."""
    if not len(rows):
        return
    stop_bytes = rows.records.size_bytes.cumsum(dtype=np.int64)
    if len(rows) <= rows_max and stop_bytes[-1] <= BATCH_BYTES:
        yield rows
        return
    edges = np.flatnonzero(np.diff(stop_bytes // BATCH_BYTES)) + 1
    for start, stop in pairwise([0, *edges.tolist(), len(rows)]):
        for at in range(start, stop, rows_max):
            yield rows.cut(at, min(at + rows_max, stop))
