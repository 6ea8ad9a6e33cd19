"""Pages in which all records are plain, laid out by the compiled kernel.

Nearly all pages are of that kind: see `flintmq.kernel.python.plain_columns`.  Others are left to
`page_rows`, and so are all where the kernel is plain Python: numpy is quicker than its loop.

Refuses pages that would make more than one batch, and messages without an id of their sender.

Invariant: a source has the rows that `page_rows` gives for the same pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from flintmq.arrow.byte_spans import text_column
from flintmq.arrow.column_makers import NUMBERS
from flintmq.core.reading.read_span import Page
from flintmq.kernel.face import lay_out_columns, loops
from flintmq.kernel.layout import field_span
from flintmq.kernel.python.plain_columns import ColumnWishes, LaidColumns, Part, RawPage
from flintmq.model.properties import UNIQ_KEY
from flintmq.model.queue import QueueRef

if TYPE_CHECKING:
    import numpy.typing as npt

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1

_TYPES: Final[dict[int, np.dtype[Any]]] = {4: np.dtype("<i4"), 8: np.dtype("<i8")}

BODY, STRINGS = "body", "properties"

_PARTS: Final = {"body": BODY, "value": BODY, "properties": STRINGS, "headers": STRINGS}
"""The columns that are made of a part of the record."""


@dataclass(frozen=True, slots=True)
class PlainSource:
    """The rows of some pages, as the kernel laid them out."""

    row_count: int
    size_bytes: int
    queues: tuple[QueueRef, ...]
    place: npt.NDArray[np.int64] | None
    fields: dict[str, npt.NDArray[Any]]
    parts: dict[str, Part]

    def numbers(self, name: str) -> npt.NDArray[Any]:
        return self.fields[name]

    def bodies(self) -> pa.BinaryArray:
        return self.values(BODY)

    def strings(self) -> pa.BinaryArray:
        return self.values(STRINGS)

    def values(self, name: str) -> pa.BinaryArray:
        buffers = [None if part is None else pa.py_buffer(part) for part in self.parts[name]]
        return pa.Array.from_buffers(pa.binary(), self.row_count, buffers)

    def ids(self) -> pa.StringArray:
        return text_column(self.values(UNIQ_KEY))

    def bad_records(self, kind: pa.DataType) -> pa.Array:
        return pa.nulls(self.row_count, kind)


class PlainPages:
    """Lays out pages with these columns and properties."""

    def __init__(self, columns: Sequence[str], needed: Sequence[str], *, verify_crc: bool) -> None:
        self._fields = sorted({NUMBERS[name] for name in columns if name in NUMBERS})
        parts = {_PARTS[name] for name in columns if name in _PARTS}
        self._parts = [*needed, *(part for part in (BODY, STRINGS) if part in parts)]
        spans = [field_span(name) for name in self._fields]
        self._types = [_TYPES[stop - start] for start, stop in spans]
        self._wishes = ColumnWishes(
            tuple((start, stop - start) for start, stop in spans),
            tuple(name.encode() for name in needed),
            BODY in parts,
            STRINGS in parts,
            verify_crc,
        )

    def source(self, pages: Sequence[Page], rows_max: int, bytes_max: int) -> PlainSource | None:
        """The rows of some pages, if they are one batch and nothing is unusual in them."""
        lay_out = loops.lay_out_columns
        size_bytes = sum(len(page.records) for page in pages)
        if lay_out is lay_out_columns or not 0 < size_bytes <= bytes_max:
            return None
        laid = lay_out([_raw(page) for page in pages], self._wishes)
        if laid is None or sum(laid[0]) > rows_max:
            return None
        source = self._source(pages, laid, size_bytes)
        is_lacking_ids = UNIQ_KEY in source.parts and source.parts[UNIQ_KEY][0] is not None
        return None if is_lacking_ids else source

    def _source(self, pages: Sequence[Page], laid: LaidColumns, size_bytes: int) -> PlainSource:
        counts, found, columns = laid
        queues = tuple(dict.fromkeys(page.queue for page in pages))
        place = None
        if len(queues) > 1:
            numbers = {queue: number for number, queue in enumerate(queues)}
            place = np.array([numbers[page.queue] for page in pages]).repeat(counts)
        fields = {
            name: np.frombuffer(octets, kind)
            for name, octets, kind in zip(self._fields, found, self._types, strict=True)
        }
        parts = dict(zip(self._parts, columns, strict=True))
        return PlainSource(sum(counts), size_bytes, queues, place, fields, parts)


def _raw(page: Page) -> RawPage:
    delta = page.offset_delta
    return page.records, _fitting(page.start - delta), _fitting(page.stop - delta), _fitting(delta)


def _fitting(number: int) -> int:
    return min(max(number, _INT64_MIN), _INT64_MAX)
