"""The JSON header is read with all the habits of real peers, and written as Java writes it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from flintmq.errors import LocalProtocolError, MalformedHeader
from flintmq.protocol.command import Command
from flintmq.protocol.fields import write_fields
from flintmq.protocol.header_json import decode_json_header, encode_json_header
from support.protocol.fuzz_wire import check_header_bytes
from support.strategies import commands

HEARTBEAT = (
    b'{"code":34,"flag":0,"language":"JAVA","opaque":7,'
    b'"serializeTypeCurrentRPC":"JSON","version":401}'
)


def decode(header: bytes | str) -> Command:
    data = header.encode() if isinstance(header, str) else header
    return decode_json_header(data, b"body")


def test_the_worked_example_is_read_and_written_to_the_byte() -> None:
    command = decode(HEARTBEAT)

    assert command == Command(code=34, opaque=7, version=401, language="JAVA", body=b"body")
    assert encode_json_header(command) == HEARTBEAT


def test_keys_are_written_in_alphabetical_order_and_nothing_for_null() -> None:
    command = Command(code=1, remark="é\n", fields=write_fields({"b": "1", "a": "2"}))

    assert encode_json_header(command).decode() == (
        '{"code":1,"extFields":{"b":"1","a":"2"},"flag":0,"language":"JAVA","opaque":0,'
        '"remark":"é\\n","serializeTypeCurrentRPC":"JSON","version":0}'
    )


def test_an_empty_object_is_a_command_of_zeros() -> None:
    assert decode("{}") == Command(body=b"body")


def test_white_space_and_unknown_keys_are_ignored() -> None:
    command = decode(' { "code" : 5 , "new" : [ { } ] , "extFields" : { "a" : "b" } } ')

    assert command.code == 5
    assert command.field_texts() == {"a": "b"}


@pytest.mark.parametrize("fields", ['"extFields":null', '"extFields":{}', '"other":1'])
def test_null_empty_and_missing_fields_are_no_fields(fields: str) -> None:
    assert decode("{" + fields + "}").fields == Raw(b"{}")


@pytest.mark.parametrize("value", ["[]", '"text"', "5", "true", '[{"a":"b"}]'])
def test_fields_that_are_no_object_are_refused(value: str) -> None:
    for header in ('{"extFields":%s}', '{"version":"401","language":5,"extFields":%s}'):
        with pytest.raises(MalformedHeader) as caught:
            decode(header % value)

        assert caught.value.field == "extFields"


def test_fields_keep_their_types_and_nested_values_until_they_are_read() -> None:
    command = decode('{"extFields":{"n":5,"b":true,"x":null,"o":{"p":[1]}}}')

    assert bytes(command.fields) == b'{"n":5,"b":true,"x":null,"o":{"p":[1]}}'
    assert command.field_texts() == {"n": "5", "b": "true"}


def test_numbers_may_be_text() -> None:
    command = decode('{"code":"34","flag":"1","opaque":"-7","version":"401"}')

    assert (command.code, command.flag, command.opaque, command.version) == (34, 1, -7, 401)


def test_numbers_may_be_null_or_empty() -> None:
    assert decode('{"code":null,"flag":"","opaque":null,"version":null}') == decode("{}")


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("0", "JAVA"),
        ("9", "GO"),
        ("13", "NODE_JS"),
        ("99", "OTHER"),
        ("-1", "OTHER"),
        ("null", "JAVA"),
    ],
)
def test_a_language_may_be_a_number_or_null(value: str, name: str) -> None:
    assert decode('{"language":' + value + "}").language == name


def test_an_unknown_language_is_kept() -> None:
    assert decode('{"language":"COBOL"}').language == "COBOL"


def test_an_empty_remark_is_not_a_missing_one() -> None:
    """Go and C++ clients send an empty remark with every request."""
    assert decode('{"remark":""}').remark == ""
    assert decode('{"remark":null}').remark is None
    assert decode("{}").remark is None
    assert b'"remark":""' in encode_json_header(Command(remark=""))
    assert b"remark" not in encode_json_header(Command())


def test_a_remark_that_is_no_text_is_told_as_text() -> None:
    assert decode('{"remark":5}').remark == "5"


def test_of_two_keys_with_one_name_the_last_wins() -> None:
    command = decode('{"code":1,"extFields":{"a":"1"},"code":2,"extFields":{"a":"2"}}')

    assert command.code == 2
    assert command.field_texts() == {"a": "2"}


def test_the_key_that_stands_for_the_body_is_not_taken_from_the_wire() -> None:
    for header in ('{" body":"aGk="}', '{" body":5}', '{" body":null}'):
        assert decode(header).body == b"body"


@pytest.mark.parametrize("name", ["code", "flag", "opaque", "version"])
@pytest.mark.parametrize(
    "value",
    [
        *("2147483648", '"-2147483649"', "1e300", "9" * 400),
        *('"x"', "{}", "[1]", '"' + "9" * 9999 + '"'),
    ],
)
def test_a_number_that_does_not_fit_names_its_field(name: str, value: str) -> None:
    with pytest.raises(MalformedHeader) as caught:
        decode(f'{{"{name}":{value}}}')

    assert caught.value.field == name


@pytest.mark.parametrize(
    "header",
    [
        *(b"", b" ", b"{", b"null", b"[]", b"5", b'"text"', b"{}{}", b"{} x", b"\x00", b"\xff"),
        *(b'{"code":NaN}', b'{"code":1,}', b"{'code':1}", b'{"code":' + b"9" * 9999 + b"}"),
        *(b'{"remark":"\xff"}', b'{"remark":"\\ud800"}', b'{"remark":"\\udc00\\ud800"}'),
        *(b"[" * 100_000, b'{"a":' * 100_000, b'{"extFields":{"a":' + b"[" * 100_000),
    ],
)
def test_what_is_no_header_is_an_error_of_ours(header: bytes) -> None:
    with pytest.raises(MalformedHeader):
        decode(header)


def test_a_remark_that_utf8_cannot_carry_is_not_written() -> None:
    with pytest.raises(LocalProtocolError):
        encode_json_header(Command(remark="\ud800"))


def test_a_header_written_by_us_is_json_to_everybody() -> None:
    command = Command(code=1, remark='"\\\u2028\x00𝄞', fields=write_fields({'"': "\\"}))

    header = json.loads(encode_json_header(command))

    assert (header["remark"], header["extFields"]) == ('"\\\u2028\x00𝄞', {'"': "\\"})


@settings(max_examples=300, deadline=None)
@given(commands())
def test_any_command_survives(command: Command) -> None:
    assert decode_json_header(encode_json_header(command), command.body) == command


@settings(max_examples=200, deadline=None)
@given(commands(), st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter(command: Command, chance: object) -> None:
    header = json.loads(encode_json_header(command))
    items = list(header.items())
    chance.shuffle(items)  # type: ignore[attr-defined]

    again = decode(json.dumps(dict(items), ensure_ascii=False, separators=(",", ":")))

    assert again.field_texts() == command.field_texts()
    assert replace(again, fields=command.fields, body=command.body) == command


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60) | st.text('{}[]":,0129.eE+-\\u "codeflagxtFilsrmkvn', max_size=60))
def test_arbitrary_headers_raise_nothing_foreign(header: bytes | str) -> None:
    check_header_bytes(0, header if isinstance(header, bytes) else header.encode())
