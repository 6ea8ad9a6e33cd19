"""Bytes made here mean the same to the real client, and its bytes mean the same here.

Each claim is put to the codecs of both generations, 4.9.8 and 5.3.3, with generated values: the
judge is the released code itself, in one JVM per release.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from flintmq.model.host import Host
from flintmq.model.java_hash import java_hash
from flintmq.model.message_id import UniqueIds, offset_id, parse_offset_id
from flintmq.model.properties import UNIQ_KEY
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.model.sys_flag import Compression, with_compression
from flintmq.protocol.command import Command
from flintmq.protocol.compression import pack
from flintmq.protocol.frame import FrameReader, HeaderForm
from flintmq.protocol.records.batch import BatchEntry, decode_batch, encode_batch
from flintmq.protocol.records.properties import (
    encode_properties,
    format_properties,
    parse_properties,
)
from flintmq.protocol.records.record import Record, Version, crc_of, decode_record, encode_record
from flintmq.protocol.wire import decode_command, encode_command
from support.interop import wire_strategies as wire
from support.interop.wire_judge import WireJudge
from support.store.real_records import redraft
from support.unique_ids import created_ms

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("java")]

OLD, NEW = "4.9.8", "5.3.3"
checked = settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module", params=[OLD, NEW])
def judge(java: None, request: pytest.FixtureRequest) -> Iterator[WireJudge]:
    with WireJudge(request.param) as running:
        yield running


def seen_by_java(record: Record, size_bytes: int) -> dict[str, Any]:
    """What the judge must say of a record."""
    properties = parse_properties(record.properties)
    place = offset_id(record.store_host, record.log_offset)
    return {
        "msgId": properties.get(UNIQ_KEY, place),
        "offsetMsgId": place,
        "storeSize": size_bytes,
        "bodyCRC": record.body_crc,
        "queueId": record.queue_id,
        "flag": record.flag,
        "queueOffset": record.queue_offset,
        "commitLogOffset": record.log_offset,
        "sysFlag": record.sys_flag,
        "bornTimestamp": record.born_ms,
        "bornHost": [record.born_host.packed.hex(), record.born_host.port],
        "storeTimestamp": record.store_ms,
        "storeHost": [record.store_host.packed.hex(), record.store_host.port],
        "reconsumeTimes": record.reconsume_times,
        "preparedTransactionOffset": record.prepared_offset,
        "body": record.body.hex(),
        "topic": record.topic,
        "properties": properties,
    }


@checked
@given(st.lists(wire.records(), min_size=1, max_size=3))
def test_the_client_reads_our_records_field_by_field(
    judge: WireJudge, records: list[Record]
) -> None:
    encoded = [encode_record(record) for record in records]

    found = judge.records(b"".join(encoded))

    assert found == [
        seen_by_java(record, len(octets)) for record, octets in zip(records, encoded, strict=True)
    ]


@checked
@given(wire.records(Version.V2))
def test_only_a_client_of_5_x_reads_our_records_with_long_topics(
    judge: WireJudge, record: Record
) -> None:
    encoded = encode_record(record)

    found = judge.records(encoded)

    # 4.9 does not look at the magic and takes the first byte of the length for the whole of it.
    assert (found == [seen_by_java(record, len(encoded))]) is (judge.version == NEW)


@checked
@given(wire.records())
def test_a_record_of_a_pattern_is_read_like_an_encoded_one(
    judge: WireJudge, record: Record
) -> None:
    written = redraft(record).octets(record.queue_offset, record.log_offset, record.store_ms)

    found = judge.records(written)

    assert found == [seen_by_java(record, len(written))]


@checked
@given(wire.records().filter(lambda record: record.body))  # it cannot write an empty one
def test_we_read_a_record_that_the_client_wrote(judge: WireJudge, record: Record) -> None:
    written = judge.recode(encode_record(record))

    ours = decode_record(written, zero_crc_accepted=True)

    properties = parse_properties(ours.properties)
    assert properties == parse_properties(record.properties)
    fields = {"properties": b"", "body_crc": 0}
    assert _replaced(ours, fields) == _replaced(record, fields)


@pytest.mark.parametrize("kind", list(Compression))
@checked
@given(st.binary(max_size=300), st.integers(1, 20))
def test_the_client_unpacks_bodies_that_we_packed(
    judge: WireJudge, kind: Compression, part: bytes, times: int
) -> None:
    body = part * times
    packed = pack(body, kind)
    record = Record(
        version=Version.V1,
        body_crc=crc_of(packed),
        queue_id=0,
        flag=0,
        queue_offset=QueueOffset(0),
        log_offset=LogOffset(0),
        sys_flag=with_compression(0, kind),
        born_ms=0,
        born_host=Host(bytes(4), 0),
        store_ms=0,
        store_host=Host(bytes(4), 0),
        reconsume_times=0,
        prepared_offset=LogOffset(0),
        body=packed,
        topic="t",
        properties=b"",
    )

    found = judge.records(encode_record(record))

    assert [message["body"] for message in found] == [body.hex()]


@checked
@given(
    st.lists(
        st.tuples(wire.int32, st.binary(max_size=50), wire.property_maps), min_size=1, max_size=5
    )
)
def test_a_batch_means_the_same_on_both_sides(
    judge: WireJudge, messages: list[tuple[int, bytes, dict[str, str]]]
) -> None:
    entries = [
        BatchEntry(body, encode_properties(properties), flag) for flag, body, properties in messages
    ]

    found = judge.unbatch(encode_batch(entries))
    ours = decode_batch(judge.batch(messages))

    assert [(one["flag"], one["body"], one["properties"]) for one in found] == [
        (flag, body.hex(), properties) for flag, body, properties in messages
    ]
    assert [(one.flag, one.body, parse_properties(one.properties)) for one in ours] == messages


@checked
@given(wire.commands(wire.int32, wire.texts))
def test_the_client_reads_our_json_headers(judge: WireJudge, command: Command) -> None:
    found = judge.command(encode_command(command, HeaderForm.JSON))

    assert found == {
        "form": "JSON",
        "code": command.code,
        "language": command.language,
        "version": command.version,
        "opaque": command.opaque,
        "flag": command.flag,
        "remark": command.remark,
        "extFields": command.field_texts() or None,
        "body": command.body.hex(),
    }


@checked
@given(wire.commands(wire.int16, wire.texts.filter(bool)))
def test_the_client_reads_our_binary_headers(judge: WireJudge, command: Command) -> None:
    found = judge.command(encode_command(command, HeaderForm.BINARY))

    assert found == {
        "form": "ROCKETMQ",
        "code": command.code,
        "language": command.language,
        "version": command.version,
        "opaque": command.opaque,
        "flag": command.flag,
        "remark": command.remark,
        "extFields": command.field_texts() or None,
        "body": command.body.hex(),
    }


@pytest.mark.parametrize("form", ["JSON", "ROCKETMQ"])
@checked
@given(
    wire.int16,
    wire.int32,
    wire.texts,
    st.dictionaries(wire.texts.filter(bool), wire.texts.filter(bool), max_size=5),
)
def test_we_read_the_headers_that_the_client_writes(
    judge: WireJudge, form: str, code: int, opaque: int, remark: str, fields: dict[str, str]
) -> None:
    frame = judge.frame(form, code, 0, opaque, remark, fields)

    [command] = map(decode_command, FrameReader().feed(frame))

    assert (command.code, command.opaque, command.flag) == (code, opaque, 0)
    assert command.remark == (remark or None)
    assert command.field_texts() == fields
    assert command.language == "JAVA"


@checked
@given(wire.property_maps)
def test_a_property_string_means_the_same_on_both_sides(
    judge: WireJudge, properties: dict[str, str]
) -> None:
    found = judge.properties(format_properties(properties))
    ours = parse_properties(judge.property_string(properties))

    assert found == properties
    assert ours == properties


@checked
@given(st.text("ab\x01\x02", max_size=20))
@example("a\x01\x02b\x01c")
@example("\x01a\x02")
def test_a_broken_property_string_is_read_as_the_client_reads_it(
    judge: WireJudge, text: str
) -> None:
    assert parse_properties(text) == judge.properties(text)


@checked
@given(wire.hosts, wire.offsets)
def test_an_offset_id_leads_to_the_same_place(
    judge: WireJudge, host: Host, log_offset: int
) -> None:
    text = offset_id(host, log_offset)

    found = judge.offset_id(text)

    assert found == {"host": [host.packed.hex(), host.port], "offset": log_offset}
    assert parse_offset_id(text) == (host, log_offset)


@checked
@given(
    st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16), st.integers(1, 2**22)
)
def test_a_unique_id_tells_the_client_who_made_it(judge: WireJudge, ip: bytes, pid: int) -> None:
    made = UniqueIds(ip, pid, constant=7).make(now_ms=1_000_000, month_start_ms=0)

    found = judge.unique_id(made)

    assert found["ip"] == ip.hex()
    assert found["pid"] == pid & 0xFFFF
    # Only the judge knows its month; ours, told the same one, must come to the same moment.
    month_start_ms = found["madeAt"] - 1_000_000
    assert found["madeAt"] == created_ms(
        made,
        now_ms=found["madeAt"],
        month_start_ms=month_start_ms,
        previous_month_start_ms=0,
    )


@checked
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
@example("polygenelubricants")
@example("🚀")
def test_a_text_has_the_same_hash(judge: WireJudge, text: str) -> None:
    assert java_hash(text) == judge.hash_code(text)


@checked
@given(st.binary(max_size=200))
def test_a_body_has_the_same_checksum(judge: WireJudge, body: bytes) -> None:
    assert crc_of(body) == judge.crc(body)


def _replaced(record: Record, fields: dict[str, object]) -> dict[str, object]:
    return {name: getattr(record, name) for name in record.__struct_fields__} | fields
