"""Java's ``String.hashCode``: what consume queues hold for a tag and the index for a key.

The hash is the polynomial ``h = 31·h + unit`` over the UTF-16 units of a text, in
32 bits with sign.  Collisions are part of life ("Aa" and "BB"): whoever looks up
by hash compares the text again.
"""

from __future__ import annotations

from functools import lru_cache

BLOCK = 64
"""ASCII characters folded at once."""

SHORT = 8
"""Up to this many characters a plain loop is quicker than folding."""

TAGS_KEPT_MAX = 4_096
"""Tags whose code is remembered: few tags serve many messages."""

_U32 = 0xFFFF_FFFF
_SIGN = 0x8000_0000
_POWERS = tuple(pow(31, power, 1 << 32) for power in range(BLOCK + 1))


def java_hash(text: str, prefix_hash: int = 0) -> int:
    """Hash ``text``, or a longer text whose first part hashes to ``prefix_hash``."""
    if not text.isascii():
        units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
        return _signed(_horner(units.tolist(), prefix_hash))
    octets = text.encode()
    if len(octets) <= SHORT:
        return _signed(_horner(octets, prefix_hash))
    folded = prefix_hash & _U32
    for at in range(0, len(octets), BLOCK):
        block = octets[at : at + BLOCK]
        folded = (folded * _POWERS[len(block)] + _fold(block)) & _U32
    return _signed(folded)


@lru_cache(maxsize=TAGS_KEPT_MAX)
def tags_code(tag: str | None) -> int:
    """The code of a tag in a consume queue: 0 without a tag, else its hash."""
    return java_hash(tag) if tag else 0


def _horner(units: bytes | list[int], start: int) -> int:
    folded = start & _U32
    for unit in units:
        folded = (31 * folded + unit) & _U32
    return folded


def _signed(folded: int) -> int:
    return folded - ((folded & _SIGN) << 1)


def _lanes(lane_bits: int, value_bits: int) -> int:
    """A mask over a block: the low ``value_bits`` of every ``lane_bits``."""
    return sum(((1 << value_bits) - 1) << at for at in range(0, BLOCK * 8, lane_bits))


_M8, _M16, _M32 = _lanes(16, 8), _lanes(32, 16), _lanes(64, 32)
_M64, _M128 = _lanes(128, 32), _lanes(256, 32)


def _fold(block: bytes) -> int:
    """The polynomial of up to 64 ASCII characters, all lanes of one big integer at a time.

    Each step joins neighbours, so lanes halve in number and double in width.  A
    shorter block has zeros in front, and leading zeros leave the hash alone.  No
    lane can run over: three steps of 7-bit characters need 42 of 64 bits, and
    later steps first cut their values to 32.
    """
    x = int.from_bytes(block, "big")
    x = (x >> 8 & _M8) * 31 + (x & _M8)
    x = (x >> 16 & _M16) * 31**2 + (x & _M16)
    x = (x >> 32 & _M32) * 31**4 + (x & _M32)
    x = (x >> 64 & _M64) * _POWERS[8] + (x & _M64)
    x = (x >> 128 & _M128) * _POWERS[16] + (x & _M128)
    return ((x >> 256) * _POWERS[32] + x) & _U32
