"""The records that units point to, copied out of the log in as few pieces as they lie in.

Every record is verified before it is taken: its magic, its size, its own place in the log, its
queue, its offset there and its topic must be what the unit says; all of a page at once, with
numpy.  Records that lie side by side are copied as one.

Invariant: what is gathered are whole records of one queue in the order of their offsets.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from flintmq.store.files.layout import EXTENSION_ADDRESS_MAX
from flintmq.store.queues.consume_queue import Units, is_fill
from flintmq.store.queues.verify_units import lead_to_records, topic_field
from flintmq.store.readonly.store_files import LogFiles, Mask, real

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints: TypeAlias = npt.NDArray[np.int64]

PAGE_BYTES: Final = 1024 * 1024
"""About as much as a page holds; one record may be larger."""


class Gathered(NamedTuple):
    """Records of ``unit_count`` units; ``lost_count`` units behind them point at nothing."""

    records: bytes
    unit_count: int
    lost_count: int


def gather_records(
    log: LogFiles,
    units: Units,
    queue_id: int,
    first: int,
    topic: str,
    tags_codes: frozenset[int] | None = None,
) -> Gathered:
    """The records of the first units, which begin at offset ``first``, up to `PAGE_BYTES`.

    With ``tags_codes`` only those whose unit has one of these hashes, or keeps it elsewhere.
    """
    sizes = units["size"].astype(np.int64)
    chosen = real(units)
    if tags_codes is not None:
        chosen &= _may_match(units, tags_codes)
    upto = np.cumsum(np.where(chosen, sizes, 0))
    count = max(1, int(np.searchsorted(upto, PAGE_BYTES, side="right")))
    is_whole = np.ones(count, np.bool_)
    is_whole[:] = chosen[:count] | is_fill(units[:count]) if tags_codes is None else True
    taken = np.flatnonzero(chosen[:count])
    places = units["log_offset"].astype(np.int64)[taken]
    is_whole[taken] = _verify(log, places, sizes[taken], queue_id, first + taken, topic)
    lost = 0
    if not is_whole.all():
        count, lost = _first_run(is_whole)
        taken = taken[taken < count]
        places = places[: len(taken)]
    return Gathered(_copied(log, places, sizes[taken]), count, lost)


def _may_match(units: Units, tags_codes: frozenset[int]) -> Mask:
    held = units["tags_code"].astype(np.int64)
    fits: Mask = held <= EXTENSION_ADDRESS_MAX
    fits |= np.isin(held.astype(np.int32), np.array(sorted(tags_codes), np.int32))
    return fits


def _first_run(is_whole: Mask) -> tuple[int, int]:
    """How many good ones come first, and how many bad ones after them."""
    first_bad = int(np.argmin(is_whole))
    rest = is_whole[first_bad:]
    return first_bad, int(np.argmax(rest)) if rest.any() else len(rest)


def _verify(
    log: LogFiles, places: Ints, sizes: Ints, queue_id: int, offsets: Ints, topic: str
) -> Mask:
    """Which units lead to their records, file by file."""
    good = np.zeros(len(places), np.bool_)
    starts = places - places % log.file_bytes
    for start in np.unique(starts).tolist():
        view = log.view(start)
        if view is None:
            continue
        rows = np.flatnonzero(starts == start)
        good[rows] = lead_to_records(
            view,
            start,
            start + len(view),
            places[rows],
            sizes[rows],
            queue_id,
            offsets[rows],
            topic_field(topic),
        )
    return good


def _copied(log: LogFiles, places: Ints, sizes: Ints) -> bytes:
    """The bytes of all records, one after the other."""
    if not len(places):
        return b""
    stops, files = places + sizes, places // log.file_bytes
    begins = _begins((places[1:] != stops[:-1]) | (files[1:] != files[:-1]))
    ends = np.append(begins[1:], len(places)) - 1
    starts, stops, files = places[begins], stops[ends], files[begins]
    file_begins = _begins(files[1:] != files[:-1]).tolist()
    pieces: list[bytes] = []
    for first, last in pairwise([*file_begins, len(files)]):
        start = int(files[first]) * log.file_bytes
        view = log.view(start)
        assert view is not None, start
        octets: Any = view.obj  # slices of it cost less than those of the view
        lows, highs = starts[first:last] - start, stops[first:last] - start
        pieces += [octets[a:b] for a, b in zip(lows.tolist(), highs.tolist(), strict=True)]
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _begins(is_new: Mask) -> Ints:
    """Where runs begin, of things that each but the first say whether they begin one."""
    return np.flatnonzero(np.append(True, is_new))  # the first one does
