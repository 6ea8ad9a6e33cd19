"""`flintmq message trace` draws the life of a message; a member consumes one when told to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from flintmq import DeadLetter, EmbeddedBroker, Message, PushConsumer, ReceivedMessage, Retry
from support.cli.asking import Shell
from support.client.push_support import Ear
from support.client.support import wait_for


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def user(broker: EmbeddedBroker) -> Shell:
    return Shell(broker.namesrv)


def sent(broker: EmbeddedBroker, message: Message) -> str:
    with broker.producer("shop", trace=True) as producer:
        return producer.send(message).message_id


def life(user: Shell, message_id: str, *more: str) -> Any:
    done = user.run("message", "trace", message_id, *more, "--output", "json")
    return json.loads(done.stdout) if done.exit_code == 0 else {"consumptions": [], "stored": []}


def test_a_message_is_seen_from_its_send_to_its_last_consumption(
    broker: EmbeddedBroker, user: Shell
) -> None:
    ear = Ear(Retry(delay_level=1))
    message_id = sent(broker, Message("traced", b"12345", keys="k"))
    with broker.push_consumer("readers", ear, start_from="first", trace=True).subscribe("traced"):
        wait_for(lambda: len(ear.messages) == 1)
        broker.advance(2)
        wait_for(lambda: len(ear.messages) == 2)
    wait_for(lambda: len(life(user, message_id)["consumptions"]) == 2)

    found = life(user, message_id)
    (send,) = found["sends"]
    assert (send["group"], send["topic"], send["body_bytes"]) == ("shop", "traced", 5)
    assert [call["success"] for call in found["consumptions"]] == [False, True]
    assert [call["retry_times"] for call in found["consumptions"]] == [0, 1]
    assert [copy["as"] for copy in found["stored"]] == ["stored", "sent back"]

    drawn = user.told("message", "trace", message_id)
    assert f"{message_id} of traced" in drawn
    for part in ("5 bytes to", "sent back", "try 2", "consumed in"):
        assert part in drawn


def test_a_dead_letter_is_the_end_of_a_life(broker: EmbeddedBroker, user: Shell) -> None:
    def give_up(_messages: tuple[ReceivedMessage, ...]) -> None:
        raise DeadLetter("no order")

    message_id = sent(broker, Message("doomed", b"x"))
    consumer = broker.push_consumer("hopeless", give_up, start_from="first", trace=True)
    with consumer.subscribe("doomed"):
        wait_for(lambda: len(broker.messages("%DLQ%hopeless")) == 1)
    wait_for(lambda: len(life(user, message_id)["stored"]) == 2)

    assert [copy["as"] for copy in life(user, message_id)["stored"]] == ["stored", "dead letter"]


def test_without_a_trace_the_topic_says_where_it_is_stored(
    broker: EmbeddedBroker, user: Shell
) -> None:
    with broker.producer("shop") as producer:
        message_id = producer.send(Message("untraced", b"x")).message_id

    code, words = user.complaint("message", "trace", message_id)
    stored = life(user, message_id, "--topic", "untraced")

    assert code == 1
    assert "trace=True" in words
    assert "--topic" in words
    assert [copy["topic"] for copy in stored["stored"]] == ["untraced"]


def test_a_chosen_member_consumes_one_message_and_no_offset_moves(
    broker: EmbeddedBroker, user: Shell
) -> None:
    got: list[bytes] = []

    def listen(messages: tuple[ReceivedMessage, ...]) -> None:
        got.extend(message.body for message in messages)
        if len(got) == 2:
            raise ValueError("not again")

    with broker.producer("shop") as producer:
        receipt = producer.send(Message("directly", b"once more"))
    consumer: PushConsumer = broker.push_consumer("direct", listen, start_from="first")
    with consumer.subscribe("directly"):
        wait_for(lambda: len(got) == 1)
        arguments = ("message", "consume-directly", "direct", receipt.message_id)
        failed = user.run(*arguments, "--topic", "directly", "--client", consumer.client_id)
        done = user.run(
            "message", "consume-directly", "direct", receipt.offset_message_id, "-o", "json"
        )

    assert got == [b"once more"] * 3
    assert failed.exit_code == 1
    assert "CR_THROW_EXCEPTION" in failed.stdout
    assert "not again" in failed.stdout
    facts = json.loads(done.stdout)
    assert (done.exit_code, facts["outcome"]) == (0, "CR_SUCCESS")


def test_an_unknown_message_or_member_is_told_in_a_sentence(user: Shell) -> None:
    code, words = user.complaint("message", "consume-directly", "nobody", "C0", "-t", "untraced")

    assert code == 2
    assert "untraced has no such message" in words
