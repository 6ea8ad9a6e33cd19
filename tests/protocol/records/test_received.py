"""A pull answer becomes messages and bad records, up to the first frame that cannot be cut."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import MalformedRecord
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset
from flintmq.model.sys_flag import INNER_BATCH, NEED_UNWRAP, Compression, with_compression
from flintmq.protocol.compression import pack
from flintmq.protocol.records import received as received_module
from flintmq.protocol.records.batch import BatchEntry, encode_batch
from flintmq.protocol.records.properties import parse_properties
from flintmq.protocol.records.received import Received, decode_messages
from flintmq.protocol.records.record import Record, crc_of, decode_record, encode_record
from flintmq.protocol.records.sift import sift_records
from support.record_examples import EXAMPLE, mutated, property_strings, records

pytestmark = pytest.mark.usefixtures("each_kernel")

BATCH = NEED_UNWRAP | INNER_BATCH
PLAIN = records(property_strings()).map(
    lambda record: msgspec.structs.replace(record, sys_flag=record.sys_flag & 0x3C)
)


SEVERAL = st.lists(PLAIN, min_size=1, max_size=3).map(
    lambda made: b"".join(map(encode_record, made))
)


def with_body(body: bytes, sys_flag: int, **fields: Any) -> bytes:
    """The worked example with another body."""
    record = msgspec.structs.replace(
        decode_record(EXAMPLE), body=body, body_crc=crc_of(body), sys_flag=sys_flag, **fields
    )
    return encode_record(record)


def decode(buffer: bytes, **options: Any) -> Received:
    return decode_messages(buffer, broker="broker-a", **options)


@settings(max_examples=50, deadline=None)
@given(st.lists(PLAIN, max_size=4))
def test_a_message_says_what_its_record_says(made: list[Record]) -> None:
    octets = [encode_record(record) for record in made]

    received = decode(b"".join(octets))

    assert received.fault is None
    assert received.messages == [
        ReceivedMessage(
            topic=record.topic,
            broker="broker-a",
            queue_id=record.queue_id,
            queue_offset=record.queue_offset,
            log_offset=record.log_offset,
            body=record.body,
            properties=parse_properties(record.properties),
            flag=record.flag,
            sys_flag=record.sys_flag,
            born_ms=record.born_ms,
            born_host=record.born_host,
            store_ms=record.store_ms,
            store_host=record.store_host,
            reconsume_times=record.reconsume_times,
            prepared_offset=record.prepared_offset,
            stored_bytes=len(encoded),
        )
        for record, encoded in zip(made, octets, strict=True)
    ]


def test_the_answer_adds_its_own_facts() -> None:
    received = decode(EXAMPLE, queue_id=9, min_offset=1, max_offset=40, offset_delta=100)

    (message,) = received.messages
    assert message.properties == {"TAGS": "TagA", "MIN_OFFSET": "1", "MAX_OFFSET": "40"}
    assert (message.queue_id, message.queue_offset, message.broker) == (9, 105, "broker-a")
    assert message.offset_message_id == "0A00000100002A9F0000000000000400"


def test_an_empty_answer_holds_no_message() -> None:
    assert decode(b"") == Received([])


@pytest.mark.parametrize("kind", Compression)
def test_a_packed_body_is_unpacked_and_its_bit_cleared_but_not_its_type(kind: Compression) -> None:
    sys_flag = with_compression(0, kind)

    (message,) = decode(with_body(pack(b"x" * 5000, kind), sys_flag)).messages

    assert message.body == b"x" * 5000
    assert message.sys_flag == kind


def test_an_old_producer_packs_with_zlib_and_says_no_type() -> None:
    (message,) = decode(with_body(pack(b"old", Compression.ZLIB), 1)).messages

    assert (message.body, message.sys_flag) == (b"old", 0)


def test_an_inner_batch_is_split_into_consecutive_messages() -> None:
    batch = encode_batch([BatchEntry(b"a", b"TAGS\x01x\x02", 7), BatchEntry(b"b", b"", 8)])

    received = decode(
        with_body(batch, BATCH, properties=b"INNER_NUM\x012\x02"), queue_id=4, max_offset=9
    )

    whole = decode(EXAMPLE, queue_id=4).messages[0]
    shared: dict[str, Any] = {"sys_flag": BATCH, "stored_bytes": 104 - 2 + len(batch) + 2}
    assert received.messages == [
        whole._replace(
            queue_offset=QueueOffset(5),
            body=b"a",
            flag=7,
            properties={"TAGS": "x", "MAX_OFFSET": "9"},
            **shared,
        ),
        whole._replace(
            queue_offset=QueueOffset(6),
            body=b"b",
            flag=8,
            properties={"MAX_OFFSET": "9"},
            **shared,
        ),
    ]


def test_a_packed_inner_batch_is_unpacked_and_split() -> None:
    batch = pack(encode_batch([BatchEntry(b"a"), BatchEntry(b"b")]), Compression.ZSTD)

    received = decode(with_body(batch, with_compression(BATCH, Compression.ZSTD)))

    assert [message.body for message in received.messages] == [b"a", b"b"]


BROKEN = [
    EXAMPLE[:50],
    bytes(200),
    EXAMPLE[:4] + bytes(4) + EXAMPLE[8:],
]
BAD = [
    with_body(b"no zlib", 1),
    with_body(b"x", 1 | 7 << 8),
    with_body(pack(bytes(2000), Compression.ZLIB), 1),
    with_body(pack(bytes(2000), Compression.ZLIB)[:-1], 1),
    with_body(b"no batch", BATCH),
    with_body(b"", BATCH),
    EXAMPLE.replace(b"hi", b"ho"),
    EXAMPLE.replace(b"\x01T\0", b"\x01\xff\0"),
]


def test_a_topic_that_reaches_beyond_its_record_is_none() -> None:
    plain = with_body(b"hi", 0, topic="t", properties=b"")
    topic_at = len(plain) - 4
    assert plain[topic_at:] == b"\x01t\0\0"

    received = decode(plain + plain[:topic_at] + b"\x02t\0\0")

    assert len(received.messages) == 1
    assert received.fault is not None


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_frame_ends_the_reading_and_is_reported(broken: bytes) -> None:
    received = decode(EXAMPLE + EXAMPLE + broken + EXAMPLE)

    assert len(received.messages) == 2
    assert received.bad == []
    assert received.fault is not None
    assert received.fault.position == 2 * len(EXAMPLE)
    assert received.fault.reason


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("careful", [False, True])
def test_a_record_that_cannot_be_decoded_is_set_aside_and_the_reading_goes_on(
    bad: bytes, careful: bool
) -> None:
    octets = bad + EXAMPLE + bad + bad + EXAMPLE
    buffer = memoryview(octets) if careful else octets

    received = decode_messages(
        buffer, broker="broker-a", queue_id=7, offset_delta=2, body_bytes_max=1999
    )

    assert received.fault is None
    assert [message.body for message in received.messages] == [b"hi", b"hi"]
    assert [one.raw for one in received.bad] == [bad] * 3
    one = received.bad[0]
    assert (one.broker, one.queue_id, one.queue_offset, one.log_offset) == ("broker-a", 7, 7, 1024)
    assert one.topic == ("" if b"\x01\xff\0" in bad else "T")
    assert one.offset_message_id == received.messages[0].offset_message_id
    assert one.store_ms == received.messages[0].store_ms
    assert one.size_bytes == len(bad)
    assert one.reason
    assert one.missing == ""


@pytest.mark.parametrize("bad", BAD)
def test_sifting_leaves_the_good_records_and_says_where_the_bad_ones_were(bad: bytes) -> None:
    sifted = sift_records(
        EXAMPLE + bad + EXAMPLE + bad + EXAMPLE[:50],
        broker="broker-a",
        queue_id=7,
        body_bytes_max=1999,
    )

    assert sifted.good == EXAMPLE + EXAMPLE
    assert [one.raw for one in sifted.bad] == [bad, bad]
    assert sifted.positions == [len(EXAMPLE), 2 * len(EXAMPLE) + len(bad)]
    assert sifted.fault is not None
    assert sifted.fault.position == 2 * (len(EXAMPLE) + len(bad))


def test_properties_that_are_no_text_are_read_with_replacement_characters() -> None:
    record = with_body(b"hi", 0, properties=b"TAGS\x01\xff\xfe\x02\xc3\x01x\x02\x01\x02KEYS")

    received = decode(EXAMPLE + record)

    assert received.bad == []
    assert dict(received.messages[1].properties) == {"TAGS": "\ufffd\ufffd", "\ufffd": "x"}


def test_a_checksum_may_be_missing_or_left_unread() -> None:
    without = bytearray(EXAMPLE)
    without[8:12] = bytes(4)
    wrong = EXAMPLE.replace(b"hi", b"ho")

    assert decode(bytes(without)).fault is None
    assert decode(wrong, verify_crc=False).messages[0].body == b"ho"


def test_all_bodies_of_an_answer_share_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(received_module, "UNPACKED_BYTES_MAX", 5000)
    packed = with_body(pack(bytes(2000), Compression.ZLIB), 1)

    received = decode(packed * 3)

    assert len(received.messages) == 2
    assert received.fault is not None


def test_bodies_that_unpack_too_far_use_up_the_room_of_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(received_module, "UNPACKED_BYTES_MAX", 5000)
    bomb = with_body(pack(bytes(9000), Compression.ZLIB), 1)

    received = decode(bomb * 5, body_bytes_max=2000)

    assert len(received.bad) == 2
    assert received.fault is not None
    assert received.fault.position == 2 * len(bomb)


def test_a_missing_package_is_the_users_to_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = with_body(pack(b"x", Compression.LZ4), 257)
    monkeypatch.setitem(sys.modules, "lz4", None)
    monkeypatch.setitem(sys.modules, "lz4.frame", None)

    received = decode(EXAMPLE + packed + EXAMPLE)

    assert len(received.messages) == 2
    assert received.bad[0].missing == "lz4"
    assert "pip install" in received.bad[0].reason


@settings(max_examples=150, deadline=None)
@given(
    st.binary(max_size=150)
    | mutated(st.lists(records().map(encode_record), max_size=4).map(b"".join))
)
def test_any_bytes_become_messages_and_perhaps_a_fault(octets: bytes) -> None:
    received = decode(octets)

    if received.fault is None:
        assert all(message.stored_bytes >= 91 for message in received.messages)
    else:
        assert isinstance(received.fault, MalformedRecord)
        assert 0 <= received.fault.position < len(octets)


@settings(max_examples=200, deadline=None)
@given(SEVERAL | mutated(SEVERAL), st.sampled_from([None, 7]))
def test_the_quick_way_reads_what_the_careful_one_reads(
    octets: bytes, queue_id: int | None
) -> None:
    options: dict[str, Any] = {"queue_id": queue_id, "min_offset": 1, "max_offset": 9}
    options["offset_delta"] = 3

    quick = decode(octets, **options)
    careful = decode_messages(memoryview(octets), broker="broker-a", **options)

    assert quick.messages == careful.messages
    assert quick.bad == careful.bad
    assert str(quick.fault) == str(careful.fault)
