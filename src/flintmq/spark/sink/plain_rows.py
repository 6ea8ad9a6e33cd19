"""Rows that have a body and nothing else: laid out as entries of batches, column by column.

Such rows are the most common ones, and what they cost is what each step of Python costs.  Their
entries differ in body, message id and number of the row, so only the first becomes a `Message`,
which is checked, and an entry of a batch; Arrow joins the columns of the others like it:

    sizes · body · length of the properties · UNIQ_KEY= · id · …SPARK_ROW=prefix · row · end

Refuses a batch in which a body is missing, empty or too large, or that no batch of the producer
holds: `RowPlan.rows` says what is wrong, or sends it in another way.

Invariant: the entries are those that `RowPlan.rows` and a producer make of the same rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flintmq.errors import FlintError
from flintmq.kernel.python.batches import ENTRY_BYTES_MIN, ENTRY_HEAD_BYTES
from flintmq.model.group import is_retry_topic
from flintmq.model.message import BODY_BYTES_MAX, Message
from flintmq.spark.sink.row_identity import ROW_PROPERTY

PACKED_BYTES_MAX: Final = 256 * 1024 * 1024
"""Bodies that are joined at once: the entries are a second copy of them."""

_NOTHING: Final = pa.scalar(b"", pa.binary())


class Packer(Protocol):
    """The part of a producer that is needed here."""

    def ids(self, count: int) -> Sequence[str]: ...

    def entry_of(self, message: Message) -> tuple[bytes, str]: ...


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Entries of rows one after the other.  ``edges`` are where each begins, and the end."""

    topic: str
    entries: memoryview
    edges: npt.NDArray[np.int64]
    body_bytes: int

    def stop_within(self, start: int, room_bytes: int) -> int:
        """The row before which those from ``start`` on no longer fit."""
        return int(self.edges.searchsorted(self.edges[start] + room_bytes, "right")) - 1

    def piece(self, start: int, stop: int) -> memoryview:
        return self.entries[self.edges[start] : self.edges[stop]]


def pack_rows(
    bodies: pa.Array,
    packer: Packer,
    topic: str,
    prefix: str,
    first: int,
    *,
    body_bytes_max: int,
    entry_bytes_max: int,
) -> PackedRows | None:
    """The entries of rows from the ``first`` on; None where one needs to be looked at."""
    if not len(bodies) or bodies.null_count or bodies.nbytes > PACKED_BYTES_MAX:
        return None
    if is_retry_topic(topic):  # brokers take no batches there
        return None
    if not pa.types.is_binary(bodies.type):
        bodies = bodies.cast(pa.binary())
    body_sizes = pc.binary_length(bodies).to_numpy()
    if not body_sizes.min() or body_sizes.max() > min(body_bytes_max, BODY_BYTES_MAX):
        return None
    try:
        checked = Message(topic, bodies[0].as_py(), properties={ROW_PROPERTY: f"{prefix}{first}"})
        entry, message_id = packer.entry_of(checked)
    except FlintError:
        return None
    before, _, after = entry[ENTRY_HEAD_BYTES + len(checked.body) + 2 :].partition(
        message_id.encode()
    )
    end = f"{first}\x02".encode()
    assert after.endswith(end), "the row property is the last"
    rows = pa.array(np.arange(first, first + len(bodies))).cast(pa.string()).cast(pa.binary())
    fixed_bytes = len(before) + len(message_id) + len(after) - len(end) + 1
    property_sizes = pc.binary_length(rows).to_numpy() + fixed_bytes
    sizes = ENTRY_BYTES_MIN + body_sizes + property_sizes
    if sizes.max() > entry_bytes_max:
        return None
    heads = np.zeros((len(bodies), ENTRY_HEAD_BYTES // 4), ">i4")
    heads[:, 0], heads[:, -1] = sizes, body_sizes
    joined = pc.binary_join_element_wise(
        _octets(heads),
        bodies,
        _octets(property_sizes.astype(">i2")),
        _constant(before),
        pa.array(packer.ids(len(bodies)), pa.binary()),
        _constant(after[: -len(end)]),
        rows,
        _constant(end[-1:]),
        _NOTHING,  # between them
    )
    edges = np.zeros(len(bodies) + 1, np.int64)
    np.cumsum(sizes, out=edges[1:])
    return PackedRows(topic, memoryview(joined.buffers()[2]), edges, int(body_sizes.sum()))


def _constant(octets: bytes) -> pa.Scalar:
    return pa.scalar(octets, pa.binary())


def _octets(values: npt.NDArray[np.generic]) -> pa.Array:
    """Rows of numbers, as their bytes."""
    width = values.nbytes // len(values)
    offsets = np.arange(0, values.nbytes + 1, width, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(values.tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)
