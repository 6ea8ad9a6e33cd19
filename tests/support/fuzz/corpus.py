"""Bytes of real peers for everybody who bends them: frames, headers, records, bodies, texts."""

from __future__ import annotations

import json
import zlib
from functools import cache
from pathlib import Path
from random import Random

from flintmq.model.sys_flag import Compression
from flintmq.protocol.bodies.register import BrokerRegistration
from flintmq.protocol.bodies.topic import TopicConfig, TopicTable
from flintmq.protocol.compression import pack
from support.fuzz.expressions import grown
from support.protocol.registrations import compressed_form
from support.record_examples import golden_batches, golden_records

GOLDEN = Path(__file__).parents[2] / "golden"


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


@cache
def requests() -> list[bytes]:
    """What real clients, brokers and tools asked."""
    rows = map(json.loads, (GOLDEN / "frames.jsonl").read_text().splitlines())
    return [bytes.fromhex(row["frame_hex"]) for row in rows if row["role"] == "request"]


@cache
def answers(*codes: int) -> list[bytes]:
    """Whole frames of answers to requests of these codes."""
    rows = map(json.loads, (GOLDEN / "frames.jsonl").read_text().splitlines())
    return [
        bytes.fromhex(row["frame_hex"])
        for row in rows
        if row["role"] == "answer" and row["code"] in codes
    ]


def inner_batches() -> list[bytes]:
    lines = (GOLDEN / "inner_batches.jsonl").read_text().splitlines()
    return [bytes.fromhex(json.loads(line)["hex"]) for line in lines]


def registrations() -> list[bytes]:
    """Bodies of 103 as they are under the packing: chance seldom hits a stream that unpacks."""
    topics = {f"topic-{n}": TopicConfig(topic_name=f"topic-{n}") for n in range(5)}
    body = BrokerRegistration(topic_config_serialize_wrapper=TopicTable(topic_config_table=topics))
    return [zlib.decompress(compressed_form(body, version)) for version in (407, 479)]


def expressions() -> list[bytes]:
    """SQL92, by hand and grown from the grammar."""
    chance = Random("expressions")
    return [
        b"a > 5 AND b IN ('x', 'y') OR c IS NOT NULL",
        b"NOT (price BETWEEN 1 AND 1.5e3) -- why\n AND name CONTAINS 'it''s'",
        b"TRUE = a OR -b < 3 /* no */ AND c NOT STARTSWITH 'q'",
        *(grown(chance, chance.randrange(1, 40)).encode() for _ in range(200)),
    ]


def tags() -> list[bytes]:
    return [b"TagA || TagB||*", b"*", b"", b" || ".join(b"tag%d" % n for n in range(300))]


def settings() -> list[bytes]:
    """Texts of broker.conf, namesrv.properties, 25 and 318."""
    return [
        b"brokerPermission=6\ntransactionCheckInterval=60000\nmessageDelayLevel=1s 5s 1d\n",
        b"# note\n! note\nlistenPort: 10911\nbrokerIP1 = ::1\nflushDiskType\tSYNC_FLUSH\n",
        b"deleteWhen=04\nfileReservedTime=48\nmaxMessageSize=4194304\nnamesrvAddr=a:1;b:2\n",
        b"needWaitForService=true\nwaitSecondsForService=45\nlistenPort=9876\n",
        b"key\\ with=a\\u00e9\\\n  continued\n" * 20,
    ]
