"""A frame becomes the same command in either header form, and back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from flintmq.errors import LocalProtocolError, MalformedHeader
from flintmq.protocol.command import Command, request
from flintmq.protocol.frame import FRAME_BYTES_MAX, FrameReader, HeaderForm
from flintmq.protocol.headers.common_headers import OfTopic
from flintmq.protocol.wire import decode_command, encode_command, encode_command_as, encode_head
from support.strategies import binary_commands, commands


def decode(data: bytes) -> Command:
    [frame] = FrameReader().feed(data)
    return decode_command(frame)


@pytest.mark.parametrize("form", HeaderForm)
def test_each_frame_says_its_form(form: HeaderForm) -> None:
    command = request(105, OfTopic(topic="orders"), b"body", opaque=7)

    data = encode_command(command, form)

    assert data[4] == form
    assert decode(data) == command


def test_json_is_what_is_spoken_unless_told_otherwise() -> None:
    assert encode_command(Command()) == encode_command(Command(), HeaderForm.JSON)


@pytest.mark.parametrize("form", HeaderForm)
def test_a_body_can_be_sent_from_where_it_lies(form: HeaderForm) -> None:
    command = request(105, OfTopic(topic="orders"), b"body")

    assert encode_head(command, len(command.body), form) + b"body" == encode_command(command, form)


@pytest.mark.parametrize("form", HeaderForm)
def test_a_command_can_be_sent_under_another_number(form: HeaderForm) -> None:
    command = request(105, OfTopic(topic="orders"), b"body", opaque=7)

    sent = decode(encode_command_as(command, 9, 2, form))

    assert (sent.opaque, sent.flag) == (9, 2)
    assert sent == replace(command, opaque=9, flag=2)


def test_a_header_of_the_other_form_is_refused() -> None:
    data = bytearray(encode_command(request(105, OfTopic(topic="orders"))))
    data[4] = HeaderForm.BINARY

    with pytest.raises(MalformedHeader):
        decode(bytes(data))


def test_a_frame_over_the_cap_is_not_written() -> None:
    with pytest.raises(LocalProtocolError, match="over the limit"):
        encode_head(request(10), FRAME_BYTES_MAX)


@settings(max_examples=100, deadline=None)
@given(commands())
def test_any_command_survives_as_json(command: Command) -> None:
    assert decode(encode_command(command)) == command


@settings(max_examples=100, deadline=None)
@given(binary_commands())
def test_what_both_forms_can_carry_is_the_same_in_both(command: Command) -> None:
    assert decode(encode_command(command, HeaderForm.BINARY)) == decode(encode_command(command))
