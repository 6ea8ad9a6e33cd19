"""The order in which a Java peer writes a map: that of its ``HashMap``.

Nobody depends on it.  It is known here so that captured bytes can be compared as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable

from flintmq.model.java_hash import java_hash

BUCKETS = 16
LOAD = 0.75


def java_map_order(names: Iterable[str], buckets: int = BUCKETS) -> list[str]:
    """The names by bucket, and within a bucket as they were put in.

    ``buckets`` is how many the map had when it was made.
    """
    given = list(dict.fromkeys(names))
    while len(given) > buckets * LOAD:
        buckets *= 2
    return sorted(given, key=lambda name: _spread(name) & (buckets - 1))


def _spread(name: str) -> int:
    folded = java_hash(name) & 0xFFFF_FFFF
    return folded ^ (folded >> 16)
