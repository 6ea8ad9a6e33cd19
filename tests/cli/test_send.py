"""`flintmq send` stores a message and says where; `flintmq message` finds it again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flintmq import EmbeddedBroker
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.net.clock import wall_ms
from flintmq.store.files.store_config import StoreConfig
from support.cli.asking import Shell, shell
from support.net.support import PATIENCE_S


@pytest.fixture(scope="module")
def user() -> Iterator[Shell]:
    with shell() as opened:
        opened.told("topic", "create", "orders", "--queues", "2")
        yield opened


def test_a_message_is_sent_and_shown_by_both_its_ids(user: Shell) -> None:
    (receipt,) = user.lines(
        "send", "orders", "paid!", "--tag", "paid", "-k", "o-1", "-k", "o-2", "-p", "colour=red"
    )

    (by_id,) = user.facts("message", "show", receipt["message_id"], "--topic", "orders")
    (by_place,) = user.facts("message", "show", receipt["offset_message_id"])
    page = user.told("message", "show", receipt["offset_message_id"])

    assert by_id == by_place
    assert (by_id["body"], by_id["tags"], by_id["keys"]) == ("paid!", "paid", ["o-1", "o-2"])
    assert by_id["properties"]["colour"] == "red"
    assert by_id["queue_offset"] == receipt["queue_offset"]
    assert receipt["status"] == "SEND_OK"
    assert "paid!" in page


def test_the_id_that_send_prints_needs_its_topic(user: Shell) -> None:
    """Whatever a unique id looks like as a place: a broker's address that is none, or a record."""
    (receipt,) = user.lines("send", "orders", "x")

    code, words = user.complaint("message", "show", receipt["message_id"])

    assert code in (2, 3)
    assert "--topic TOPIC" in words


def test_a_delayed_message_is_told_with_the_time_of_its_delivery(user: Shell) -> None:
    before_ms = wall_ms()
    (receipt,) = user.lines("send", "orders", "x", "--delay-level", "18")
    told = user.told("send", "orders", "x", "--delay-level", "18")
    (plain,) = user.lines("send", "orders", "x")

    assert 0 <= receipt["deliver_at_ms"] - before_ms - 7_200_000 < PATIENCE_S * 1000
    assert " will be delivered to orders at about 20" in told
    assert plain["deliver_at_ms"] is None


def test_levels_are_those_of_the_broker() -> None:
    config = BrokerConfig(store=StoreConfig(delay_levels_ms=(1_000, 60_000)))
    with EmbeddedBroker(config=config) as broker:
        user = Shell(broker.namesrv)
        before_ms = wall_ms()
        (receipt,) = user.lines("send", "orders", "x", "--delay-level", "2")
        code, words = user.complaint("send", "orders", "x", "--delay-level", "3")

    assert 0 <= receipt["deliver_at_ms"] - before_ms - 60_000 < PATIENCE_S * 1000
    assert code == 2
    assert "levels go from 1 to 2" in words


def test_a_queue_may_be_chosen(user: Shell) -> None:
    (receipt,) = user.lines("send", "orders", "x", "--queue", "broker-a/1")
    told = user.told("send", "orders", "x", "--queue", "broker-a/1")

    assert (receipt["broker"], receipt["queue_id"]) == ("broker-a", 1)
    assert "orders/broker-a/1" in told


def test_standard_input_is_one_message_or_one_for_each_line(user: Shell) -> None:
    user.told("topic", "create", "piped", "--queues", "1")

    user.told("send", "piped", "-", input="two\nlines")
    receipts = user.lines("send", "piped", "-", "--lines", input="a\n\nb\r\n")

    bodies = [
        message["body"] for message in user.facts("message", "find", "piped", "--since", "1h")
    ]
    assert len(receipts) == 2
    assert bodies == ["two\nlines", "a", "b"]


def test_a_topic_that_is_not_there_is_made_by_its_first_message(user: Shell) -> None:
    user.told("send", "brand-new", "hello")

    (found,) = user.facts("message", "find", "brand-new", "--since", "1h")
    assert found["body"] == "hello"


def test_messages_are_found_by_key_tag_and_condition(user: Shell) -> None:
    user.fill("many", 6)

    by_key = user.facts("message", "find", "many", "--key", "k-3")
    by_tag = user.facts("message", "find", "many", "--since", "1h", "--tag", "even")
    by_sql = user.facts("message", "find", "many", "--since", "1h", "--sql", "number > 3")
    few = user.facts("message", "find", "many", "--since", "1h", "--count", "2")
    table = user.told("message", "find", "many", "--key", "k-3")

    assert [message["body"] for message in by_key] == ["3"]
    assert [message["body"] for message in by_tag] == ["0", "2", "4"]
    assert [message["body"] for message in by_sql] == ["4", "5"]
    assert [message["body"] for message in few] == ["0", "1"]
    assert "k-3" in table


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("send", "a b", "x"), 2, "characters other than"),
        (("send", "orders", "x", "-p", "novalue"), 2, "NAME=VALUE"),
        (("send", "orders", "x", "-p", "TAGS=x"), 2, "belongs to the system"),
        (("send", "orders", "x", "--queue", "1"), 2, "BROKER/ID"),
        (("send", "orders", "x", "--lines"), 2, "give - for BODY"),
        (("send", "orders", "x", "--delay-level", "1", "--delay-ms", "5"), 2, "--delay-ms"),
        (("send", "orders", "x", "--delay-level", "99"), 2, "levels go from 1 to 18: 1 is 1s"),
        (("message", "find", "orders"), 2, "give --key"),
        (("message", "find", "orders", "--key", "k", "--tag", "t"), 2, "without --tag"),
        (("message", "find", "orders", "--key", "nothing"), 1, "no such message"),
        (("message", "find", "orders", "--since", "1h", "--sql", "a >"), 2, "column"),
        (("message", "show", "xyz"), 2, "32 or 56 hex digits"),
        (("message", "show", "0A" * 16), 2, "is a unique id: add --topic TOPIC"),
        (("message", "show", "0A" * 16, "-t", "orders"), 1, "no message"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(
    user: Shell, arguments: tuple[str, ...], code: int, words: str
) -> None:
    found = user.complaint(*arguments)

    assert found[0] == code, found
    assert words in found[1]


def test_a_message_that_is_gone_is_said_so(user: Shell) -> None:
    (receipt,) = user.lines("send", "orders", "x")
    beyond = receipt["offset_message_id"][:-4] + "FFFF"

    code, words = user.complaint("message", "show", beyond)

    assert code == 1
    assert "any more" in words


def test_a_body_that_is_no_text_is_shown_all_the_same(user: Shell) -> None:
    from flintmq import Message, Producer

    with Producer("shop", namesrv=user.namesrv) as producer:
        receipt = producer.send(Message("orders", b"\xff\x00"))

    (found,) = user.facts("message", "show", receipt.offset_message_id)
    assert found["body_base64"] == "/wA="
