"""Bytes that are no requests, or requests that cost more than they should to read.

Finding 12 (headers of very many fields) is here.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from random import Random

import pytest

from support.attack.arena import Arena
from support.attack.peers import CUT, Peer, binary_frame, flood, header, packed
from support.fuzz.bending import bent
from support.fuzz.corpus import frames
from support.fuzz.served import mended

SEED = 20260101
SETTINGS_CODES = (25, 318)
"""Any peer may change settings, as in RocketMQ; what they may not do is in test_settings."""


def servers(arena: Arena) -> list[str]:
    return [arena.broker, arena.namesrv]


def test_bytes_of_no_origin_end_their_connection_only(arena: Arena) -> None:
    chance = Random(SEED)
    with arena.attack("frames: random bytes", cpu_s=5):
        for _ in range(150):
            for address in servers(arena):
                with Peer(address) as peer:
                    peer.say(chance.randbytes(chance.randrange(1, 4_096)))


def test_bent_frames_of_real_peers_break_nothing(arena: Arena) -> None:
    chance = Random(SEED)
    kept = [each for each in frames() if code_of(each) not in SETTINGS_CODES]
    with arena.attack("frames: 3,000 golden ones, bent", cpu_s=20):
        for address in servers(arena):
            for _ in range(150):
                some = [bent(kept, chance) for _ in range(10)]
                # with lengths that are true more than the first of them is read
                flood(address, map(mended, some) if chance.random() < 0.8 else some, limit_s=0.5)


def code_of(data: bytes) -> int:
    head = data[8 : 8 + int.from_bytes(data[5:8], "big")]
    return int.from_bytes(head[:2], "big") if data[4] else int(json.loads(head)["code"])


def test_lengths_that_lie_end_their_connection_only(arena: Arena) -> None:
    sizes = (0, 1, 3, 2**24, 2**31 - 1, 2**31, 2**32 - 1)
    with arena.attack("frames: lengths that lie", cpu_s=3):
        for address in servers(arena):
            for size in sizes:
                for inner in (0, 1, size & 0xFFFFFF, 0xFFFFFF, 0xFFFFFFFF):
                    with Peer(address) as peer:
                        peer.say(struct.pack(">II", size, inner) + b"{}" * 20)


def many_json_fields() -> bytes:
    return packed(header(11, {f"k{number}": "" for number in range(900_000)}))


def many_binary_fields() -> bytes:
    return binary_frame(11, [(b"%d" % number, b"") for number in range(900_000)])


def many_readable_fields() -> bytes:
    """Within the bytes that a header may have."""
    return packed(header(11, {f"k{number}": "" for number in range(30_000)}))


def many_readable_binary_fields() -> bytes:
    return binary_frame(11, [(b"%d" % number, b"") for number in range(40_000)])


def one_long_field() -> bytes:
    return packed(header(11, {"topic": "x" * 15_000_000}))


def deep_field() -> bytes:
    return packed(header(11).replace(b'"extFields": {}', b'"extFields": ' + b'{"a":' * 2_000_000))


def one_long_remark() -> bytes:
    return packed(header(11, remark="\\u0001" * 2_000_000))


@pytest.mark.parametrize(
    "make",
    [
        many_json_fields,
        many_binary_fields,
        many_readable_fields,
        many_readable_binary_fields,
        one_long_field,
        deep_field,
        one_long_remark,
    ],
)
@pytest.mark.parametrize("where", ["broker", "namesrv"])
def test_a_huge_header_costs_next_to_nothing(
    arena: Arena, make: Callable[[], bytes], where: str
) -> None:
    data = make()
    name = f"frames: {make.__name__.replace('_', ' ')} x 5, {where}"
    with arena.attack(name, cpu_s=2.5, grow_mb=200):
        for _ in range(5):
            answers = flood(getattr(arena, where), [data], limit_s=20)
            assert answers.total() == 1 or CUT in answers, answers
