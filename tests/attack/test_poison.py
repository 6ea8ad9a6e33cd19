"""Records that nobody can decode stop no consumer: all good messages around them arrive.

Findings 2 (a body that cannot be unpacked ends the queue for our consumer) and 19 (escapes of
messages and names reach the terminal).
"""

from __future__ import annotations

import struct
import subprocess
import threading
import zlib
from itertools import product
from typing import Self

import pytest

from flintmq import PushConsumer
from flintmq.model.message import ReceivedMessage
from support.attack.arena import Arena
from support.attack.peers import CUT, asked, flood, frame
from support.attack.said import SEND, send_fields
from support.attack.victim import until
from support.cli.serving import COMMAND, environment

BATCH = 320
LZ4, ZSTD, ZLIB, UNKNOWN = (kind << 8 | 1 for kind in (1, 2, 3, 7))
POISONS = {
    "no zlib stream": (b"this was never packed", 1),
    "a zlib stream that is cut": (zlib.compress(bytes(500))[:-5], ZLIB),
    "no lz4 frame": (b"this was never packed", LZ4),
    "no zstd frame": (b"this was never packed", ZSTD),
    "unpacks to 100 MB": (zlib.compress(bytes(100 * 1024 * 1024)), 1),
    "unknown packing": (b"this was never packed", UNKNOWN),
}
GOOD_S = 60.0
ESCAPES = "\x1b]0;owned\x07\x1b[2J\n\r\x00\x9b31m"


class Heap:
    """A consumer of ours that keeps what it gets."""

    def __init__(self, arena: Arena, topic: str) -> None:
        self.bodies: set[bytes] = set()
        self._lock = threading.Lock()
        self._consumer = PushConsumer(
            f"{topic}-readers", self._take, namesrv=arena.namesrv, start_from="first"
        )
        self._consumer.subscribe(topic)

    def _take(self, messages: tuple[ReceivedMessage, ...]) -> None:
        with self._lock:
            self.bodies.update(bytes(message.body) for message in messages)

    def __enter__(self) -> Self:
        self._consumer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.stop(5)


def test_every_good_message_arrives_around_every_poison(arena: Arena) -> None:
    topic = "Poison"
    good: set[bytes] = set()
    with arena.attack("poison: six kinds of bodies, ten each", cpu_s=15, grow_mb=200):
        for number, (body, sys_flag) in product(range(10), POISONS.values()):
            asked(arena.broker, SEND, send_fields(topic, sys_flag=sys_flag), body)
            fine = b"good-%d-%d" % (number, len(good))
            assert asked(arena.broker, SEND, send_fields(topic), fine).code == 0
            good.add(fine)
        with Heap(arena, topic) as heap:
            assert until(lambda: good <= heap.bodies, GOOD_S), (
                f"{len(good & heap.bodies)} of {len(good)} good messages arrived"
            )


def part(body: bytes, size: int | None = None, properties: bytes = b"") -> bytes:
    """One message of a batch: size, magic, crc, flag, body, properties."""
    rest = struct.pack(">iiii", 0, 0, 0, len(body)) + body
    rest += struct.pack(">h", len(properties)) + properties
    return struct.pack(">i", len(rest) + 4 if size is None else size) + rest


def test_batches_that_lie_store_nothing_that_stops_anybody(arena: Arena) -> None:
    topic = "Batches"
    bodies = [part(b"x", size) for size in (0, -1, 3, 2**31 - 1, -(2**31))]
    bodies += [part(b"x")[:cut] for cut in range(1, 20)]
    bodies += [part(b"x") * 3 + b"\x00", part(b"x", properties=b"\x01\x02\xff"), b"\x00" * 5_000]
    bodies += [part(b"") * 100_000]
    frames = [
        frame(BATCH, send_fields(topic, is_batch=True), body, opaque=number)
        for number, body in enumerate(bodies)
    ]
    with arena.attack("poison: batches that lie", cpu_s=20, grow_mb=250):
        answers = flood(arena.broker, frames)
        assert CUT not in answers
        assert asked(arena.broker, SEND, send_fields(topic), b"good").code == 0
        with Heap(arena, topic) as heap:
            assert until(lambda: b"good" in heap.bodies, GOOD_S), "the good message is not there"


def test_properties_that_are_none_stop_nobody(arena: Arena) -> None:
    topic = "Properties"
    texts = [
        "TAGS",
        "\x01\x02\x01\x02",
        "TAGS\x01",
        "TAGS\x01a\x02" * 3_000,
        "KEYS\x01" + "k " * 10_000 + "\x02",
        "UNIQ_KEY\x01" + ESCAPES + "\x02",
        "a\x01" * 10_000,
        "INNER_NUM\x01-5\x02INNER_BASE\x01x\x02",
        "WAIT\x01\x02RECONSUME_TIME\x01-1\x02MIN_OFFSET\x01x\x02MAX_OFFSET\x01y\x02",
        "x" * 32_767,
    ]
    with arena.attack("poison: properties that are none", cpu_s=10):
        for text in texts:
            asked(arena.broker, SEND, send_fields(topic, properties=text), b"odd")
        assert asked(arena.broker, SEND, send_fields(topic), b"good").code == 0
        with Heap(arena, topic) as heap:
            assert until(lambda: b"good" in heap.bodies, GOOD_S), "the good message is not there"


@pytest.mark.parametrize(
    "arguments",
    [
        ("tail", "Terminal", "--from", "first", "--count", "1"),
        ("tail", "Terminal", "--from", "first", "--count", "1", "--format", "%k %t %b"),
        ("message", "find", "Terminal", "--key", "terminal"),
        ("topic", "list"),
        ("topic", "show", "Terminal"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_no_terminal_obeys_what_peers_wrote(arena: Arena, arguments: tuple[str, ...]) -> None:
    properties = f"TAGS\x01{ESCAPES}\x02KEYS\x01terminal\x02note\x01{ESCAPES}\x02"
    asked(arena.broker, SEND, send_fields("Terminal", properties=properties), ESCAPES.encode())
    done = subprocess.run(
        [COMMAND, *arguments, "--namesrv", arena.namesrv],
        capture_output=True,
        check=False,
        env=environment(),
        timeout=60,
    )
    assert b"No such option" not in done.stderr, done.stderr.decode()
    for told in (done.stdout, done.stderr):
        text = told.decode()
        assert not [
            each for each in text if each != "\n" and (each < " " or "\x7f" <= each < "\xa0")
        ]
