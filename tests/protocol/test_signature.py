"""A signature covers every field and the body, and brokers of all releases accept ours."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from flintmq.protocol.command import Command, request
from flintmq.protocol.fields import write_fields
from flintmq.protocol.frame import FrameReader
from flintmq.protocol.headers.lookup import QueryMessage
from flintmq.protocol.signature import sign, verify
from flintmq.protocol.wire import decode_command
from support.strategies import commands, texts

GOLDEN = Path(__file__).parents[1] / "golden" / "frames.jsonl"

EXAMPLE = Command(fields=write_fields({"topic": "T", "queueId": "1"}), body=b"hi")
EXAMPLE_SIGNATURE = "e9gtq0+TsbL6NPRCBdUdJS14nvU="
QUERY = request(
    12,
    QueryMessage(
        topic="T", key="k", max_num=1, begin_timestamp=0, end_timestamp=9, is_unique_key=True
    ),
)


def test_the_worked_example_has_its_signature() -> None:
    signed = sign(EXAMPLE, "ak123456", "secret123")

    assert signed.field_texts() == {
        "topic": "T",
        "queueId": "1",
        "AccessKey": "ak123456",
        "Signature": EXAMPLE_SIGNATURE,
    }
    assert verify(signed, "secret123")


def test_nothing_but_fields_is_changed() -> None:
    signed = sign(EXAMPLE, "ak123456", "secret123")

    assert replace(signed, fields=EXAMPLE.fields) == EXAMPLE


def test_a_token_is_signed_too() -> None:
    signed = sign(EXAMPLE, "ak123456", "secret123", "token")
    fields = signed.field_texts()

    assert fields["SecurityToken"] == "token"
    assert fields["Signature"] != EXAMPLE_SIGNATURE
    assert verify(signed, "secret123")


def test_signing_again_replaces_the_signature() -> None:
    once = sign(EXAMPLE, "ak123456", "secret123")

    assert sign(once, "ak123456", "secret123") == once
    assert verify(sign(once, "other123", "other"), "other")


@pytest.mark.parametrize(
    "changed",
    [
        {"topic": "U"},
        {"queueId": "2"},
        {"AccessKey": "ak654321"},
        {"added": "1"},
        {"Signature": EXAMPLE_SIGNATURE[:-2] + "E="},
        {"Signature": ""},
        {"Signature": "not ASCII: é"},
    ],
)
def test_a_changed_field_breaks_it(changed: dict[str, str]) -> None:
    signed = sign(EXAMPLE, "ak123456", "secret123")
    spoilt = replace(signed, fields=write_fields(signed.field_texts() | changed))

    assert not verify(spoilt, "secret123")


def test_a_changed_body_or_secret_breaks_it() -> None:
    signed = sign(EXAMPLE, "ak123456", "secret123")

    assert not verify(replace(signed, body=b"ho"), "secret123")
    assert not verify(signed, "secret124")


def test_an_unsigned_command_does_not_pass() -> None:
    assert not verify(EXAMPLE, "secret123")


def test_bare_numbers_are_signed_as_text() -> None:
    """Clients in C++ sign the text and send the number."""
    fields = Raw(
        b'{"topic":"T","queueId":1,"AccessKey":"ak123456","Signature":"%s"}'
        % EXAMPLE_SIGNATURE.encode()
    )

    assert verify(replace(EXAMPLE, fields=fields), "secret123")


def test_a_query_is_signed_so_that_every_broker_accepts_it() -> None:
    """4.9 brokers leave the flag out for everybody, later ones only for senders up to 4.9.3."""
    signed = sign(QUERY, "ak123456", "secret123")
    fields = signed.field_texts()
    without_flag = {name: text for name, text in fields.items() if name != "_UNIQUE_KEY_QUERY"}

    assert fields["_UNIQUE_KEY_QUERY"] == "true"
    assert signed.version == 399
    assert verify(signed, "secret123")
    assert verify(replace(signed, fields=write_fields(without_flag)), "secret123")


def test_a_query_signed_with_its_flag_passes_too() -> None:
    """As Java clients from 4.9.4 on do it."""
    fields = QUERY.field_texts()
    renamed = {"_UNIQUE_KEY_QUERZ" if "QUERY" in name else name: fields[name] for name in fields}
    signature = sign(replace(QUERY, fields=write_fields(renamed)), "ak123456", "secret123")
    signed = {"AccessKey": "ak123456", "Signature": signature.field_texts()["Signature"]}

    assert verify(replace(QUERY, fields=write_fields(fields | signed)), "secret123")


def test_what_a_real_client_signed_verifies() -> None:
    """The C++ client signs every request, without an account under the empty secret."""
    frames = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
    captured = [bytes.fromhex(frame["frame_hex"]) for frame in frames]
    commands = [decode_command(FrameReader().feed(data)[0]) for data in captured]
    signed = [command for command in commands if b'"Signature"' in bytes(command.fields)]

    assert len({command.code for command in signed}) >= 10
    for command in signed:
        assert verify(command, ""), command
        assert not verify(command, "secret")


@settings(max_examples=100, deadline=None)
@given(commands(), texts(min_size=1), texts(), st.none() | texts())
def test_whatever_is_signed_verifies(
    command: Command, account: str, secret: str, token: str | None
) -> None:
    signed = sign(command, account, secret, token)

    assert verify(signed, secret)
    assert not verify(signed, secret + "x")
