"""What the key index holds for a key: the size of Java's hash of ``topic#key``.

Invariant: `index_hashes` gives for each key what `java_hash` gives for its text, one key at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from struct import Struct

import numpy as np
import numpy.typing as npt

from flintmq.kernel.python.send_forms import Keyed
from flintmq.model.java_hash import java_hash

HASHED_AT_ONCE = 8_192
HASHED_LENGTH_MAX = 128
"""Longer keys are hashed one by one, so that one of them does not widen the table for all."""

_offsets = Struct(">q12x").iter_unpack  # of units

_POWERS = range(HASHED_LENGTH_MAX + 1)
_UP = np.array([pow(31, power, 1 << 32) for power in _POWERS], np.uint32)
_DOWN = np.array([pow(31, -power - 1, 1 << 32) for power in _POWERS], np.uint32)


def hashes_and_places(records: Sequence[Keyed], keys: Sequence[str]) -> tuple[bytes, bytes, bytes]:
    """Hash, log offset and store time of each key, as arrays of the machine's 64-bit integers.

    ``keys`` are those of all records; records that share theirs have them once.
    """
    if any(isinstance(each[2], bytes) for each in records):
        records, keys = _one_by_one(records, keys)
    topics, counts, offsets, times = zip(*records, strict=True)
    prefixes = {topic: java_hash(f"{topic}#") & 0xFFFF_FFFF for topic in set(topics)}
    repeats = np.array(counts, np.int64)
    if len(prefixes) == 1:
        prefix_of = np.full(len(topics), prefixes[topics[0]], np.uint32)
    else:
        prefix_of = np.array([prefixes[topic] for topic in topics], np.uint32)
    return (
        index_hashes(keys, np.repeat(prefix_of, repeats)).tobytes(),
        np.repeat(np.array(offsets, np.int64), repeats).tobytes(),
        np.repeat(np.array(times, np.int64), repeats).tobytes(),
    )


def _one_by_one(records: Sequence[Keyed], keys: Sequence[str]) -> tuple[list[Keyed], list[str]]:
    """The same without any that share their keys."""
    alone: list[Keyed] = []
    own: list[str] = []
    at = 0
    for topic, count, place, store_ms in records:
        shared = keys[at : at + count]
        at += count
        if isinstance(place, int):
            alone.append((topic, count, place, store_ms))
            own += shared
        else:
            offsets = [offset for (offset,) in _offsets(place)]
            alone += zip(repeat(topic), repeat(count), offsets, repeat(store_ms))
            own += [*shared] * len(offsets)
    return alone, own


def index_hashes(
    keys: Sequence[str], prefix_hashes: npt.NDArray[np.uint32]
) -> npt.NDArray[np.int64]:
    """`index_hash` of many keys at once; of each one's topic and ``#`` the hash is given."""
    hashes = np.empty(len(keys), np.uint32)
    for start in range(0, len(keys), HASHED_AT_ONCE):
        stop = min(start + HASHED_AT_ONCE, len(keys))
        hashes[start:stop] = _java_hashes(keys[start:stop], prefix_hashes[start:stop])
    sizes = np.abs(hashes.view(np.int32).astype(np.int64))
    sizes[sizes == 2**31] = 0
    return sizes


def _java_hashes(
    keys: Sequence[str], prefix_hashes: npt.NDArray[np.uint32]
) -> npt.NDArray[np.uint32]:
    """Java's hash of many texts, each behind a prefix whose hash is given.

    The hash is a polynomial in 31 whose first character has the highest power.  Padding on
    the right would shift the powers, so each text is summed with powers of 1/31, which
    exists modulo 2^32, and the sum is multiplied by 31^length.  Ids of one client are all of
    one length and need none of this.
    """
    width = len(keys[0])
    text = "".join(keys)
    if width <= HASHED_LENGTH_MAX and text.isascii() and set(map(len, keys)) == {width}:
        octets = np.frombuffer(text.encode(), np.uint8).reshape(len(keys), width)
        alike: npt.NDArray[np.uint32] = octets.astype(np.uint32) @ _UP[:width][::-1]
        alike += prefix_hashes * _UP[width]
        return alike
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    odd = lengths > HASHED_LENGTH_MAX
    short = keys if not odd.any() else [k if len(k) <= HASHED_LENGTH_MAX else "" for k in keys]
    padded = np.array(short, dtype=np.str_)
    units = padded.view(np.uint32).reshape(len(keys), -1)
    sums = np.einsum("ij,j->i", units, _DOWN[: units.shape[1]])
    hashes: npt.NDArray[np.uint32] = (sums + prefix_hashes) * _UP[
        np.minimum(lengths, HASHED_LENGTH_MAX)
    ]
    odd |= units.max(axis=1, initial=0) > 0xFFFF  # two units in Java
    for index in np.flatnonzero(odd).tolist():
        hashes[index] = java_hash(keys[index], int(prefix_hashes[index])) & 0xFFFF_FFFF
    return hashes
