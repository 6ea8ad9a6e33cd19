"""Reading a request in one pass gives what reading it in two steps gives."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from flintmq.errors import MalformedHeader
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.fields import Header, header_fields, write_fields
from flintmq.protocol.frame import FrameReader, HeaderForm
from flintmq.protocol.headers.catalogue import REQUEST_HEADERS
from flintmq.protocol.headers.common_headers import NoFields, OfConsumerGroup
from flintmq.protocol.headers.offset import UpdateConsumerOffset
from flintmq.protocol.headers.pop import PollingOf
from flintmq.protocol.headers.send import SendMessageV2
from flintmq.protocol.typed_request import RequestReader, TypedRequest
from flintmq.protocol.wire import encode_command
from support.protocol.fuzz_wire import check_reader
from support.strategies import bent, headers_of

READER = RequestReader(REQUEST_HEADERS)
SEND = SendMessageV2(topic="t", queue_id=1, sys_flag=0, born_timestamp=5, flag=0)


def read(command: Command, form: HeaderForm = HeaderForm.JSON) -> TypedRequest[Any] | Command:
    [frame] = FrameReader().feed(encode_command(command, form))
    check_reader(frame)
    return READER.read(frame)


def read_json(header: str) -> TypedRequest[Any] | Command:
    frame = (0, header.encode(), b"body")
    check_reader(frame)
    return READER.read(frame)


def typed(header: str) -> TypedRequest[Any]:
    got = read_json(header)
    assert isinstance(got, TypedRequest)
    return got


@pytest.mark.parametrize("form", HeaderForm)
def test_a_known_request_comes_out_typed(form: HeaderForm) -> None:
    got = read(request(310, SEND, b"body", opaque=9, oneway=True), form)

    assert isinstance(got, TypedRequest)
    assert got.header == SEND
    assert (got.code, got.opaque, got.flag, got.version) == (310, 9, 2, 479)
    assert (got.language, got.remark, got.body) == ("PYTHON", None, b"body")
    assert got.is_oneway


def test_a_code_that_does_not_fit_the_front_comes_out_typed_too() -> None:
    header = PollingOf(consumer_group="g", topic="t", queue_id=-1)

    got = read(request(200055, header))

    assert isinstance(got, TypedRequest)
    assert got.header == header
    assert not got.is_oneway


def test_an_unknown_request_comes_out_plain() -> None:
    command = request(9999, body=b"body")

    assert read(command) == command


def test_an_answer_comes_out_plain() -> None:
    """Its code may be that of a request: 17 makes a topic, and says that there is none."""
    for code in (17, 34, 38):
        command = Command(code=code, flag=1, fields=write_fields({"consumerGroup": "g"}))

        assert read(command) == command


def test_a_request_without_fields_has_an_empty_header() -> None:
    for header in ('{"code":34,"flag":0}', '{"code":34,"extFields":null}', '{"code":34}'):
        assert typed(header).header == NoFields()


def test_a_missing_version_and_language_mean_the_same_on_both_ways() -> None:
    fields = '"extFields":{"consumerGroup":"g"}'

    quick, slow = typed('{"code":38,' + fields + "}"), typed("{" + fields + ',"code":38}')

    assert (quick.version, quick.language) == (slow.version, slow.language) == (0, "JAVA")
    assert quick.header == slow.header == OfConsumerGroup(consumer_group="g")


def test_a_bent_header_is_read_all_the_same() -> None:
    got = typed(
        '{"code":15,"extFields":{"consumerGroup":"g","topic":5,"queueId":0,"commitOffset":"-1",'
        '"zz":{"a":[]}},"flag":0,"language":9,"version":"317","opaque":1,"remark":""}'
    )

    assert got.header == UpdateConsumerOffset(
        consumer_group="g", topic="5", queue_id=0, commit_offset=-1
    )
    assert (got.language, got.version, got.remark) == ("GO", 317, "")


def test_only_the_text_true_makes_a_batch() -> None:
    fields = header_fields(SEND)
    for text, is_batch in (("true", True), ("TRUE", True), ("1", False), ("false", False)):
        got = read(Command(code=310, fields=write_fields(fields | {"m": text})))

        assert isinstance(got, TypedRequest)
        assert got.header.is_batch is is_batch


def test_a_second_code_in_one_header_wins() -> None:
    got = typed('{"code":34,"extFields":{"consumerGroup":"g"},"code":38}')

    assert (got.code, got.header) == (38, OfConsumerGroup(consumer_group="g"))


def test_a_second_object_of_fields_wins() -> None:
    got = typed('{"code":38,"extFields":{"consumerGroup":"a"},"extFields":{"consumerGroup":"b"}}')

    assert got.header == OfConsumerGroup(consumer_group="b")


@pytest.mark.parametrize(
    "header",
    [
        '{"code":38,"extFields":{}}',
        '{"code":38,"flag":0}',
        '{"code":38,"extFields":[]}',
        '{"code":38,"extFields":{"consumerGroup":null}}',
        '{"code":31,"extFields":{"topic":"t","queueId":"x"}}',
        '{"code":31,"extFields":{"topic":"t","queueId":"99999999999"}}',
        '{"code":38,"extFields":{"consumerGroup":"g","a":' + "[" * 100_000,
        '{"code":38,"extFields":{"consumerGroup":"g"},"a":' + '{"a":' * 100_000,
        '{"code":38,',
        '{"code":38,"',
        "",
    ],
)
def test_a_bad_header_is_an_error_of_ours(header: str) -> None:
    with pytest.raises(MalformedHeader):
        read_json(header)


def test_a_reader_knows_only_what_it_was_given() -> None:
    reader = RequestReader({RequestCode.HEART_BEAT: NoFields})
    known, unknown = (FrameReader().feed(encode_command(request(code)))[0] for code in (34, 38))

    assert isinstance(reader.read(known), TypedRequest)
    assert isinstance(reader.read(unknown), Command)


@pytest.mark.parametrize("code", REQUEST_HEADERS)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_every_request_reads_the_same_in_one_pass_and_in_two(
    code: RequestCode, data: st.DataObject
) -> None:
    header: Header = data.draw(headers_of(REQUEST_HEADERS[code]))
    spelling = data.draw(bent(header_fields(header)))
    command = Command(code=code, fields=Raw(json.dumps(spelling).encode()), body=b"body")

    got = read(command)

    assert isinstance(got, TypedRequest)
    assert got.header == header


def test_a_schema_is_made_when_its_first_request_comes_and_kept() -> None:
    reader = RequestReader(REQUEST_HEADERS)
    frame = (0, b'{"code":310,"extFields":{"b":"t","e":"1","f":"0","g":"5","h":"0"}}', b"")
    assert not reader._schemas

    first = reader.read(frame)
    made = dict(reader._schemas)
    second = reader.read(frame)

    assert isinstance(first, TypedRequest)
    assert first == second
    assert [code for code, *_ in made.values()] == [310]
    assert reader._schemas == made
