"""Single properties of many records, without parsing the rest of them.

A piece of a property string belongs to a name exactly when it starts with the name
and 0x01, and pieces start after 0x02 or at the start of the string.  So all 0x02 of
all strings are found in one go, the bytes after them are compared with the name,
and the next 0x02 ends the value.  That is exact for any bytes: the last piece with a
value wins, as in `parse_properties`, and there is no slow path.

The strings are first copied side by side into rows of equal width, so that bodies
are never searched.  Strings of very different length go into separate rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from flintmq.model.java_hash import java_hash
from flintmq.protocol.records.record_scan import RecordColumns, gather, windows

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    Ints: TypeAlias = npt.NDArray[np.int64]

ROWS_BYTES: Final = 256 * 1024
"""Strings searched at a time: small enough for a processor's cache."""

WIDTH_MIN: Final = 16
"""Rows are no narrower, so that one row more is enough to read eight bytes ahead."""

HASHED_BYTES_MAX: Final = 64
"""Tags up to this length are hashed all at once; a record is longer, so a row always fits."""

NARROW_BYTES: Final = 256
"""Strings up to this length share rows whatever their length."""

_SEPARATOR: Final = 2
_EIGHT_BYTES: Final = np.dtype("<u8")


class Spans(NamedTuple):
    """Where a value is in the buffer, by record.  A length of -1 says that there is none."""

    start: Ints
    length: Ints


def property_spans(columns: RecordColumns, *names: str) -> list[Spans]:
    """The values of these properties, one `Spans` for each name."""
    if not names:
        return []
    count = len(columns)
    patterns = [_pattern(name) for name in names]
    starts = np.zeros(len(names) * count, np.int64)
    lengths = np.full(len(names) * count, -1, np.int64)
    all_stops = columns.properties_start + columns.properties_length
    for group, width in _groups(columns.properties_length + 1):
        rows = windows(columns.buffer, width)
        stop = all_stops[group]
        string_start = columns.properties_start[group]
        base = np.maximum(np.append(stop, stop[-1]) - width, 0)  # one row more: see `_search`
        rows_at_once = max(1, ROWS_BYTES // width)
        for at in range(0, len(group), rows_at_once):
            some = slice(at, min(at + rows_at_once, len(group)))
            text = rows[base[some.start : some.stop + 1]].view(np.uint8)
            shift = base[some] - np.arange(0, len(text) - width, width)
            name, row, value, value_stop = _search(
                text, string_start[some] - shift, stop[some] - shift, patterns
            )
            cell = name * count + group[some][row]
            starts[cell] = value + shift[row]  # of equal names, the last one stays
            lengths[cell] = value_stop - value
    by_name = (len(names), count)
    return list(map(Spans, starts.reshape(by_name), lengths.reshape(by_name)))


def tags_codes(columns: RecordColumns, tags: Spans) -> Ints:
    """The code of every record's tag, as `flintmq.model.java_hash.tags_code` gives it.

    Short ASCII tags are hashed all at once, others one by one.
    """
    codes = np.zeros(len(columns), np.int64)
    buffer, start, length = columns.buffer, *tags
    rows = np.flatnonzero((length > 0) & (length <= HASHED_BYTES_MAX))
    singly = np.flatnonzero(length > HASHED_BYTES_MAX)
    if len(rows):
        width = int(length[rows].max())
        stop = start[rows] + length[rows]
        text = gather(buffer, np.dtype((np.uint8, (width,))), stop - width)
        text[np.arange(width) < (width - length[rows])[:, None]] = 0  # leading zeros hash to 0
        hashes = np.zeros(len(rows), np.uint32)
        for column in text.T:
            hashes *= np.uint32(31)
            hashes += column
        codes[rows] = hashes.view(np.int32)
        singly = np.concatenate([singly, rows[(text >= 0x80).any(axis=1)]])
    for row in singly.tolist():
        at = int(start[row])
        text_of_one = str(buffer[at : at + int(length[row])], "utf-8", "replace")
        codes[row] = java_hash(text_of_one)
    return codes


def _pattern(name: str) -> bytes:
    """What a piece with this name starts with."""
    pattern = name.encode() + b"\x01"
    assert pattern.find(1) == len(pattern) - 1 > 0, f"{name!r} is no property name"
    assert _SEPARATOR not in pattern, f"{name!r} is no property name"
    return pattern


def _groups(widths: Ints) -> Iterator[tuple[Ints, int]]:
    """Records whose strings may share rows: none leaves more than half of its row empty."""
    rows = np.arange(len(widths))
    while len(rows):
        width = max(int(widths.max()), WIDTH_MIN)
        wide = widths > width // 2 if width > NARROW_BYTES else np.ones(len(rows), np.bool_)
        yield rows[wide], width
        rows, widths = rows[~wide], widths[~wide]


def _search(
    text: npt.NDArray[np.uint8], row_start: Ints, row_stop: Ints, patterns: list[bytes]
) -> tuple[Ints, Ints, Ints, Ints]:
    """Every value of every pattern: its pattern, its row, and where it starts and stops.

    ``text`` is rows of equal width one after the other, each with a string in it, and
    one row more so that reading ahead stays inside.  What is beside a string in its row
    may look like a piece, and is sorted out at the end.
    """
    width = len(text) // (len(row_start) + 1)
    text_stop = len(text) - width
    is_separator = np.empty(text_stop + 1, np.bool_)
    np.equal(text[:text_stop], _SEPARATOR, out=is_separator[:text_stop])
    is_separator[row_start - 1] = True  # the first piece of a string follows no separator
    is_separator[text_stop] = True  # and the very last one may have none after it
    separators = is_separator.nonzero()[0]
    last = -2 if separators[-2] == text_stop - 1 else -1  # no piece starts at the very end
    after = text[1:]  # where a separator is in text, its piece starts in here
    initials = after[separators[:last]]
    matches = [_match(after, width, separators, initials, pattern) for pattern in patterns]
    hits = np.concatenate(matches)
    name = np.arange(len(patterns)).repeat([len(match) for match in matches])
    piece = separators[hits] + 1
    row = piece // width
    value = piece + np.array([len(pattern) for pattern in patterns])[name]
    value_stop = np.minimum(separators[hits + 1], row_stop[row])
    good = value < value_stop
    good &= piece >= row_start[row]
    if not good.all():
        return name[good], row[good], value[good], value_stop[good]
    return name, row, value, value_stop


def _match(
    after: npt.NDArray[np.uint8],
    width: int,
    separators: Ints,
    initials: npt.NDArray[np.uint8],
    pattern: bytes,
) -> Ints:
    """After which separators the pattern stands.  ``initials`` are the bytes right after them."""
    if len(pattern) > width:
        return np.empty(0, np.int64)  # no string here is that long
    hits: Ints = (initials == pattern[0]).nonzero()[0]
    mask = np.uint64((1 << 8 * min(len(pattern), 8)) - 1)
    for ahead in (*range(0, len(pattern) - 8, 8), max(0, len(pattern) - 8)):
        octets = gather(after.data, _EIGHT_BYTES, separators[hits] + ahead)
        wanted = np.uint64(int.from_bytes(pattern[ahead : ahead + 8], "little"))
        hits = hits[octets & mask == wanted]
    return hits
