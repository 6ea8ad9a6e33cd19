"""The binary header is read and written to the byte, and no length in it is believed."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import LocalProtocolError, MalformedHeader
from flintmq.protocol.command import Command, request
from flintmq.protocol.fields import write_fields
from flintmq.protocol.header_binary import decode_binary_header, encode_binary_header
from flintmq.protocol.headers.common_headers import OfTopic
from flintmq.protocol.language import NAMES, language_name, language_number
from support.protocol.fuzz_wire import check_header_bytes
from support.strategies import binary_commands

ROUTE = bytes.fromhex(
    "0069 00 0191 00000007 00000000 00000000 0000000c 0005 746f706963 00000001 54"
)


def entry(key: bytes, value: bytes) -> bytes:
    return struct.pack(">h", len(key)) + key + struct.pack(">i", len(value)) + value


def header(fields: bytes = b"", remark: bytes = b"", language: int = 0) -> bytes:
    head = struct.pack(">hbhii", 10, language, 401, 7, 0)
    return head + struct.pack(">i", len(remark)) + remark + struct.pack(">i", len(fields)) + fields


def decode(data: bytes) -> Command:
    return decode_binary_header(data, b"body")


def test_the_worked_example_is_read_and_written_to_the_byte() -> None:
    command = decode(ROUTE)

    assert command.header(OfTopic) == OfTopic(topic="T")
    assert (command.code, command.opaque, command.version) == (105, 7, 401)
    assert (command.language, command.remark, command.body) == ("JAVA", None, b"body")
    assert encode_binary_header(command) == ROUTE


def test_without_remark_and_fields_a_header_has_21_bytes() -> None:
    assert len(encode_binary_header(Command())) == 21


def test_negative_numbers_are_numbers() -> None:
    command = Command(code=-5, version=-1, opaque=-7, flag=-(2**31))

    assert decode_binary_header(encode_binary_header(command), b"") == command


def test_an_empty_remark_is_a_missing_one() -> None:
    assert decode(header()).remark is None
    assert encode_binary_header(Command(remark="")) == encode_binary_header(Command())


def test_an_empty_value_is_a_missing_one() -> None:
    assert decode(header(entry(b"a", b"") + entry(b"b", b"1"))).field_texts() == {"b": "1"}


def test_of_two_fields_with_one_name_the_last_wins() -> None:
    twice = entry(b"a", b"1") + entry(b"a", b"2")

    assert decode(header(twice)).field_texts() == {"a": "2"}
    assert decode(header(twice + entry(b"a", b""))).field_texts() == {}


def test_an_empty_name_is_a_name() -> None:
    assert decode(header(entry(b"", b"1"))).field_texts() == {"": "1"}


def test_text_that_is_not_utf8_is_read_with_replacements() -> None:
    command = decode(header(entry(b"\xff", b"a\xc3"), remark=b"\xfe!"))

    assert command.remark == "\ufffd!"
    assert command.field_texts() == {"\ufffd": "a\ufffd"}


@pytest.mark.parametrize("at", range(len(header(entry(b"k", b"v"), b"r"))))
def test_a_header_cut_short_is_refused(at: int) -> None:
    with pytest.raises(MalformedHeader):
        decode(header(entry(b"k", b"v"), b"r")[:at])


def test_bytes_after_the_header_are_refused() -> None:
    with pytest.raises(MalformedHeader, match="1 bytes follow"):
        decode(header() + b"x")


@pytest.mark.parametrize("length", [-1, -(2**31), 2, 2**31 - 1])
def test_a_remark_length_that_does_not_fit_is_refused(length: int) -> None:
    data = header()[:13] + struct.pack(">i", length) + b"r" + struct.pack(">i", 0)

    with pytest.raises(MalformedHeader) as caught:
        decode(data[: 13 + 4 + 1] if length == 2 else data)

    assert caught.value.field == "remark"


@pytest.mark.parametrize("length", [-1, -(2**31), 8, 2**31 - 1])
def test_a_length_of_all_fields_that_does_not_fit_is_refused(length: int) -> None:
    data = header()[:17] + struct.pack(">i", length) + entry(b"", b"1")

    with pytest.raises(MalformedHeader) as caught:
        decode(data)

    assert caught.value.field == "extFields"


@pytest.mark.parametrize(
    "fields",
    [
        struct.pack(">h", -1) + b"k" + struct.pack(">i", 1) + b"v",
        struct.pack(">h", 2**15 - 1) + b"k" + struct.pack(">i", 1) + b"v",
        struct.pack(">h", 1) + b"k" + struct.pack(">i", -1) + b"v",
        struct.pack(">h", 1) + b"k" + struct.pack(">i", 2) + b"v",
        struct.pack(">h", 1) + b"k" + struct.pack(">i", 2**31 - 1) + b"v",
        b"\x00",
    ],
)
def test_a_field_length_that_does_not_fit_is_refused(fields: bytes) -> None:
    with pytest.raises(MalformedHeader) as caught:
        decode(header(fields))

    assert caught.value.field == "extFields"


@pytest.mark.parametrize(
    ("number", "name"), [(0, "JAVA"), (13, "NODE_JS"), (99, "OTHER"), (-1, "OTHER")]
)
def test_a_language_is_a_byte_and_unknown_ones_are_other(number: int, name: str) -> None:
    assert decode(header(language=number)).language == name


def test_languages_have_the_numbers_of_the_protocol() -> None:
    known = {"JAVA": 0, "CPP": 1, "PYTHON": 3, "OTHER": 7, "GO": 9, "RUST": 12, "NODE_JS": 13}

    assert {name: language_number(name) for name in known} == known
    assert [language_name(number) for number in range(len(NAMES))] == list(NAMES)
    assert language_number("COBOL") == language_number("OTHER")


@pytest.mark.parametrize("code", [200050, 2**15, -(2**15) - 1])
def test_a_code_of_more_than_16_bits_is_not_written(code: int) -> None:
    """A Java peer writes 3442 for POP_MESSAGE, which nobody can make sense of."""
    with pytest.raises(LocalProtocolError, match="16 bits"):
        encode_binary_header(request(code))


def test_a_version_of_more_than_16_bits_is_not_written() -> None:
    with pytest.raises(LocalProtocolError, match="version 32768"):
        encode_binary_header(Command(version=2**15))


def test_a_name_whose_length_needs_more_than_15_bits_is_not_written() -> None:
    fits, too_long = "k" * (2**15 - 1), "k" * 2**15

    assert encode_binary_header(Command(fields=write_fields({fits: "v"})))
    with pytest.raises(LocalProtocolError, match="too long"):
        encode_binary_header(Command(fields=write_fields({too_long: "v"})))


def test_a_remark_that_utf8_cannot_carry_is_not_written() -> None:
    with pytest.raises(LocalProtocolError):
        encode_binary_header(Command(remark="\ud800"))


@settings(max_examples=300, deadline=None)
@given(binary_commands())
def test_any_command_survives(command: Command) -> None:
    assert decode_binary_header(encode_binary_header(command), command.body) == command


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60), st.data())
def test_arbitrary_headers_raise_nothing_foreign(data: bytes, choices: st.DataObject) -> None:
    spoilt = bytearray(header(entry(b"topic", b"T") + entry(b"k", b""), b"remark"))
    for _ in range(3):
        spoilt[choices.draw(st.integers(0, len(spoilt) - 1))] = choices.draw(st.integers(0, 255))

    check_header_bytes(1, data)
    check_header_bytes(1, bytes(spoilt))
