"""Columns made of the properties of messages: keys, a map, Kafka's headers, message ids.

All are made for many rows at once from the property strings as they are stored, and agree with
`parse_properties`: pieces without a name or a value are dropped, and of equal names the last
one counts.  Any bytes give a result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flintmq.arrow.byte_spans import binary_column, list_column, octets_of, text_column
from flintmq.kernel.layout import LOG_OFFSET_AT
from flintmq.model.message import KEY_SEPARATOR, NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR
from flintmq.model.sys_flag import STORE_HOST_V6
from flintmq.protocol.records.record_scan import RecordColumns, windows

if TYPE_CHECKING:
    import numpy.typing as npt

    from flintmq.protocol.records.record import Buffer

    Ints: TypeAlias = npt.NDArray[np.int64]
    Octets: TypeAlias = npt.NDArray[np.uint8]

_SPACE, _ONE, _TWO = map(ord, (KEY_SEPARATOR, NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR))
_HEX: Final = np.array([int.from_bytes(b"%02X" % n, "little") for n in range(256)], "<u2")

BITS_MAX: Final = 48
"""So many different names have a bit each; a string has too few pieces to overflow their sum."""


def key_lists(kind: pa.DataType, keys: pa.BinaryArray) -> pa.Array:
    """The keys of every row; none where there are none."""
    octets, bounds = octets_of(keys)
    if not (octets == _SPACE).any():
        offsets = np.concatenate(([0], np.cumsum(np.diff(bounds) > 0)))
        return list_column(kind, offsets, text_column(keys.drop_null()))
    start, stop = _words(octets, bounds)
    words = binary_column(octets.data, start, stop - start)
    return list_column(kind, np.searchsorted(start, bounds), text_column(words))


def first_keys(keys: pa.BinaryArray) -> pa.BinaryArray:
    """The first key of every row, or null."""
    octets, bounds = octets_of(keys)
    if not (octets == _SPACE).any():
        return keys
    start, stop = _words(octets, bounds)
    word = np.searchsorted(start, bounds)
    has_one = word[:-1] < word[1:]
    first_start = np.zeros(len(keys), np.int64)
    first_length = np.full(len(keys), -1, np.int64)
    first_start[has_one] = start[word[:-1][has_one]]
    first_length[has_one] = (stop - start)[word[:-1][has_one]]
    return binary_column(octets.data, first_start, first_length)


def property_maps(kind: pa.DataType, strings: pa.BinaryArray) -> pa.Array:
    pieces = _pieces(strings)
    key_field, item_field = kind.key_field, kind.item_field
    entries = pa.StructArray.from_arrays(
        [pieces.names, text_column(pieces.values)], fields=[key_field, item_field]
    )
    return list_column(kind, pieces.offsets, entries)


def headers(kind: pa.DataType, strings: pa.BinaryArray) -> pa.Array:
    """Properties as Kafka's headers, values as they are stored; null where there are none."""
    pieces = _pieces(strings)
    entries = pa.StructArray.from_arrays(
        [pieces.names, pieces.values], fields=list(kind.value_type)
    )
    return list_column(kind, pieces.offsets, entries, np.diff(pieces.offsets) > 0)


def message_ids(columns: RecordColumns, unique_ids: pa.StringArray) -> pa.StringArray:
    """The id its sender gave a message, or where it is stored when the sender gave none."""
    if not unique_ids.null_count:
        return unique_ids
    lacking = unique_ids.is_null()
    rows = np.flatnonzero(lacking.to_numpy(zero_copy_only=False))
    is_v6 = columns.sys_flag[rows] & STORE_HOST_V6 != 0
    v4_rows, v6_rows = rows[~is_v6], rows[is_v6]
    ids = pa.concat_arrays([_offset_ids(columns, v4_rows, 8), _offset_ids(columns, v6_rows, 20)])
    in_order = np.concatenate((v4_rows, v6_rows)).argsort()
    return pc.replace_with_mask(unique_ids, lacking, ids.take(pa.array(in_order)))


def _offset_ids(columns: RecordColumns, rows: Ints, host_bytes: int) -> pa.StringArray:
    """Store host and log offset in hex, as `flintmq.model.message_id.offset_id` writes them."""
    host = _octets(columns.buffer, columns.store_host_start[rows], host_bytes)
    log_offset = _octets(columns.buffer, columns.start[rows] + LOG_OFFSET_AT, 8)
    digits = _HEX[np.concatenate((host, log_offset), axis=1)].view(np.uint8)
    width = digits.shape[1]
    starts = np.arange(0, digits.size, width)
    return text_column(binary_column(digits.ravel().data, starts, np.full(len(rows), width)))


def _octets(buffer: Buffer, start: Ints, width: int) -> Octets:
    return windows(buffer, width)[start].view(np.uint8).reshape(len(start), width)


class _Pieces(NamedTuple):
    """Names and values of all rows; those of a row are between two of the ``offsets``."""

    names: pa.StringArray
    values: pa.BinaryArray
    offsets: Ints


def _pieces(strings: pa.BinaryArray) -> _Pieces:
    octets, bounds = octets_of(strings)
    start, middle, stop = _split(octets, bounds)
    offsets = np.searchsorted(start, bounds)
    names = text_column(binary_column(octets.data, start, middle - start))
    last_ones = _last_of_equal(names, offsets)
    if last_ones is not None:
        names = names.take(pa.array(last_ones))
        middle, stop = middle[last_ones], stop[last_ones]
        offsets = np.searchsorted(last_ones, offsets)
    values = binary_column(octets.data, middle + 1, stop - middle - 1)
    return _Pieces(names, values, offsets)


def _split(octets: Octets, bounds: npt.NDArray[np.int32]) -> tuple[Ints, Ints, Ints]:
    """Where pieces start, where the first 0x01 in them is, and where they stop."""
    starts_here = np.empty(len(octets) + 1, np.bool_)
    starts_here[0] = True
    np.equal(octets, _TWO, out=starts_here[1:])
    starts_here[bounds[:-1]] = True
    start = starts_here[:-1].nonzero()[0]
    if not len(start):
        return start, start, start
    stop = np.append(start[1:], len(octets))
    stop -= octets[stop - 1] == _TWO
    ones = (octets == _ONE).nonzero()[0]
    if len(ones) == len(start):  # one in each piece, if they are in order
        whole = (start < ones) & (ones < stop - 1)
        if whole.all():
            return start, ones, stop
    middle = np.append(ones, len(octets))[np.searchsorted(ones, start)]
    whole = (start < middle) & (middle < stop - 1)
    return start[whole], middle[whole], stop[whole]


def _last_of_equal(names: pa.StringArray, offsets: Ints) -> Ints | None:
    """Which pieces are the last of their name in their row; None when all are."""
    if not len(names):
        return None
    encoded = names.dictionary_encode()
    kind, kinds = encoded.indices.to_numpy(), len(encoded.dictionary)
    counts = np.diff(offsets)
    if kinds <= BITS_MAX:
        bits = np.int64(1) << kind.astype(np.int64)
        firsts = offsets[:-1][counts > 0]
        if (np.add.reduceat(bits, firsts) == np.bitwise_or.reduceat(bits, firsts)).all():
            return None
    cell = np.arange(len(counts)).repeat(counts) * kinds + kind
    _, from_the_end = np.unique(cell[::-1], return_index=True)
    if len(from_the_end) == len(cell):
        return None
    return np.sort(len(cell) - 1 - from_the_end)


def _words(octets: Octets, bounds: npt.NDArray[np.int32]) -> tuple[Ints, Ints]:
    """Where what stands between spaces starts and stops.  Rows end a word too."""
    is_space = np.ones(len(octets) + 2, np.bool_)  # one more at either end
    np.equal(octets, _SPACE, out=is_space[1:-1])
    begins, ends = is_space[:-1].copy(), is_space[1:].copy()
    begins[bounds] = ends[bounds] = True  # `ends[n]`: a word may stop before byte n
    start = (begins[:-1] & ~is_space[1:-1]).nonzero()[0]
    stop = (ends[1:] & ~is_space[1:-1]).nonzero()[0] + 1
    return start, stop
