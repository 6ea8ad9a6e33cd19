"""Hashes of keys for the index, of many records at once.

What it works with, numpy, is loaded when it is first needed: a client has no index.
"""

from __future__ import annotations

from collections.abc import Sequence

from flintmq.kernel.python.send_forms import Keyed


def hash_keys(records: Sequence[Keyed], keys: Sequence[str]) -> tuple[bytes, bytes, bytes]:
    """Hash, log offset and store time of each key, as arrays of the machine's 64-bit integers.

    ``keys`` are those of all records; records that share theirs have them once.
    """
    from flintmq.kernel.python.many_hashes import hashes_and_places

    return hashes_and_places(records, keys)
