"""A message holds only what a broker can store as meant; a received one derives its ids."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from flintmq.errors import BodyTooLarge, InvalidMessage, InvalidName
from flintmq.model import message as message_module
from flintmq.model.host import Host
from flintmq.model.message import Message, ReceivedMessage
from flintmq.model.queue import LogOffset, QueueOffset

STORE_HOST = Host.parse("10.0.0.1:10911")


def received(properties: dict[str, str]) -> ReceivedMessage:
    return ReceivedMessage(
        topic="orders",
        broker="broker-a",
        queue_id=2,
        queue_offset=QueueOffset(7),
        log_offset=LogOffset(1024),
        body=b"hi",
        properties=properties,
        flag=0,
        sys_flag=0,
        born_ms=1,
        born_host=Host.parse("10.0.0.2:40000"),
        store_ms=2,
        store_host=STORE_HOST,
        reconsume_times=0,
        prepared_offset=LogOffset(0),
        stored_bytes=104,
    )


def test_its_fields_become_properties() -> None:
    message = Message(
        "orders",
        b"{}",
        tags="paid",
        keys=["o-1", "o-2"],
        properties={"region": "eu"},
        delay_level=3,
    )

    assert message.all_properties() == {
        "region": "eu",
        "TAGS": "paid",
        "KEYS": "o-1 o-2",
        "DELAY": "3",
        "WAIT": "true",
    }


def test_a_bare_message_only_asks_to_wait_for_storing() -> None:
    assert Message("orders", b"x").all_properties() == {"WAIT": "true"}
    assert Message("orders", b"x", wait_stored=False).all_properties() == {"WAIT": "false"}


def test_timers_become_properties() -> None:
    assert Message("t", b"x", delay_ms=1500).all_properties()["TIMER_DELAY_MS"] == "1500"
    assert Message("t", b"x", deliver_at_ms=99).all_properties()["TIMER_DELIVER_MS"] == "99"


def test_keys_may_be_given_as_one_text() -> None:
    assert Message("orders", b"x", keys="o-1  o-2 ").keys == ("o-1", "o-2")
    assert Message("orders", b"x", keys="o-1").keys == ("o-1",)


def test_an_empty_tag_is_no_tag() -> None:
    assert Message("orders", b"x", tags="").tags is None


def test_any_bytes_are_kept_as_bytes() -> None:
    body: Any = bytearray(b"abc")
    message = Message("orders", body)
    body[0] = 0

    assert message.body == b"abc"


@pytest.mark.parametrize(
    "wrong",
    [
        {"topic": ""},
        {"topic": " "},
        {"topic": "a/b"},
        {"topic": "x" * 128},
        {"topic": "SCHEDULE_TOPIC_XXXX"},
        {"properties": {"": "x"}},
        {"properties": {"  ": "x"}},
        {"properties": {"TAGS": "x"}},
        {"properties": {"UNIQ_KEY": "x"}},
        {"properties": {"a": ""}},
        {"properties": {"a": " \t"}},
        {"properties": {"a\x01b": "x"}},
        {"properties": {"a\x02b": "x"}},
        {"properties": {"a": "x\x02"}},
        {"tags": "a\x02b"},
        {"keys": ["a b"]},
        {"keys": [""]},
        {"keys": "a\x02b"},
    ],
)
def test_what_no_broker_could_store_as_meant_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidName):
        Message(**({"topic": "orders", "body": b"x"} | wrong))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"delay_level": -1}, "delay_level '-1': .* from 0 to"),
        ({"delay_level": "3"}, "delay_level '3': is of type str; give a whole number"),
        ({"delay_level": True}, "delay_level 'True'"),
        ({"delay_ms": -5}, "delay_ms '-5': .* from 0 to"),
        ({"delay_ms": 1.5}, "delay_ms '1.5': is of type float"),
        ({"deliver_at_ms": -1}, "deliver_at_ms"),
        ({"flag": 2**31}, "flag '2147483648': .* to 2147483647"),
        ({"flag": -(2**31) - 1}, "flag"),
        ({"flag": None}, "flag 'None'"),
        ({"delay_level": 1, "delay_ms": 5}, "give one of"),
        ({"delay_ms": 0, "deliver_at_ms": 0}, "give one of"),
        ({"topic": 3}, "topic '3': is of type int; give the name of a topic"),
        ({"topic": ["orders"]}, "topic .* list"),
        ({"body": "text"}, r"body 'text': is of type str; write it as bytes with \.encode\(\)"),
        ({"body": {"a": 1}}, "body .* dict; give bytes; Message.json makes"),
        ({"body": None}, "body 'None'"),
        ({"body": b""}, "body '': is empty"),
        ({"body": bytearray()}, "is empty"),
        ({"tags": 3}, "tags '3': is of type int; give text"),
        ({"tags": "\ud800"}, "tags .* no Unicode text"),
        ({"keys": 3}, "keys '3': is of type int; give a text, or several in a list"),
        ({"keys": b"k"}, "keys .* bytes"),
        ({"keys": [1]}, "keys '1': is of type int; give text"),
        ({"properties": {"a": 1}}, r"properties '1': is of type int; the value of 'a' is text"),
        ({"properties": {1: "a"}}, "the name of a property is text"),
        ({"properties": [("a", "b")]}, "properties .* give a dict"),
        ({"properties": {"a": "\ud800"}}, "no Unicode text"),
        ({"properties": {"a": "x" * 40_000}}, "take 40003 bytes and a record has room for 32767"),
        ({"properties": {"a": "é" * 20_000}}, "take 40003 bytes"),
    ],
)
def test_a_wrong_value_is_answered_by_a_sentence_at_construction(
    wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidMessage, match=said) as raised:
        Message(**({"topic": "orders", "body": b"x"} | wrong))

    assert raised.value.setting in {*wrong, "delay_level"}
    assert isinstance(raised.value, ValueError)


def test_a_value_may_hold_the_character_between_name_and_value() -> None:
    assert Message("orders", b"x", properties={"a": "1\x012"}).properties == {"a": "1\x012"}


def test_a_body_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_module, "BODY_BYTES_MAX", 3)
    Message("orders", b"abc")

    with pytest.raises(BodyTooLarge):
        Message("orders", b"abcd")


def test_a_message_does_not_change() -> None:
    properties = {"a": "1"}
    message = Message("orders", b"x", properties=properties)
    properties["a"] = "2"

    assert message.properties == {"a": "1"}
    with pytest.raises(FrozenInstanceError):
        message.topic = "other"  # type: ignore[misc]


def test_a_changed_copy_is_checked_again() -> None:
    message = Message("orders", b"x", tags="a", keys=["k"], properties={"p": "1"})

    assert replace(message, topic="bills") == Message(
        "bills", b"x", tags="a", keys="k", properties={"p": "1"}
    )
    with pytest.raises(InvalidName):
        replace(message, topic="a b")


def test_messages_survive_pickling_and_can_be_set_members() -> None:
    sent = Message("orders", b"x", keys=["a"], properties={"p": "1"})
    got = received({"TAGS": "a"})

    assert pickle.loads(pickle.dumps(sent)) == sent
    assert pickle.loads(pickle.dumps(got)) == got
    assert len({sent, sent}) == len({got, got}) == 1


def test_a_message_shows_what_was_given_and_the_start_of_its_body() -> None:
    assert repr(Message("orders", b"o-1")) == "Message('orders', b'o-1')"
    long = Message("orders", b"x" * 100, tags="paid", keys="o-1", delay_level=3)
    assert repr(long) == (
        f"Message('orders', b'{'x' * 40}'… (100 bytes), tags='paid', keys=('o-1',), delay_level=3)"
    )
    assert repr(received({})) == (
        "<ReceivedMessage orders/broker-a/2 at 7: 0A00000100002A9F0000000000000400, 2 bytes>"
    )


def test_a_received_message_goes_by_its_senders_id_if_it_has_one() -> None:
    assert received({"UNIQ_KEY": "ABC"}).message_id == "ABC"
    assert received({"UNIQ_KEY": "ABC"}).offset_message_id == "0A00000100002A9F0000000000000400"
    assert received({}).message_id == "0A00000100002A9F0000000000000400"


def test_tags_and_keys_come_from_properties() -> None:
    message = received({"TAGS": "paid", "KEYS": " o-1  o-2"})

    assert (message.tags, message.keys) == ("paid", ("o-1", "o-2"))
    assert (received({}).tags, received({}).keys) == (None, ())


def test_only_a_message_of_a_transaction_has_its_id() -> None:
    assert received({"TRAN_MSG": "true", "UNIQ_KEY": "ABC"}).transaction_id == "ABC"
    assert received({"TRAN_MSG": "false", "UNIQ_KEY": "ABC"}).transaction_id is None
    assert received({"UNIQ_KEY": "ABC"}).transaction_id is None


@dataclass(frozen=True)
class Order:
    """What a program keeps in a body."""

    number: int
    at: datetime | None = None


def body_of(value: bytes) -> ReceivedMessage:
    return received({"UNIQ_KEY": "ABC"})._replace(body=value)


def test_values_travel_as_json() -> None:
    plain = Message.json("orders", {"number": 7, "name": "Zoë"}, tags="paid", keys="o-7")
    typed = Message.json("orders", Order(7, datetime(2026, 11, 17, tzinfo=UTC)))

    assert plain == Message("orders", '{"number":7,"name":"Zoë"}'.encode(), tags="paid", keys="o-7")
    assert typed.body == b'{"number":7,"at":"2026-11-17T00:00:00Z"}'
    assert body_of(plain.body).json() == {"number": 7, "name": "Zoë"}
    assert body_of(typed.body).json(Order) == Order(7, datetime(2026, 11, 17, tzinfo=UTC))
    assert body_of(b"[1, 2]").json(list[int]) == [1, 2]


def test_a_value_that_is_no_json_is_refused() -> None:
    with pytest.raises(InvalidMessage, match=r"value .* cannot be written as JSON"):
        Message.json("orders", object())


def test_a_body_that_is_not_what_it_is_read_as_is_named() -> None:
    place = r"body of ABC \(orders/broker-a/2 at 7\)"
    with pytest.raises(InvalidMessage, match=f"{place} '{{': is no JSON: "):
        body_of(b"{").json()
    with pytest.raises(InvalidMessage, match=f"{place} .* is no JSON of Order: .*number"):
        body_of(b"{}").json(Order)
    with pytest.raises(InvalidMessage, match="is no JSON"):
        body_of(b'"\xff"').json()
    with pytest.raises(InvalidMessage, match=f"{place} .* is no UTF-8 text"):
        _ = body_of(b"\xff").text


def test_a_body_is_text() -> None:
    assert body_of("Zoë".encode()).text == "Zoë"
