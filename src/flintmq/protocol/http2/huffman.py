"""Texts in header blocks that are packed by HTTP/2's Huffman code (RFC 7541, appendix B).

The code is canonical: of two symbols the one with the shorter code, or else the smaller one, has
the smaller code.  So the lengths say everything.  It is read four bits at a time: a step ends at
most one symbol, since no code is shorter than five bits.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from flintmq.errors import MalformedHeader

END: Final = 256
"""The symbol that never comes; its first bits fill the last byte."""

PADDING_BITS_MAX: Final = 7
KEPT: Final = 1_024
"""Texts that are remembered: clients say the same of themselves in each call."""

KEPT_BYTES_MAX: Final = 128
"""Of one of them: what is longer does not come again, or is sent to fill our memory."""

_SYMBOLS: Final = {  # by the bits of their codes
    5: (48, 49, 50, 97, 99, 101, 105, 111, 115, 116),
    6: (32, 37, 45, 46, 47, *range(51, 58), 61, 65, 95, 98, 100, 102, 103, 104, 108, 109, 110,
        112, 114, 117),
    7: (58, *range(66, 88), 89, 106, 107, 113, *range(118, 123)),
    8: (38, 42, 44, 59, 88, 90),
    10: (33, 34, 40, 41, 63),
    11: (39, 43, 124),
    12: (35, 62),
    13: (0, 36, 64, 91, 93, 126),
    14: (94, 125),
    15: (60, 96, 123),
    19: (92, 195, 208),
    20: (128, 130, 131, 162, 184, 194, 224, 226),
    21: (153, 161, 167, 172, 176, 177, 179, 209, 216, 217, 227, 229, 230),
    22: (129, 132, 133, 134, 136, 146, 154, 156, 160, 163, 164, 169, 170, 173, 178, 181, 185, 186,
         187, 189, 190, 196, 198, 228, 232, 233),
    23: (1, 135, 137, 138, 139, 140, 141, 143, 147, 149, 150, 151, 152, 155, 157, 158, 165, 166,
         168, 174, 175, 180, 182, 183, 188, 191, 197, 231, 239),
    24: (9, 142, 144, 145, 148, 159, 171, 206, 215, 225, 236, 237),
    25: (199, 207, 234, 235),
    26: (192, 193, 200, 201, 202, 205, 210, 213, 218, 219, 238, 240, 242, 243, 255),
    27: (203, 204, 211, 212, 214, 221, 222, 223, 241, *range(244, 249), *range(250, 255)),
    28: (*range(2, 9), 11, 12, *range(14, 22), *range(23, 32), 127, 220, 249),
    30: (10, 13, 22, END),
}  # fmt: skip


def _codes() -> dict[int, tuple[int, int]]:
    """Code and its bits, by symbol."""
    codes, code, before = {}, 0, 0
    for bits, symbols in _SYMBOLS.items():
        code <<= bits - before
        before = bits
        for symbol in symbols:
            codes[symbol] = code, bits
            code += 1
    return codes


_Step = tuple[int, int]
"""The node after four bits, and the symbol that ended within them, or -1."""


def _tree() -> list[list[int]]:
    """The children of every inner node by bit; a symbol is there as its complement."""
    children = [[0, 0]]
    for symbol, (code, bits) in _codes().items():
        node = 0
        for shift in range(bits - 1, 0, -1):
            bit = code >> shift & 1
            if not children[node][bit]:
                children[node][bit] = len(children)
                children.append([0, 0])
            node = children[node][bit]
        children[node][code & 1] = ~symbol
    return children


def _steps(tree: list[list[int]]) -> list[list[_Step]]:
    """The steps from every inner node, by four bits."""
    steps = []
    for start in range(len(tree)):
        row = []
        for nibble in range(16):
            node, found = start, -1
            for shift in (3, 2, 1, 0):
                node = tree[node][nibble >> shift & 1]
                if node < 0:
                    node, found = 0, ~node
            row.append((node, found))
        steps.append(row)
    return steps


def _endings(tree: list[list[int]]) -> frozenset[int]:
    """The nodes where a text may end: those within the first ones of `END`, and the root."""
    node, found = 0, {0}
    for _ in range(PADDING_BITS_MAX):
        node = tree[node][1]
        found.add(node)
    return frozenset(found)


_TREE: Final = _tree()
_STEPS: Final = _steps(_TREE)
_ENDINGS: Final = _endings(_TREE)


def unpack(packed: bytes) -> str:
    """The text; `MalformedHeader` where the bits are none."""
    return _kept(packed) if len(packed) <= KEPT_BYTES_MAX else _unpacked(packed)


def _unpacked(packed: bytes) -> str:
    node, found, steps = 0, bytearray(), _STEPS
    try:
        for byte in packed:
            node, symbol = steps[node][byte >> 4]
            if symbol >= 0:
                found.append(symbol)
            node, symbol = steps[node][byte & 15]
            if symbol >= 0:
                found.append(symbol)
    except ValueError:  # the end symbol is no byte
        raise MalformedHeader("", "a packed text has the symbol of its end") from None
    if node not in _ENDINGS:
        raise MalformedHeader("", "a packed text ends within a symbol")
    return found.decode("latin-1")


_kept: Final = lru_cache(KEPT)(_unpacked)
