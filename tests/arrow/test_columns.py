"""Columns say of every message of a page what decoding the messages one by one says."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flintmq.arrow import columns as columns_module
from flintmq.arrow import page_rows as page_rows_module
from flintmq.arrow.bad_records import BadRecords
from flintmq.arrow.columns import Columns
from flintmq.arrow.reading.queue_source import ReadPart
from flintmq.arrow.schema import (
    COLUMNS,
    KAFKA_COLUMNS,
    Form,
    OnBadRecord,
    Properties,
    Shape,
    arrow_schema,
)
from flintmq.core.reading.read_span import EVERYTHING, Page, Wanted
from flintmq.errors import FlintError, MalformedRecord, MissingExtra, UndecodableRecord
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset, QueueRef, Span
from flintmq.model.sys_flag import INNER_BATCH, NEED_UNWRAP, Compression, with_compression
from flintmq.protocol.compression import pack
from flintmq.protocol.records.batch import BatchEntry, encode_batch
from flintmq.protocol.records.properties import parse_properties
from flintmq.protocol.records.received import decode_messages
from flintmq.protocol.records.record import (
    Record,
    crc_of,
    decode_record,
    encode_record,
    record_size,
)
from support.record_examples import (
    EXAMPLE,
    STORES,
    commit_logs,
    mutated,
    property_strings,
    record_positions,
    records,
)
from support.spark.pages import QUEUE, page_of

pytestmark = pytest.mark.usefixtures("each_kernel")

PART = ReadPart(Span(QUEUE, QueueOffset(0), QueueOffset(100)), "127.0.0.1:10911", 7)
RAW = Shape(properties=Properties.RAW)
MAP = Shape(properties=Properties.MAP)
KAFKA = Shape(KAFKA_COLUMNS, Form.KAFKA)
BATCH = NEED_UNWRAP | INNER_BATCH
TIMESTAMP_MS_MAX = (2**63 - 1) // 1000
ALL = (QueueOffset(-(2**63)), QueueOffset(2**63 - 1))


def record(n: int, **fields: Any) -> bytes:
    """A plain record with the offset ``n``."""
    fields.setdefault("body_crc", crc_of(fields.get("body", b"hi")))
    made = decode_record(EXAMPLE)
    return encode_record(msgspec.structs.replace(made, queue_offset=QueueOffset(n), **fields))


def with_properties(n: int, string: str | bytes) -> bytes:
    return record(n, properties=string.encode() if isinstance(string, str) else string)


def rows(batches: Sequence[pa.RecordBatch], shape: Shape) -> list[dict[str, Any]]:
    """Rows as plain values: maps as dictionaries, times as microseconds."""
    for batch in batches:
        assert batch.schema.equals(arrow_schema(shape), check_metadata=True)
        batch.validate(full=True)
        assert batch.num_rows
    return [plain(row, batch) for batch in batches for row in range(batch.num_rows)]


def plain(row: int, batch: pa.RecordBatch) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field, column in zip(batch.schema, batch.columns, strict=True):
        value = column[row]
        if pa.types.is_timestamp(field.type):
            found[field.name] = value.value
        elif pa.types.is_map(field.type):
            pairs = value.as_py()
            found[field.name] = dict(pairs)
            assert len(found[field.name]) == len(pairs), "a name is there twice"
        else:
            found[field.name] = value.as_py()
    return found


def read_rows(shape: Shape, pages: Sequence[Page], **options: Any) -> list[dict[str, Any]]:
    return rows(list(Columns(shape, [PART], **options).read(pages)), shape)


def page_rows(shape: Shape, page: Page, **options: Any) -> list[dict[str, Any]]:
    return rows(list(Columns(shape, [PART], **options).batches(page)), shape)


def time_us(time_ms: int) -> int | None:
    return time_ms * 1000 if -TIMESTAMP_MS_MAX <= time_ms <= TIMESTAMP_MS_MAX else None


def expected(message: ReceivedMessage, own: Mapping[str, str]) -> dict[str, Any]:
    """A row as the message says it; ``own`` are its properties without the consumer's."""
    return {
        "topic": "orders",
        "broker": "broker-a",
        "queue_id": 3,
        "queue_offset": message.queue_offset,
        "message_id": message.message_id,
        "tags": message.tags,
        "keys": list(message.keys),
        "body": message.body,
        "flag": message.flag,
        "sys_flag": message.sys_flag,
        "born_time": time_us(message.born_ms),
        "store_time": time_us(message.store_ms),
        "reconsume_times": message.reconsume_times,
        "properties": own,
    }


def by_messages(pages: Sequence[Page], wanted: Wanted = EVERYTHING) -> list[dict[str, Any]]:
    found = []
    for page in pages:
        messages = page.messages(wanted)
        own = own_properties(page, wanted)
        found += [expected(*one) for one in zip(messages, own, strict=True)]
    return found


def own_properties(page: Page, wanted: Wanted) -> list[Mapping[str, str]]:
    """The properties of the messages of a page, without what a consumer adds."""
    tags = wanted.tag_test()
    received = decode_messages(page.records, broker="", offset_delta=page.offset_delta)
    return [
        message.properties
        for message in received.messages
        if page.start <= message.queue_offset < page.stop
        and (tags is None or tags.matches_tag(message.tags))
    ]


STRINGS = property_strings() | st.binary(max_size=20)
ENTRIES = st.builds(BatchEntry, st.binary(max_size=5), STRINGS, st.integers(-2, 2))
BATCHES = st.lists(ENTRIES, min_size=1, max_size=3).map(encode_batch)
KINDS = ("plain", "plain", "plain", "packed", "batch", "packed batch")
HALF_BATCHES = (0, NEED_UNWRAP, INNER_BATCH)


@st.composite
def page_records(draw: st.DrawFn) -> Record:
    """Any record there can be in an answer: plain, packed, a batch, or without a checksum.

    All choices come from one draw, or making records up would take longer than testing.
    """
    made = draw(records(STRINGS))
    chance = Random(draw(st.integers(0, 2**32 - 1)))
    kind = chance.choice(KINDS)
    body = draw(BATCHES) if "batch" in kind else made.body
    sys_flag = made.sys_flag & ~(1 | BATCH | 7 << 8)
    sys_flag |= BATCH if "batch" in kind else chance.choice(HALF_BATCHES)
    if "packed" in kind:
        how = chance.choice(list(Compression))
        body, sys_flag = pack(body, how), with_compression(sys_flag, how)
    return msgspec.structs.replace(
        made,
        body=body,
        sys_flag=sys_flag,
        body_crc=chance.choice([crc_of(body), crc_of(body), 0]),
        queue_offset=QueueOffset(chance.choice([chance.randrange(100), made.queue_offset])),
        born_ms=chance.choice([made.born_ms, 1_700_000_000_001]),
    )


@st.composite
def pages(draw: st.DrawFn) -> Page:
    octets = b"".join(map(encode_record, draw(st.lists(page_records(), max_size=4))))
    start, length = draw(st.tuples(st.integers(0, 60), st.integers(0, 60)))
    delta = draw(st.sampled_from([0, 0, 7, -7, 2**62, -(2**63)]))
    return page_of(octets, start, start + length, delta)


WANTED = st.sampled_from([EVERYTHING, Wanted.by(tags="a || é"), Wanted.by(tags=" ")])


@settings(max_examples=40, deadline=None)
@given(st.lists(pages(), max_size=3), WANTED, st.sampled_from([1, 2, 4096]))
def test_columns_agree_with_messages(some: list[Page], wanted: Wanted, rows_max: int) -> None:
    options: dict[str, Any] = {"wanted": wanted, "rows_max": rows_max}

    apart = [row for page in some for row in page_rows(MAP, page, **options)]

    assert apart == by_messages(some, wanted)
    assert read_rows(MAP, some, **options) == apart


@settings(max_examples=40, deadline=None)
@given(st.lists(records(property_strings() | st.binary(max_size=30)), max_size=5))
@example([msgspec.structs.replace(decode_record(EXAMPLE), properties=b"")])
def test_raw_properties_and_kafkas_columns_agree_with_records(made: list[Record]) -> None:
    made = [
        msgspec.structs.replace(one, queue_offset=QueueOffset(n), sys_flag=one.sys_flag & 0x3C)
        for n, one in enumerate(made)
    ]
    page = page_of(b"".join(map(encode_record, made)))

    raw = page_rows(RAW, page)
    kafka = page_rows(KAFKA, page)

    assert [row["properties"] for row in raw] == [one.properties for one in made]
    assert kafka == [
        {
            "key": first_key(one),
            "value": one.body,
            "topic": "orders",
            "partition": 7,
            "offset": one.queue_offset,
            "timestamp": time_us(one.store_ms),
            "timestampType": 1,
            "headers": headers_of(one),
        }
        for one in made
    ]


def first_key(made: Record) -> bytes | None:
    keys = pieces_of(made.properties).get("KEYS", b"").split(b" ")
    return next(filter(None, keys), None)


def headers_of(made: Record) -> list[dict[str, Any]] | None:
    pieces = list(pieces_of(made.properties).items())
    return [{"key": name, "value": value} for name, value in pieces] or None


def pieces_of(string: bytes) -> dict[str, bytes]:
    """As `parse_properties`, with values left as bytes; the place of a name is its last one."""
    found: dict[str, bytes] = {}
    for piece in string.split(b"\x02"):
        name, _, value = piece.partition(b"\x01")
        if name and value:
            text = name.decode("utf-8", "replace")
            found.pop(text, None)
            found[text] = value
    assert found.keys() == parse_properties(string).keys()
    return found


GOOD = st.lists(page_records(), min_size=1, max_size=3).map(
    lambda made: b"".join(map(encode_record, made))
)


@settings(max_examples=60, deadline=None)
@given(st.lists(GOOD | mutated(GOOD) | st.binary(max_size=100), min_size=1, max_size=3))
def test_bad_records_and_broken_frames_are_those_of_the_reader_of_messages(
    some: list[bytes],
) -> None:
    made = [page_of(octets, *ALL) for octets in some]

    assert outcome(partial(rows_apart, made)) == outcome(partial(received_apart, made))


Apart = tuple[list[dict[str, Any]], list[tuple[int, str, bytes]]]


def rows_apart(made: list[Page]) -> Apart:
    """The rows of messages, and where and what the bad records are."""
    found = read_rows(replace(MAP, bad_record=True), made)
    bad = [(row["queue_offset"], row["bad_record"]) for row in found if row["bad_record"]]
    assert all(row["body"] is None for row in found if row["bad_record"])
    good = [row for row in found if row.pop("bad_record") is None]
    return good, [(offset, one["reason"], one["raw"]) for offset, one in bad]


def received_apart(made: list[Page]) -> Apart:
    """The same of messages that are read one by one."""
    good: list[dict[str, Any]] = []
    bad: list[tuple[int, str, bytes]] = []
    for page in made:
        received = page.received()
        if received.fault is not None:
            raise received.fault
        own = own_properties(page, EVERYTHING)
        good += [expected(*one) for one in zip(received.messages, own, strict=True)]
        bad += [(one.queue_offset, one.reason, one.raw) for one in received.bad]
    return good, bad


def outcome(read: Callable[[], Apart]) -> object:
    try:
        return read()
    except FlintError as error:
        return type(error), str(error)


@pytest.mark.parametrize("store", STORES)
def test_what_real_brokers_stored_comes_out_as_messages_say_it(store: str) -> None:
    for log in commit_logs(store):
        octets = b"".join(
            log[at : at + record_size(log, at)]
            for at in record_positions(log)
            if not log[at + 39] & BATCH
        )
        page = page_of(octets, *ALL)

        assert page_rows(MAP, page) == by_messages([page])


def test_only_what_lies_in_the_page_is_given() -> None:
    page = page_of(b"".join(map(record, range(5, 15))), 7, 10)

    assert [row["queue_offset"] for row in page_rows(RAW, page)] == [7, 8, 9]


def test_each_page_has_bounds_and_a_shift_of_its_own() -> None:
    octets = b"".join(map(record, range(10)))
    made = [page_of(octets, 2, 4), page_of(b"", 4, 5), page_of(octets, 105, 107, 100)]

    (batch,) = Columns(Shape(("queue_offset",)), [PART]).read(made)

    assert batch.column(0).to_pylist() == [2, 3, 105, 106]


def test_a_page_that_does_not_end_with_a_record_is_not_mended_by_the_next() -> None:
    cut = len(EXAMPLE) - 10
    made = [page_of(EXAMPLE[:cut]), page_of(EXAMPLE[cut:])]

    with pytest.raises(MalformedRecord) as caught:
        read_rows(RAW, made)

    assert caught.value.position == 0


def test_a_topic_that_is_no_text_makes_its_own_record_bad_and_no_other() -> None:
    bad = EXAMPLE.replace(b"\x01T\x00", b"\x01\xff\x00")
    assert bad != EXAMPLE
    page = page_of(EXAMPLE + bad + EXAMPLE)

    found = read_rows(replace(RAW, bad_record=True), [page_of(EXAMPLE), page])

    assert [row["body"] for row in found] == [b"hi", b"hi", None, b"hi"]
    assert [row["topic"] for row in found] == ["orders"] * 4
    assert found[2]["bad_record"] == {"reason": "the topic is not UTF-8", "raw": bad}


def test_tags_are_compared_where_they_are_no_column() -> None:
    page = page_of(with_properties(0, "TAGS\x01a") + with_properties(1, "TAGS\x01b"))

    assert page_rows(Shape(("flag", "queue_offset")), page, wanted=Wanted.by(tags="b")) == [
        {"flag": 0, "queue_offset": 1}
    ]


def test_tags_are_compared_as_text() -> None:
    made = [b"TAGS\x01a", b"TAGS\x01b", b"", b"TAGS\x01aa", b"TAGS\x01\xff", b"TAGS\x01a\x02"]
    page = page_of(b"".join(with_properties(n, string) for n, string in enumerate(made)))

    found = page_rows(RAW, page, wanted=Wanted.by(tags="a || \N{REPLACEMENT CHARACTER}"))

    assert [row["queue_offset"] for row in found] == [0, 4, 5]
    assert [row["tags"] for row in found] == ["a", "\N{REPLACEMENT CHARACTER}", "a"]


def test_sql_is_left_to_the_broker() -> None:
    page = page_of(record(1))

    assert len(page_rows(RAW, page, wanted=Wanted.by(sql="a = 1"))) == 1


@pytest.mark.parametrize(
    ("string", "keys", "key"),
    [
        ("KEYS\x01a b", ["a", "b"], b"a"),
        ("KEYS\x01  a   b ", ["a", "b"], b"a"),
        ("KEYS\x01a", ["a"], b"a"),
        ("KEYS\x01é é", ["é", "é"], "é".encode()),
        ("KEYS\x01 ", [], None),
        ("KEYS\x01", [], None),
        ("", [], None),
    ],
)
def test_keys_are_separated_by_spaces(string: str, keys: list[str], key: bytes | None) -> None:
    neighbours = ["KEYS\x01x y\x02", string, "", "KEYS\x01z\x02", "KEYS\x01 "]
    page = page_of(b"".join(with_properties(n, s) for n, s in enumerate(neighbours)))
    alone = page_of(with_properties(0, string))

    assert [row["keys"] for row in page_rows(RAW, page)] == [["x", "y"], keys, [], ["z"], []]
    assert [row["key"] for row in page_rows(KAFKA, page)] == [b"x", key, None, b"z", None]
    assert page_rows(RAW, alone)[0]["keys"] == keys
    assert page_rows(KAFKA, alone)[0]["key"] == key


def test_a_message_without_an_id_is_named_by_its_place() -> None:
    page = page_of(EXAMPLE + with_properties(6, "UNIQ_KEY\x01mine\x02"))

    found = [row["message_id"] for row in page_rows(RAW, page)]

    assert found == ["0A00000100002A9F0000000000000400", "mine"]


def test_of_equal_names_the_last_one_counts_however_many_names_there_are() -> None:
    few = "a\x011\x02b\x012\x02a\x013\x02"
    many = "".join(f"name-{n % 60}\x01{n}\x02" for n in range(100))
    page = page_of(with_properties(0, few) + with_properties(1, many) + with_properties(2, few))
    only_few = page_of(with_properties(0, few))

    found = [row["properties"] for row in page_rows(MAP, page)]

    assert found == [parse_properties(string) for string in (few, many, few)]
    assert page_rows(MAP, only_few)[0]["properties"] == {"a": "3", "b": "2"}


def test_what_a_consumer_adds_is_no_property_of_the_message() -> None:
    assert page_rows(MAP, page_of(EXAMPLE))[0]["properties"] == {"TAGS": "TagA"}


def test_columns_come_in_any_choice_and_order() -> None:
    page = page_of(EXAMPLE)
    everything = page_rows(RAW, page)[0]

    for chosen in (COLUMNS[::-1], ("body",), ("keys", "topic"), ("store_time", "message_id")):
        (row,) = page_rows(Shape(chosen), page)
        assert row == {name: everything[name] for name in chosen}
        assert tuple(row) == chosen


def test_the_topic_is_the_queues_without_its_namespace() -> None:
    queue = QueueRef("%RETRY%shop%billing", "broker-a", 0)
    part = ReadPart(Span(queue, QueueOffset(0), QueueOffset(9)), "")
    page = replace(page_of(EXAMPLE), queue=queue)

    (batch,) = Columns(Shape(("topic",)), [part], namespace="shop").batches(page)

    assert batch.column(0).to_pylist() == ["%RETRY%billing"]


def test_times_are_microseconds_of_utc_or_null() -> None:
    far = TIMESTAMP_MS_MAX
    times = [1_700_000_000_123, far, far + 1, -far - 1, -far]
    page = page_of(b"".join(record(n, store_ms=time) for n, time in enumerate(times)))

    (batch,) = Columns(Shape(("store_time",)), [PART]).batches(page)

    assert batch.column(0)[0].as_py() == datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)
    found = batch.column(0).cast(pa.int64()).to_pylist()
    assert found == [times[0] * 1000, far * 1000, None, None, -far * 1000]


def test_a_wrong_checksum_is_found_unless_it_is_not_looked_for() -> None:
    page = page_of(EXAMPLE + EXAMPLE.replace(b"hi", b"ho"))

    bodies = [row["body"] for row in page_rows(RAW, page)]

    assert bodies == [b"hi", None]
    assert len(page_rows(RAW, page, verify_crc=False)) == 2


def bad_record(n: int, tags: str = "a") -> bytes:
    """A record that says it is packed, and is not."""
    return record(n, body=b"no frame", sys_flag=1, properties=f"TAGS\x01{tags}".encode())


def test_a_rule_says_whether_a_bad_record_has_a_row_and_it_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    page = page_of(record(0) + bad_record(1) + record(2) + bad_record(3) + record(4), 0, 3)

    kept = page_rows(RAW, page)
    reported = caplog.messages.copy()
    skipped = page_rows(RAW, page, bad_records=BadRecords(OnBadRecord.SKIP))
    with pytest.raises(UndecodableRecord) as caught:
        page_rows(RAW, page, bad_records=BadRecords(OnBadRecord.STOP))

    assert [row["queue_offset"] for row in kept] == [0, 1, 2]
    assert (kept[1]["body"], kept[1]["tags"], kept[1]["sys_flag"]) == (None, "a", 1)
    assert [row["queue_offset"] for row in skipped] == [0, 2]
    assert len(reported) == 1
    assert reported[0].startswith("orders/broker-a/3 at 1 cannot be decoded: ")
    assert "zlib" in reported[0]
    assert (caught.value.topic, caught.value.offset) == ("orders", 1)


def test_a_bad_record_that_nobody_wants_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    page = page_of(bad_record(0, "a") + bad_record(1, "b") + with_properties(2, "TAGS\x01b"))

    found = page_rows(RAW, page, wanted=Wanted.by(tags="b"))

    assert [(row["queue_offset"], row["body"]) for row in found] == [(1, None), (2, b"hi")]
    assert len(caplog.messages) == 1


def test_many_bad_records_of_a_task_are_counted_after_the_first_hundred(
    caplog: pytest.LogCaptureFixture,
) -> None:
    page = page_of(b"".join(map(bad_record, range(250))), 0, 250)

    with BadRecords(OnBadRecord.SKIP) as bad_records:
        assert page_rows(RAW, page, bad_records=bad_records) == []

    assert bad_records.reports.count == 250
    assert len(caplog.messages) == 101
    assert caplog.messages[-1] == "150 more records cannot be decoded"


def test_bad_records_of_several_queues_are_reported_with_their_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    parts = [other_queue(number) for number in range(2)]
    pages = [replace(page_of(record(0) + bad_record(1)), queue=part.span.queue) for part in parts]

    (batches) = list(Columns(Shape(("queue_id", "body")), parts).read(pages))

    found = rows(batches, Shape(("queue_id", "body")))
    assert [tuple(row.values()) for row in found] == [(0, b"hi"), (0, None), (1, b"hi"), (1, None)]
    assert [text.partition(" at ")[0] for text in caplog.messages] == [
        str(part.span.queue) for part in parts
    ]


def test_a_page_that_unpacks_to_too_much_comes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_rows_module, "UNPACKED_BYTES_MAX", 5000)
    body = pack(bytes(4000), Compression.ZLIB)
    page = page_of(b"".join(record(n, body=body, sys_flag=1) for n in range(3)) + bad_record(3))

    batches = list(Columns(Shape(("body",)), [PART]).read([page]))

    found = [batch.column(0).to_pylist() for batch in batches]
    assert found == [[bytes(4000)], [bytes(4000)], [bytes(4000), None]]


def test_a_missing_package_is_the_users_to_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    body = pack(b"x", Compression.LZ4)
    page = page_of(record(1, body=body, sys_flag=257))
    monkeypatch.setitem(sys.modules, "lz4", None)
    monkeypatch.setitem(sys.modules, "lz4.frame", None)

    with pytest.raises(MissingExtra):
        page_rows(RAW, page)


def test_pages_that_unpack_to_too_much_together_come_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(page_rows_module, "UNPACKED_BYTES_MAX", 5000)
    body = pack(bytes(4000), Compression.ZLIB)
    made = [page_of(record(n, body=body, sys_flag=1), n, n + 1) for n in range(3)]

    batches = list(Columns(Shape(("body",)), [PART]).read(made))

    assert [batch.column(0).to_pylist() for batch in batches] == [[bytes(4000)]] * 3


def test_small_pages_share_a_batch_and_large_ones_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns_module, "JOIN_BYTES", 10 * len(EXAMPLE))
    monkeypatch.setattr(columns_module, "BATCH_BYTES", 20 * len(EXAMPLE))
    small = [page_of(record(n), n, n + 1) for n in range(23)]
    large = page_of(b"".join(map(record, range(23, 73))), 23, 73)
    shape = Shape(("queue_offset",))

    def counts(rows_max: int) -> list[int]:
        batches = list(Columns(shape, [PART], rows_max=rows_max).read([*small, large, *small]))
        found = [offset for batch in batches for offset in batch.column(0).to_pylist()]
        assert found == [*range(73), *range(23)]
        return [batch.num_rows for batch in batches]

    assert counts(4096) == [10, 10, 3, 19, 20, 11, 10, 10, 3]
    assert counts(16) == [10, 10, 3, 16, 3, 16, 4, 11, 10, 10, 3]
    assert counts(5) == [5, 5, 5, 5, 3, *[5, 5, 5, 4], *[5] * 4, 5, 5, 1, 5, 5, 5, 5, 3]


def test_sparse_pages_are_joined_by_what_they_hold() -> None:
    made = [page_of(record(n * 1000), n * 1000, (n + 1) * 1000) for n in range(50)]

    batches = list(Columns(Shape(("queue_offset",)), [PART], rows_max=40).read(made))

    assert [batch.num_rows for batch in batches] == [40, 10]


def test_pages_without_a_row_give_no_batch() -> None:
    made = [page_of(b""), page_of(EXAMPLE, 6, 9), replace(page_of(EXAMPLE), stop=QueueOffset(0))]

    assert list(Columns(RAW, [PART]).read(made)) == []
    assert list(Columns(RAW, [PART]).read([])) == []
    assert page_rows(RAW, page_of(EXAMPLE), wanted=Wanted.by(tags="none")) == []


def test_a_batch_has_a_row_at_least() -> None:
    with pytest.raises(ValueError, match="rows_max"):
        Columns(RAW, [PART], rows_max=0)


def other_queue(number: int) -> ReadPart:
    queue = QueueRef("orders" if number % 2 else "bills", f"broker-{number % 3}", number)
    return ReadPart(Span(queue, QueueOffset(0), QueueOffset(100)), "", 100 + number)


@pytest.mark.parametrize("shape", [RAW, KAFKA])
def test_pages_of_several_queues_share_a_batch_and_name_their_own(shape: Shape) -> None:
    parts = [other_queue(number) for number in range(4)]
    pages = [
        replace(
            page_of(record(5) + record(6) + record(7), start=5, stop=7), queue=parts[n].span.queue
        )
        for n in (0, 1, 2, 3, 1)
    ]

    batches = list(Columns(shape, parts).read(pages))

    assert len(batches) == 1
    apart = [
        row
        for page, part in zip(pages, [*parts, parts[1]], strict=True)
        for row in rows(list(Columns(shape, [part]).batches(page)), shape)
    ]
    assert rows(batches, shape) == apart
    assert len(apart) == 10, "what lies beyond its page is left out"


def test_a_filter_and_a_cut_keep_the_queues_of_rows() -> None:
    parts = [other_queue(number) for number in range(2)]
    records = [with_properties(n, f"TAGS\x01{'a' if n % 3 else 'b'}\x02") for n in range(9)]
    pages = [replace(page_of(b"".join(records)), queue=part.span.queue) for part in parts]
    shape = Shape(("queue_id", "queue_offset"))

    made = Columns(shape, parts, wanted=Wanted.by(tags="b"), rows_max=18).read(pages)

    assert [tuple(row.values()) for row in rows(list(made), shape)] == [
        (queue_id, offset) for queue_id in (0, 1) for offset in (0, 3, 6)
    ]


def test_what_is_wrong_in_one_queue_is_said_of_it_also_among_others() -> None:
    parts = [other_queue(number) for number in range(2)]
    damaged = bytearray(record(1))
    damaged[-1] ^= 1
    damaged[4] ^= 1
    pages = [
        replace(page_of(octets), queue=part.span.queue)
        for octets, part in zip((record(0), bytes(damaged)), parts, strict=True)
    ]

    with pytest.raises(MalformedRecord):
        list(Columns(RAW, parts).read(pages))
