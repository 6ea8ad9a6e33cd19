"""A message holds only what a broker can store as meant; a received one derives its ids."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from flintmq.errors import BodyTooLarge, InvalidName
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
    assert Message("orders", b"").all_properties() == {"WAIT": "true"}
    assert Message("orders", b"", wait_stored=False).all_properties() == {"WAIT": "false"}


def test_timers_become_properties() -> None:
    assert Message("t", b"", delay_ms=1500).all_properties()["TIMER_DELAY_MS"] == "1500"
    assert Message("t", b"", deliver_at_ms=99).all_properties()["TIMER_DELIVER_MS"] == "99"


def test_keys_may_be_given_as_one_text() -> None:
    assert Message("orders", b"", keys="o-1  o-2 ").keys == ("o-1", "o-2")
    assert Message("orders", b"", keys="o-1").keys == ("o-1",)


def test_an_empty_tag_is_no_tag() -> None:
    assert Message("orders", b"", tags="").tags is None


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
    "wrong",
    [
        {"delay_level": -1},
        {"flag": 2**31},
        {"flag": -(2**31) - 1},
        {"delay_level": 1, "delay_ms": 5},
        {"delay_ms": 0, "deliver_at_ms": 0},
    ],
)
def test_numbers_that_contradict_each_other_or_do_not_fit_are_refused(
    wrong: dict[str, int],
) -> None:
    with pytest.raises(ValueError, match=r"fits 32 bits|0 or more|give one of"):
        Message("orders", b"x", **wrong)  # type: ignore[arg-type]


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


def test_a_message_shows_itself_without_its_body() -> None:
    assert "secret" not in repr(Message("orders", b"secret"))
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
