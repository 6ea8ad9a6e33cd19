"""Accidents that happen to bytes: cut, flipped, doubled, joined, and bytes of no origin at all."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

INPUT_BYTES_MAX = 4_096
INTERESTING = [b"\x00", b"\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\x01", b"\x02", b'"']


def bent(corpus: Sequence[bytes], chance: Random) -> bytes:
    """Some input of the corpus after a few accidents."""
    if chance.random() < 0.05:
        return chance.randbytes(chance.randrange(200))
    data = bytearray(chance.choice(corpus)[:INPUT_BYTES_MAX])
    for _ in range(chance.choice((0, 1, 1, 2, 3, 8))):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(6):
            case 0 if at < len(data):
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                piece = chance.choice(INTERESTING)
                data[at : at + len(piece)] = piece
            case 2:
                del data[at : at + chance.randrange(1, 9)]
            case 3:
                data[at:at] = chance.choice(corpus)[: chance.randrange(64)]
            case 4:
                del data[at:]
            case _:
                data += chance.choice(corpus)[: INPUT_BYTES_MAX - len(data)]
    return bytes(data[:INPUT_BYTES_MAX])
