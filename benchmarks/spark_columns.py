"""What it costs to turn pulled records into Arrow batches for Spark.

Pages of 1,024 records are what our broker gives at once, pages of 32 what RocketMQ does.
Bodies are checked against their checksums, except in rows that say otherwise.  CPU time of
this process per row, the best of several rounds; Spark and the network are not in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from random import Random

from benchmarks.records import BORN_HOST, NOW_MS, STORE_HOST, cpu_s, properties_of
from flintmq.arrow.columns import Columns
from flintmq.arrow.reading.queue_source import ReadPart
from flintmq.arrow.schema import COLUMNS, KAFKA_COLUMNS, Form, Properties, Shape
from flintmq.core.reading.read_span import Page
from flintmq.model.message_id import UniqueIds
from flintmq.model.queue import QueueOffset, QueueRef, Span
from flintmq.protocol.records.record_pattern import RecordPattern, packed_host

RECORDS = 2_048
ROUNDS = 150
QUEUE = QueueRef("orders", "broker-a", 0)
PART = ReadPart(Span(QUEUE, QueueOffset(0), QueueOffset(RECORDS)), "127.0.0.1:10911")

FIVE = ("topic", "queue_id", "queue_offset", "store_time", "body")
SHAPES = {
    "5 columns": Shape(FIVE),
    "7 columns (tags, keys)": Shape((*FIVE, "tags", "keys")),
    "13 columns": Shape(COLUMNS),
    "13 columns and a map": Shape(COLUMNS, properties=Properties.MAP),
    "7 of Kafka's": Shape(KAFKA_COLUMNS[:-1], Form.KAFKA),
    "8 of Kafka's": Shape(KAFKA_COLUMNS, Form.KAFKA),
}


def run() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for body_bytes in (100, 1024):
        records = make_records(body_bytes)
        large, small = list(pages(records, 1024)), list(pages(records, 32))
        for name, shape in SHAPES.items():
            rows.append(per_row(f"{name}, {body_bytes} B", shape, large))
        five = SHAPES["5 columns"]
        rows.append(per_row(f"5 columns, {body_bytes} B, unchecked", five, large, verify=False))
        rows.append(per_row(f"5 columns, {body_bytes} B, pages of 32", five, small))
    return rows


def make_records(body_bytes: int) -> list[bytes]:
    chance = Random(7)
    ids = UniqueIds(BORN_HOST.packed, 1234, 0x18B4AAC2)
    pattern = RecordPattern(QUEUE.topic, QUEUE.queue_id, store_host=STORE_HOST)
    records = []
    log_offset = 0
    for n in range(RECORDS):
        record = pattern.record(
            chance.randbytes(body_bytes),
            properties_of(n, ids),
            NOW_MS + n,
            packed_host(BORN_HOST),
            n,
            log_offset,
            NOW_MS + n + 1,
        )
        records.append(record)
        log_offset += len(record)
    return records


def pages(records: list[bytes], count: int) -> Iterator[Page]:
    end = QueueOffset(len(records))
    for at in range(0, len(records), count):
        octets = b"".join(records[at : at + count])
        start, stop = QueueOffset(at), QueueOffset(at + count)
        yield Page(QUEUE, start, stop, octets, QueueOffset(0), end)


def per_row(name: str, shape: Shape, read: list[Page], *, verify: bool = True) -> dict[str, object]:
    act = partial(convert, shape, read, verify)
    assert act() == RECORDS
    best_s = min(cpu_s(act) for _ in range(ROUNDS))
    return {"name": name, "value": best_s / RECORDS * 1e6, "unit": "µs/row"}


def convert(shape: Shape, read: list[Page], verify: bool) -> int:
    columns = Columns(shape, [PART], verify_crc=verify)
    return sum(batch.num_rows for batch in columns.read(read))
