"""How fast records are written, read one by one, and scanned into columns.

The scan is held against a plain loop that unpacks one record after the other and fills
the same columns, tags and keys among them.  Both run in turn in one process, and the
best of several rounds counts for each: the others were disturbed.  Time is CPU time.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from functools import partial
from random import Random

import numpy as np
import numpy.typing as npt

from flintmq.kernel.layout import HEADS, V6_BITS
from flintmq.model.host import Host
from flintmq.model.java_hash import java_hash
from flintmq.model.message_id import UniqueIds
from flintmq.protocol.records.properties import encode_properties, parse_properties
from flintmq.protocol.records.property_scan import property_spans, tags_codes
from flintmq.protocol.records.received import decode_messages
from flintmq.protocol.records.record import Version, decode_record
from flintmq.protocol.records.record_pattern import RecordPattern, packed_host, pattern_of
from flintmq.protocol.records.record_scan import scan_records

BORN_HOST = Host.parse("10.0.0.2:40000")
STORE_HOST = Host.parse("10.0.0.1:10911")
NOW_MS = 1_700_000_000_000
GOALS = {100: ">= 10", 1024: ">= 6"}
INT, SHORT = struct.Struct(">i"), struct.Struct(">h")
V1, V2 = int(Version.V1), int(Version.V2)

RECORDS = 4_096  # what a Spark batch holds
ROUNDS = 15
SCANS = 10  # in a row, to take about as long as the loop takes once
CALLS = 2_000


def run() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for body_bytes, goal in GOALS.items():
        buffer = make_records(RECORDS, body_bytes)
        rows += compare(buffer, f"{body_bytes} B", goal)
        rows.append(consuming(buffer, f"{body_bytes} B"))
        rows += encoding(body_bytes)
    return rows + small_parts()


def make_records(count: int, body_bytes: int) -> bytes:
    """Records as a 5.x broker stores what a Java producer sends, with random bodies."""
    chance = Random(7)
    ids = UniqueIds(BORN_HOST.packed, 1234, 0x18B4AAC2)
    buffer = bytearray()
    for n in range(count):
        body, properties, at = chance.randbytes(body_bytes), properties_of(n, ids), len(buffer)
        buffer += pattern(n % 4).record(
            body, properties, NOW_MS + n, packed_host(BORN_HOST), n // 4, at, NOW_MS + n + 1
        )
    return bytes(buffer)


def pattern(queue_id: int) -> RecordPattern:
    store = STORE_HOST
    return pattern_of("orders", queue_id, False, store.packed, store.port, 0, 0, 0)


def properties_of(n: int, ids: UniqueIds) -> bytes:
    return encode_properties(
        {
            "KEYS": f"order-{n}",
            "MSG_REGION": "DefaultRegion",
            "UNIQ_KEY": ids.make(NOW_MS + n, NOW_MS - 1_000_000),
            "CLUSTER": "DefaultCluster",
            "WAIT": "true",
            "TAGS": ("paid", "refunded", "cancelled")[n % 3],
            "TRACE_ON": "true",
        }
    )


def compare(buffer: bytes, size: str, goal: str) -> list[dict[str, object]]:
    """Scan and loop in turn."""
    for ours, plain in zip(columns_by_scan(buffer), columns_by_loop(buffer), strict=True):
        assert np.array_equal(ours, plain)
    loop_s = scan_s = codes_s = float("inf")
    columns = scan_records(buffer)
    (tags,) = property_spans(columns, "TAGS")
    for _ in range(ROUNDS):
        loop_s = min(loop_s, cpu_s(partial(columns_by_loop, buffer)))
        scan_s = min(scan_s, cpu_s(partial(columns_by_scan, buffer), calls=SCANS))
        codes_s = min(codes_s, cpu_s(partial(tags_codes, columns, tags), calls=SCANS))
    return [
        {"name": f"records by loop, {size}", "value": round(RECORDS / loop_s), "unit": "1/s"},
        {"name": f"records by scan, {size}", "value": round(RECORDS / scan_s), "unit": "1/s"},
        {"name": f"scan over loop, {size}", "value": loop_s / scan_s, "unit": "x", "goal": goal},
        {"name": f"tags codes, {size}", "value": round(RECORDS / codes_s), "unit": "1/s"},
    ]


def columns_by_scan(buffer: bytes) -> list[npt.NDArray[np.generic]]:
    columns = scan_records(buffer)
    tags, keys = property_spans(columns, "TAGS", "KEYS")
    return [
        columns.start,
        columns.size_bytes,
        columns.is_v2,
        columns.body_crc,
        columns.queue_id,
        columns.flag,
        columns.queue_offset,
        columns.log_offset,
        columns.sys_flag,
        columns.born_ms,
        columns.store_ms,
        columns.reconsume_times,
        columns.prepared_offset,
        columns.body_start,
        columns.body_length,
        columns.topic_start,
        columns.topic_length,
        columns.properties_start,
        columns.properties_length,
        *tags,
        *keys,
    ]


def columns_by_loop(buffer: bytes) -> list[npt.NDArray[np.generic]]:
    """What one would write first: record after record, unpacked and split."""
    rows = []
    at = 0
    while at < len(buffer):
        (sys_flag,) = INT.unpack_from(buffer, at + 36)
        head = HEADS[sys_flag & V6_BITS]
        (
            size,
            magic,
            crc,
            queue_id,
            flag,
            queue_offset,
            log_offset,
            _,
            born_ms,
            _,
            _,
            store_ms,
            _,
            _,
            times,
            prepared,
            body_length,
        ) = head.unpack_from(buffer, at)
        is_v2 = magic == V2
        if not is_v2 and magic != V1:
            raise ValueError(at)
        body_start = at + head.size
        topic_start = body_start + body_length + (2 if is_v2 else 1)
        topic_length = (
            buffer[topic_start - 1] if not is_v2 else SHORT.unpack_from(buffer, topic_start - 2)[0]
        )
        properties_start = topic_start + topic_length + 2
        (properties_length,) = SHORT.unpack_from(buffer, properties_start - 2)
        stop = properties_start + properties_length
        if stop != at + size:
            raise ValueError(at)
        tags, keys = find_spans(buffer, properties_start, stop)
        rows.append(
            (
                at,
                size,
                is_v2,
                crc,
                queue_id,
                flag,
                queue_offset,
                log_offset,
                sys_flag,
                born_ms,
                store_ms,
                times,
                prepared,
                body_start,
                body_length,
                topic_start,
                topic_length,
                properties_start,
                properties_length,
                *tags,
                *keys,
            )
        )
        at = stop
    return [np.array(column) for column in zip(*rows, strict=True)]


def find_spans(buffer: bytes, start: int, stop: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Where tags and keys are, by taking the property string apart."""
    spans = {}
    for piece in buffer[start:stop].split(b"\x02"):
        name, _, value = piece.partition(b"\x01")
        if name and value:
            spans[name] = (start + len(name) + 1, len(value))
        start += len(piece) + 1
    return spans.get(b"TAGS", (0, -1)), spans.get(b"KEYS", (0, -1))


def encoding(body_bytes: int) -> list[dict[str, object]]:
    body, properties = bytes(body_bytes), properties_of(1, UniqueIds(BORN_HOST.packed, 1, 1))

    def write() -> None:
        pattern(1).record(body, properties, NOW_MS, packed_host(BORN_HOST), 1, 2, NOW_MS)

    return [per_call(f"record written, {body_bytes} B", write)]


def small_parts() -> list[dict[str, object]]:
    record = decode_record(make_records(1, 100))
    ids = UniqueIds(BORN_HOST.packed, 1, 1)
    prefix_hash = java_hash("orders#")
    return [
        per_call("properties parsed", partial(parse_properties, record.properties)),
        per_call("unique id made", partial(ids.make, NOW_MS, NOW_MS - 1_000_000)),
        per_call(
            "key of 32 characters hashed",
            partial(java_hash, "0A00000204D218B4AAC205265C000001", prefix_hash),
        ),
    ]


def consuming(buffer: bytes, size: str) -> dict[str, object]:
    decode = partial(
        decode_messages, buffer, broker="broker-a", queue_id=1, min_offset=0, max_offset=RECORDS
    )
    best_s = min(cpu_s(decode) for _ in range(ROUNDS))
    name = f"messages for a consumer, {size}"
    return {"name": name, "value": round(RECORDS / best_s), "unit": "1/s"}


def per_call(name: str, act: Callable[[], object]) -> dict[str, object]:
    best_s = min(cpu_s(act, calls=CALLS) for _ in range(ROUNDS))
    return {"name": name, "value": round(1 / best_s), "unit": "1/s"}


def cpu_s(act: Callable[[], object], calls: int = 1) -> float:
    """CPU time of one call, as the mean of several in a row."""
    start_s = time.process_time()
    for _ in range(calls):
        act()
    return (time.process_time() - start_s) / calls
