"""Both kernels give the same values, errors and bytes for whatever they are fed, and never panic.

Inputs are bytes of real peers and generated ones, as they are, cut, flipped, doubled and joined.
`make test` tries some thousand of them, `make fuzz` a million.  A failure names its seed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import pytest

from flintmq.kernel.choice import Kernel
from flintmq.kernel.face import Loops
from flintmq.kernel.layout import field_span
from flintmq.kernel.python.batches import UNIQUE_ID_START
from flintmq.kernel.python.plain_columns import ColumnWishes
from flintmq.kernel.python.plain_records import Wishes
from flintmq.kernel.python.send_forms import BatchForm, SendForm, SendRoom
from flintmq.model.host import Host
from flintmq.model.message import Message
from flintmq.protocol.records.batch import join_batch
from flintmq.protocol.records.lazy_properties import LaterProperties, PropertyMemo
from flintmq.protocol.records.record_pattern import packed_host, pattern_of
from flintmq.store.files.layout import UNIT_STRUCT
from support.fuzz import corpus
from support.fuzz.bending import bent
from support.kernels import native_module

EXAMPLES = int(os.environ.get("FLINTMQ_FUZZ_EXAMPLES", "1500"))
SEED = int(os.environ.get("FLINTMQ_FUZZ_SEED", "20260101"))

HOST = Host.parse("10.0.0.1:10911")
HEAD, GAP = b'{"code":310,"e":"', b'","f":"0","g":"'
GAPS = (GAP, GAP, GAP.replace(b"0", b"1"))
MIDDLE = b'","h":"0","i":"UNIQ_KEY\\u0001'
REST, TAIL = b'\\u0002WAIT\\u0001true","opaque":', b'"version":399}'
TIMES = (b"1700000000123", b"0700000000123", b"170000000012x", b"17")
IDS = (b"0A" * 16, b"7F" * 16, b"0A" * 15 + b"-A", b"0A" * 15)
ENDINGS = [b"\x02", b"", b"\x02A\x01b", b"\x02\x02"]
RESTS: dict[bytes, tuple[int, tuple[str, ...]]] = {
    b"\x02": (-7, ()),
    b"\x02A\x01b\x02": (2**40, ("k", "k2")),
    b"\x02\x02": (0, ("k",)),
}
QUEUES = (b"0", b"1", b"2", b"3", b"00", b"", b"12345678901", b"-1")
NUMBERS = (b"1", b"999999999", b"9999999999", b"0", b"01", b"", b"1x", b"77")


@dataclass
class Growth:
    stop: int


def record(chance: Random, body_bytes: int, text: bytes, topic: str) -> bytes:
    pattern = pattern_of(topic, chance.randrange(4), False, HOST.packed, HOST.port, 0, 0, 0)
    body = chance.randbytes(body_bytes)
    place = chance.randrange(2**40), chance.randrange(2**40)
    return pattern.record(body, text, 1_700_000_000_000, packed_host(HOST), *place, 1_700)


def page(chance: Random) -> bytes:
    """Records, most of them alike."""
    topic = chance.choice(["orders", "t", "żółć"])
    body_bytes, text = chance.choice([0, 1, 90]), b"A\x01b\x02" * chance.randrange(3)
    made = [record(chance, body_bytes, text, topic) for _ in range(chance.randrange(30))]
    if made and chance.random() < 0.5:
        made.insert(chance.randrange(len(made)), chance.choice(corpus_records()))
    return b"".join(made)


@cache
def corpus_records() -> list[bytes]:
    return list(corpus.records())


@cache
def corpus_batches() -> list[bytes]:
    return list(corpus.batches())


@cache
def corpus_frames() -> list[bytes]:
    return list(corpus.frames())


def for_read_plain(chance: Random) -> tuple[Any, ...]:
    inputs = [page(chance), *chance.choices(corpus_records(), k=2)]
    octets = inputs[0] if chance.random() < 0.3 else bent(inputs, chance)
    delta = chance.choice([0, 0, 5, 2**63 - 1, -(2**63), 2**70])
    queue_id = chance.choice([None, 3])
    memo = PropertyMemo({"MIN_OFFSET": "0"})
    at = chance.choice([0, 0, 0, 1, 100, len(octets), len(octets) + 1])
    return octets, at, Wishes("broker-a", queue_id, delta, LaterProperties, memo)


def for_cut_frames(chance: Random) -> tuple[Any, ...]:
    inputs = chance.choices(corpus_frames(), k=3)
    octets = b"".join(inputs) if chance.random() < 0.3 else bent(inputs, chance)
    return octets, chance.choice([8, 100, 1 << 24]), chance.choice([0, 200, 1 << 19])


def form_of(head: bytes, number: int, chance: Random) -> SendForm:
    pattern = pattern_of("orders", 0, False, HOST.packed, HOST.port, 0, 0, 0)
    magic, queue_and_flag, sys_flag, store_rest, topic_field = pattern.pieces()
    answer = None if chance.random() < 0.3 else (b"{a", b"b", b"c%", b"d", b"e", b"}")
    batch = BatchForm(
        {rest: RESTS[rest] for rest in RESTS if chance.random() < 0.9},
        b"0A00000100002A9F",
        chance.choice([0, 120]),
    )
    return SendForm(
        head, chance.choice(GAPS), MIDDLE, 32, REST, TAIL, pattern.fixed_bytes, magic,
        queue_and_flag[4:], sys_flag,
        packed_host(HOST), store_rest, topic_field, b"UNIQ_KEY\x01", b"\x02WAIT\x01true\x02",
        -5, ("k1", "k2")[:number], "orders", 3, chance.random() < 0.3, answer,
        batch if chance.random() < 0.5 else None,
    )  # fmt: skip


def send_frame(chance: Random) -> tuple[int, bytes, bytes]:
    wrong = 8 if chance.random() < 0.5 else 1  # of how many values
    time, unique_id = chance.choice(TIMES[:wrong]), chance.choice(IDS[: max(2, wrong)])
    number = chance.choice(NUMBERS[: max(2, wrong)])
    head = chance.choice([HEAD, HEAD.replace(b"310", b"311"), HEAD.replace(b"310", b"312")])
    queue = chance.choice(QUEUES[: max(3, wrong)])
    header = (
        head + queue + chance.choice(GAPS) + time + MIDDLE + unique_id + REST + number + b"," + TAIL
    )
    if chance.random() < 0.1:
        header = bent([header], chance)
    body = chance.randbytes(chance.choice([1, 50, 50, 0, 300]))
    if chance.random() < 0.7:
        body = batch_body(chance)
    return chance.choice([0] * 9 + [1]), header, body


def batch_body(chance: Random) -> bytes:
    """Messages whose properties mostly end alike."""
    texts = [
        UNIQUE_ID_START + chance.randbytes(4).hex().encode() + ending
        for ending in chance.choice([*([each] for each in ENDINGS), ENDINGS[:2], ENDINGS])
        for _ in range(chance.randrange(1, 5))
    ]
    size = chance.choice([[20], [0, 1, 30]])
    body = join_batch((chance.randbytes(chance.choice(size)), text, -3) for text in texts)
    return bent([body, *corpus_batches()], chance) if chance.random() < 0.2 else body


def for_lay_out_sends(chance: Random) -> tuple[Any, ...]:
    frames = [send_frame(chance) for _ in range(chance.randrange(8))]
    heads = [HEAD, HEAD.replace(b"310", b"311")]
    forms = {
        head: tuple(form_of(head, number, chance) for _ in range(chance.randrange(1, 3)))
        for number, head in enumerate(heads)
    }
    growths = {("orders", n): Growth(chance.randrange(2**40)) for n in range(3)}
    log_offset = chance.randrange(2**50)
    log_stop = log_offset + chance.choice([300, 700, 1 << 20, 1 << 20])
    sizes = chance.choice([180, 500, 1 << 16]), chance.choice([60, 1 << 16, 1 << 16])
    limits = *sizes, chance.choice([900, 1 << 20, 1 << 20])
    turn_stop = log_offset + chance.choice([-1, 0, 500, 1 << 20, 1 << 20])
    room = SendRoom(len(HEAD), log_offset, log_stop, *limits, turn_stop, 1_700)
    start = chance.choice([0, 0, 1, len(frames), len(frames) + 1])
    return frames, start, forms, growths.__getitem__, room


def for_lay_out_columns(chance: Random) -> tuple[Any, ...]:
    """Pages of one queue or of several, of which at most one is unusual."""
    pieces = [
        b"KEYS\x01a b\x02",
        b"TAGS\x01t\x02",
        b"KEYS\x01\x02",
        b"KEYS\x01z",
        b"\x02\x01",
        b"K",
    ]
    pages = []
    for _ in range(chance.randrange(4)):
        octets = b"".join(
            record(chance, chance.choice([0, 1, 90]), b"".join(chance.choices(pieces, k=k)), "t")
            for k in chance.choices(range(5), k=chance.randrange(20))
        )
        low, high = chance.choice([(-(2**63), 2**63 - 1), (0, 2**39), (2**39, 2**40), (5, 5)])
        delta = chance.choice([0, 0, 7, 2**63 - 1, -(2**63)])
        pages.append((octets, low, high, delta))
    if pages and chance.random() < 0.5:
        number = chance.randrange(len(pages))
        inputs = [pages[number][0], *chance.choices(corpus_records(), k=2)]
        pages[number] = (bent(inputs, chance), *pages[number][1:])
    fields = chance.sample(["queue_offset", "store_ms", "flag", "sys_flag", "born_ms"], 3)
    spans = tuple((start, stop - start) for start, stop in map(field_span, fields))
    names = tuple(chance.sample([b"KEYS", b"TAGS", b"UNIQ_KEY"], chance.randrange(4)))
    switches = [chance.random() < 0.7 for _ in range(3)]
    return pages, ColumnWishes(spans, names, *switches)


def for_lay_out_entries(chance: Random) -> tuple[Any, ...]:
    odd = chance.random() < 0.3
    usual: dict[str, Any] = {
        "tags": chance.choice([None, "paid", "żółć"]),
        "flag": chance.choice([0, -7]),
    }
    others: list[dict[str, Any]] = [
        {"keys": ["k"]}, {"properties": {"a": "b"}}, {"delay_level": 1}, {"delay_ms": 5},
        {"deliver_at_ms": 9}, {"wait_stored": False}, {"tags": "x"}, {"flag": 5}, {},
    ]  # fmt: skip
    messages = [
        Message(
            chance.choice(["orders"] * 9 + ["bills"]) if odd else "orders",
            chance.randbytes(chance.choice([1, 40, 40, 300])),
            **(usual | chance.choice(others) if odd and chance.random() < 0.1 else usual),
        )
        for _ in range(chance.randrange(20))
    ]
    ids = [chance.randbytes(chance.choice([16, 16, 3])).hex() for _ in messages]
    if odd and chance.random() < 0.1:
        ids.append(chance.choice(["\udfff", "x"]))
    room = chance.choice([1 << 20, 400]), chance.choice([1 << 20, 1 << 20, 2_000])
    return messages, ids, chance.choice(["", "ns", "\ud800"] if odd else ["", "ns"]), *room


def for_hash_keys(chance: Random) -> tuple[Any, ...]:
    alphabet = chance.choice(["AB01", "aż😀", "a\ud800\udc00b", "\uffff\U0010ffff"])
    counts = [chance.randrange(3) for _ in range(chance.randrange(1, 6))]
    lengths = chance.choice([[16], [0, 1, 40, 130]])
    keys = ["".join(chance.choices(alphabet, k=chance.choice(lengths))) for _ in range(sum(counts))]
    if not keys:
        counts, keys = [1], [""]
    topics = ["orders", "żółć"]
    place, store_ms = chance.randrange(2**62), chance.randrange(2**40)
    units = b"".join(UNIT_STRUCT.pack(place + n, 99, -5) for n in range(chance.randrange(1, 40)))
    places = [place, place, units]
    return [(chance.choice(topics), n, chance.choice(places), store_ms) for n in counts], keys


def for_find_records(chance: Random) -> tuple[Any, ...]:
    """A file of the log with records of a queue and of others, and units of some of them."""
    pattern = pattern_of("orders", 1, chance.random() < 0.2, HOST.packed, HOST.port, 0, 0, 0)
    host = packed_host(Host.parse("[::1]:9") if pattern.fixed_bytes > 104 else HOST)
    low, first = chance.choice([0, 1 << 30]), chance.randrange(2**40)
    log, units = bytearray(), bytearray()
    sizes = chance.choice([[40], [0, 40, 41]])
    for number in range(chance.choice([1, 5, 32, 140])):
        if chance.random() < 0.2:
            log += chance.randbytes(chance.choice([1, 30]))
        place = first + number - (chance.random() < 0.02), low + len(log)
        body = bytes(chance.choice(sizes))
        octets = pattern.record(body, b"A\x01b\x02", 1_700, host, *place, 1_700)
        units += UNIT_STRUCT.pack(low + len(log), len(octets), -5)
        log += octets
    file = bent([bytes(log)], chance) if chance.random() < 0.3 else bytes(log)
    read = bent([bytes(units)], chance) if chance.random() < 0.3 else bytes(units)
    high = low + chance.choice([len(log), len(log), len(log) + 50, len(log) // 2, 0])
    log_from = chance.choice([0, 0, low, low + len(log) // 2])
    bytes_max = chance.choice([1 << 20, 1 << 20, 3_000, len(log), 0, -1])
    topic = chance.choice([b"\x06orders", b"\x06orders", b"\x05order", b"\x06orderz"])
    queue_id = chance.choice([1, 1, 1, 2])
    return read, first, memoryview(file), low, high, log_from, bytes_max, queue_id, topic


INPUTS: dict[str, Callable[[Random], tuple[Any, ...]]] = {
    "cut_frames": for_cut_frames,
    "find_records": for_find_records,
    "hash_keys": for_hash_keys,
    "lay_out_columns": for_lay_out_columns,
    "lay_out_entries": for_lay_out_entries,
    "lay_out_sends": for_lay_out_sends,
    "read_plain": for_read_plain,
}
SHARE = len(INPUTS)
"""`make fuzz` gives each function as many inputs as make a million of all."""


def outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[str, Any]:
    """What a function gives, or how it fails; the types of values count."""
    try:
        value = function(*args)
    except Exception as error:
        return "raised", (type(error), str(error))
    return "gave", shape(value)


def shape(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value), [shape(each) for each in value]
    return type(value), value


def test_every_function_of_the_face_is_tried() -> None:
    assert set(INPUTS) == set(vars(Loops(Kernel(None))))


@pytest.mark.parametrize("name", INPUTS)
def test_both_kernels_do_the_same(name: str) -> None:
    native = Kernel(native_module())
    plain, compiled = (getattr(Loops(kernel), name) for kernel in (Kernel(None), native))
    chance = Random(f"{SEED}/{name}")
    done = 0

    for number in range(EXAMPLES * 5 // SHARE):
        args = INPUTS[name](chance)
        expected, found = outcome(plain, args), outcome(compiled, args)
        assert found == expected, f"{name}, seed {SEED}, example {number}: {args}"
        assert native.name == "native", f"panic: {name}, seed {SEED}, example {number}: {args}"
        done += expected[0] == "gave"

    assert done > EXAMPLES // SHARE, "hardly any input meant something"
