"""A format string prints what its codes say and nothing else, or is refused."""

from __future__ import annotations

import pytest

from flintmq import EmbeddedBroker, Message, ReceivedMessage
from flintmq.cli.shared.message_format import CODES, Template
from flintmq.errors import InvalidSetting
from support.client.push_support import filled


@pytest.fixture(scope="module")
def message() -> ReceivedMessage:
    with EmbeddedBroker() as broker:
        filled(broker, "orders", [], 1)
        with broker.producer("shop") as producer:
            producer.send(
                Message(
                    "orders", b"h\xc3\xa9\xff", tags="paid", keys=["a", "b"], properties={"n": "1"}
                )
            )
        return broker.messages("orders")[0]


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("%s", b"h\xc3\xa9\xff"),
        ("%S %K", b"4 3"),
        ("%t/%b/%p/%o", b"orders/broker-a/0/0"),
        ("[%k] %g", b"[a b] paid"),
        (r"a\tb\n", b"a\tb\n"),
        (r"\x41\\n%%", rb"A\n%"),
        (r"\xff\x00é", b"\xff\x00\xc3\xa9"),
        ("{body} %r", b"{body} 0"),
        ("", b""),
    ],
)
def test_codes_and_escapes_are_replaced(
    message: ReceivedMessage, template: str, expected: bytes
) -> None:
    assert Template(template).fill(message) == expected


def test_every_code_gives_something(message: ReceivedMessage) -> None:
    filled_in = {code: Template(f"%{code}").fill(message).decode() for code in CODES if code != "s"}

    assert all(filled_in.values())
    assert filled_in["T"] == str(message.store_ms)
    assert filled_in["i"] == message.message_id
    assert "n=1" in filled_in["h"]


def test_a_terminal_gets_text_in_which_everything_can_be_seen(message: ReceivedMessage) -> None:
    assert Template(r"%s|\xff\n").fill_for_people(message) == "hé\\xff|\\xff\n"


def test_a_format_without_a_code_prints_nothing_of_a_message() -> None:
    assert Template("%k").has_codes
    assert not Template(r"orders\n").has_codes


@pytest.mark.parametrize("template", ["%", "%z", "a\\", r"\q", r"\x4"])
def test_what_is_not_understood_is_refused(template: str) -> None:
    with pytest.raises(InvalidSetting, match="format"):
        Template(template)
