"""Bloom filters as RocketMQ lays them out: which bits of a record's bit map belong to a group.

With consume queue extensions a broker may evaluate SQL92 filters when a message arrives and keep
the outcome as a bit map of a few bytes.  Each ``group#topic`` owns a few bits of it.  All of them
set means "may match", and the record is then tested; one of them clear means "does not match".

The bits come from the low half of MurmurHash3 (x64, 128 bits, seed 0), split in two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

_U64 = (1 << 64) - 1
_U32 = (1 << 32) - 1
_C1 = 0x87C37B91114253D5
_C2 = 0x4CF5AD432745937F


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """The shape of the bit maps; `bloom_filter` computes it from what is expected of them."""

    hash_count: int
    bit_count: int

    def positions(self, text: str) -> tuple[int, ...]:
        """The bits that belong to ``text``."""
        hashed = murmur3_low64(text.encode("utf-8", "replace"))
        first, second = hashed & _U32, hashed >> 32
        combined = (first + step * second & _U32 for step in range(1, self.hash_count + 1))
        return tuple((c if c < 1 << 31 else ~c & _U32) % self.bit_count for c in combined)

    def bit_map(self, marked: Iterable[Iterable[int]]) -> bytes:
        """The bit map in which all these positions are set."""
        bits = 0
        for positions in marked:
            for position in positions:
                bits |= 1 << position
        return bits.to_bytes(self.bit_count // 8, "little")

    def may_match(self, bit_map: bytes, positions: Iterable[int]) -> bool:
        """False only if the bit map excludes a match; one of another size excludes nothing."""
        if len(bit_map) * 8 != self.bit_count:
            return True
        return all(bit_map[position >> 3] >> (position & 7) & 1 for position in positions)


def bloom_filter(error_percent: int = 20, text_count: int = 32) -> BloomFilter:
    """The filter for so many texts at this rate of false hits.  The defaults are RocketMQ's."""
    assert 1 <= error_percent < 100
    assert text_count >= 1
    error = error_percent / 100
    hash_count = math.ceil(math.log(error) / math.log(0.5))
    bits = math.ceil(text_count * (math.log(1 / error) / math.log(2)) * (1 / math.log(2)))
    return BloomFilter(hash_count, 8 * math.ceil(bits / 8))


def murmur3_low64(octets: bytes) -> int:
    """The first 64 bits of MurmurHash3_x64_128 with seed 0."""
    one = two = 0
    whole = len(octets) & ~15
    for at in range(0, whole, 16):
        one ^= _scramble_one(int.from_bytes(octets[at : at + 8], "little"))
        one = (_rotate(one, 27) + two) * 5 + 0x52DCE729 & _U64
        two ^= _scramble_two(int.from_bytes(octets[at + 8 : at + 16], "little"))
        two = (_rotate(two, 31) + one) * 5 + 0x38495AB5 & _U64

    one ^= _scramble_one(int.from_bytes(octets[whole : whole + 8], "little"))
    two ^= _scramble_two(int.from_bytes(octets[whole + 8 :], "little"))

    one, two = one ^ len(octets), two ^ len(octets)
    one = one + two & _U64
    two = two + one & _U64
    return _finish(one) + _finish(two) & _U64


def _scramble_one(word: int) -> int:
    return _rotate(word * _C1 & _U64, 31) * _C2 & _U64


def _scramble_two(word: int) -> int:
    return _rotate(word * _C2 & _U64, 33) * _C1 & _U64


def _rotate(word: int, count: int) -> int:
    return (word << count | word >> (64 - count)) & _U64


def _finish(word: int) -> int:
    word = (word ^ word >> 33) * 0xFF51AFD7ED558CCD & _U64
    word = (word ^ word >> 33) * 0xC4CEB9FE1A85EC53 & _U64
    return word ^ word >> 33
