"""One Arrow array for each column, from whatever has the fields of the rows.

A `Source` is either rows that numpy has scanned (`RowSource`) or the buffers of the compiled kernel
(`flintmq.arrow.plain_pages`).  Both say the same of the same records, so that a column has one
maker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from flintmq.arrow.byte_spans import binary_column, number_column, text_column, time_column
from flintmq.arrow.page_rows import Rows
from flintmq.arrow.property_columns import (
    first_keys,
    headers,
    key_lists,
    message_ids,
    property_maps,
)
from flintmq.model.properties import KEYS, TAGS, UNIQ_KEY
from flintmq.model.queue import QueueRef
from flintmq.protocol.records.property_scan import Spans

if TYPE_CHECKING:
    import numpy.typing as npt


class Source(Protocol):
    """What columns are made of.  ``place`` says of each row which of the queues it is of."""

    @property
    def row_count(self) -> int: ...
    @property
    def queues(self) -> tuple[QueueRef, ...]: ...
    @property
    def place(self) -> npt.NDArray[np.int64] | None: ...
    def numbers(self, name: str) -> npt.NDArray[Any]: ...
    def bodies(self) -> pa.BinaryArray: ...
    def strings(self) -> pa.BinaryArray: ...
    def values(self, name: str) -> pa.BinaryArray: ...
    def ids(self) -> pa.StringArray: ...
    def bad_records(self, kind: pa.DataType) -> pa.Array: ...


class RowSource(NamedTuple):
    """Rows, and where the properties are that somebody needs."""

    rows: Rows
    found: Mapping[str, Spans]

    @property
    def row_count(self) -> int:
        return len(self.rows)

    @property
    def queues(self) -> tuple[QueueRef, ...]:
        return self.rows.queues

    @property
    def place(self) -> npt.NDArray[np.int64] | None:
        return self.rows.place

    def numbers(self, name: str) -> npt.NDArray[Any]:
        found: npt.NDArray[Any] = getattr(self.rows.records, name)
        return found

    def bodies(self) -> pa.BinaryArray:
        if self.rows.bodies is not None:
            return self.rows.bodies
        records = self.rows.records
        return self._part(records.body_start, records.body_length)

    def strings(self) -> pa.BinaryArray:
        records = self.rows.records
        return self._part(records.properties_start, records.properties_length)

    def values(self, name: str) -> pa.BinaryArray:
        return self._part(*self.found[name])

    def ids(self) -> pa.StringArray:
        return message_ids(self.rows.records, text_column(self.values(UNIQ_KEY)))

    def bad_records(self, kind: pa.DataType) -> pa.Array:
        bad = self.rows.bad
        if bad is None:
            return pa.nulls(self.row_count, kind)
        told = [None if one is None else {"reason": one.reason, "raw": one.raw} for one in bad]
        return pa.array(told, kind)

    def _part(self, start: npt.NDArray[np.int64], length: npt.NDArray[np.int64]) -> pa.BinaryArray:
        return binary_column(self.rows.records.buffer, start, length)


Maker: TypeAlias = Callable[[Source, pa.DataType], pa.Array]

NEEDS: Final = {"message_id": UNIQ_KEY, "tags": TAGS, "keys": KEYS, "key": KEYS}
"""The columns that are made of one property."""

NUMBERS: Final = {
    "queue_offset": "queue_offset",
    "flag": "flag",
    "sys_flag": "sys_flag",
    "born_time": "born_ms",
    "store_time": "store_ms",
    "reconsume_times": "reconsume_times",
    "offset": "queue_offset",
    "timestamp": "store_ms",
}
"""The columns that are made of one field of a record."""


def _number(name: str) -> Maker:
    return lambda of, kind: number_column(kind, of.numbers(NUMBERS[name]))


def _time(name: str) -> Maker:
    return lambda of, kind: time_column(kind, of.numbers(NUMBERS[name]))


def _properties(of: Source, kind: pa.DataType) -> pa.Array:
    return property_maps(kind, of.strings()) if pa.types.is_map(kind) else of.strings()


MAKERS: Final[Mapping[str, Maker]] = {
    "queue_offset": _number("queue_offset"),
    "message_id": lambda of, _: of.ids(),
    "tags": lambda of, _: text_column(of.values(TAGS)),
    "keys": lambda of, kind: key_lists(kind, of.values(KEYS)),
    "body": lambda of, _: of.bodies(),
    "flag": _number("flag"),
    "sys_flag": _number("sys_flag"),
    "born_time": _time("born_time"),
    "store_time": _time("store_time"),
    "reconsume_times": _number("reconsume_times"),
    "properties": _properties,
    "key": lambda of, _: first_keys(of.values(KEYS)),
    "value": lambda of, _: of.bodies(),
    "offset": _number("offset"),
    "timestamp": _time("timestamp"),
    "headers": lambda of, kind: headers(kind, of.strings()),
    "bad_record": lambda of, kind: of.bad_records(kind),
}
