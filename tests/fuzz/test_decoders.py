"""No decoder can be brought to raise a foreign error, to hang or to outgrow its caps.

Each target is fed bytes of real peers that were cut, flipped, doubled and joined by chance,
and bytes of no origin at all.  A failure names its seed and the input in hexadecimal.  The
ordinary tests try some thousand inputs, `make fuzz` as many as it is told.
"""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from body_strategies import body_classes
from flintmq.errors import FlintError
from flintmq.filter.sql_eval import compile_sql
from flintmq.filter.tags import parse_tags
from flintmq.model.sys_flag import Compression
from flintmq.protocol.batch import decode_batch
from flintmq.protocol.bodies.java_properties import read_properties
from flintmq.protocol.bodies.register import BrokerRegistration
from flintmq.protocol.compression import unpack
from flintmq.protocol.properties import parse_properties, remove_property
from flintmq.protocol.property_scan import property_spans, tags_codes
from flintmq.protocol.received import decode_messages
from flintmq.protocol.record import decode_record, encode_record
from flintmq.protocol.record_scan import scan_records
from protocol.fuzz_wire import check_frame_bytes, check_header_bytes

GOLDEN = Path(__file__).parents[1] / "golden"
EXAMPLES = int(os.environ.get("FLINTMQ_FUZZ_EXAMPLES", "1500"))
SEED = int(os.environ.get("FLINTMQ_FUZZ_SEED", "20260101"))
CPU_SECONDS_MAX = 2.0
"""Per input.  The dearest honest one takes milliseconds; a hang takes for ever."""

INPUT_BYTES_MAX = 4_096
UNPACKED_BYTES_MAX = 1024 * 1024
INTERESTING = [b"\x00", b"\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\x01", b"\x02", b'"']

Target = Callable[[bytes], object]


def check_header(data: bytes) -> None:
    for form in (0, 1):
        check_header_bytes(form, data)


def check_records(data: bytes) -> None:
    """The scan and the one-by-one decoder agree, and what is read is written again."""
    columns = scan_records(data)
    at = 0
    for start, size in zip(columns.start.tolist(), columns.size_bytes.tolist(), strict=True):
        assert start == at
        at = start + size
    with suppress(FlintError):
        record = decode_record(data)
        assert encode_record(record) == data[: len(encode_record(record))]
    (tags,) = property_spans(columns, "TAGS")
    tags_codes(columns, tags)
    decode_messages(data, broker="broker-a", body_bytes_max=UNPACKED_BYTES_MAX)


def check_bodies(data: bytes) -> None:
    for cls in body_classes():
        with suppress(FlintError):
            cls.from_body(data)
    for version in (407, 479):
        with suppress(FlintError):
            BrokerRegistration.from_compressed_body(data, version)
    with suppress(FlintError):
        read_properties(data)


def check_packed(data: bytes) -> None:
    for kind in Compression:
        with suppress(FlintError):
            assert len(unpack(data, kind, UNPACKED_BYTES_MAX)) <= UNPACKED_BYTES_MAX


def check_properties(data: bytes) -> None:
    found = parse_properties(data)
    assert all(name and value for name, value in found.items())
    remove_property(data, "TAGS")


def check_expression(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    with suppress(FlintError):
        compile_sql(text).evaluate({"a": "7", "b": "x", "price": "1e2"})
    with suppress(FlintError):
        parse_tags(text).matches_tag("TagA")


TARGETS: dict[str, tuple[Target, Callable[[], Sequence[bytes]], int]] = {
    # name: what is checked, what is bent, and one in how many examples (some are dear)
    "frames": (check_frame_bytes, frames, 4),
    "headers": (check_header, headers, 1),
    "records": (check_records, records, 2),
    "batches": (decode_batch, batches, 1),
    "bodies": (check_bodies, bodies, 8),
    "packed": (check_packed, packed, 1),
    "properties": (check_properties, records, 1),
    "expressions": (check_expression, expressions, 2),
}


def run(name: str, count: int) -> None:
    check, corpus_of, share = TARGETS[name]
    corpus = list(corpus_of())
    assert corpus, f"{name} has nothing to start from"
    chance = Random(f"{SEED}/{name}")
    for number in range(max(1, count // share)):
        data = bent(corpus, chance)
        start = time.process_time()
        try:
            check(data)
        except FlintError:
            pass
        except BaseException as error:
            error.add_note(f"{name}, seed {SEED}, example {number}: {data.hex()}")
            raise
        assert time.process_time() - start < CPU_SECONDS_MAX, f"{name} hangs on {data.hex()}"


@pytest.mark.parametrize("name", TARGETS)
def test_hostile_bytes_raise_only_errors_of_ours(name: str) -> None:
    run(name, EXAMPLES)


@pytest.mark.parametrize("name", TARGETS)
def test_hostile_bytes_take_no_more_memory_than_the_caps(name: str) -> None:
    check, corpus_of, _ = TARGETS[name]
    corpus = list(corpus_of())
    chance = Random(f"{SEED}/{name}/memory")
    with suppress(FlintError):
        check(corpus[0])  # what is made once and kept does not count
    tracemalloc.start()
    try:
        for _ in range(100):
            with suppress(FlintError):
                check(bent(corpus, chance))
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak_bytes < 16 * UNPACKED_BYTES_MAX
