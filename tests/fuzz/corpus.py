"""Bytes of real peers for everybody who bends them: frames, headers, records, bodies, texts."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from flintmq.model.sys_flag import Compression
from flintmq.protocol.compression import pack
from record_examples import golden_batches, golden_records

GOLDEN = Path(__file__).parents[1] / "golden"


@cache
def frames() -> list[bytes]:
    rows = map(json.loads, (GOLDEN / "frames.jsonl").read_text().splitlines())
    return [bytes.fromhex(row["frame_hex"]) for row in rows]


def headers() -> list[bytes]:
    return [frame[8 : 8 + int.from_bytes(frame[5:8], "big")] for frame in frames()]


def records() -> list[bytes]:
    return [bytes.fromhex(row["hex"]) for row in golden_records()]


def batches() -> list[bytes]:
    return [bytes.fromhex(row["hex"]) for row in golden_batches()]


def bodies() -> list[bytes]:
    rows = map(json.loads, (GOLDEN / "bodies.jsonl").read_text().splitlines())
    return [bytes.fromhex(r["hex"]) if "hex" in r else r["text"].encode() for r in rows]


def packed() -> list[bytes]:
    texts = [b"", b"x" * 5_000, bytes(range(256)) * 3]
    return [pack(text, kind) for kind in Compression for text in texts]


def expressions() -> list[bytes]:
    return [
        b"a > 5 AND b IN ('x', 'y') OR c IS NOT NULL",
        b"NOT (price BETWEEN 1 AND 1.5e3) -- why\n AND name CONTAINS 'it''s'",
        b"TRUE = a OR -b < 3 /* no */ AND c NOT STARTSWITH 'q'",
        b"TagA || TagB||*",
    ]
