"""`flintmq dlq` shows what was given up, and sends again what was chosen, as fast as allowed."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from flintmq import EmbeddedBroker, Message
from support.cli.asking import Shell
from support.cli.dead_letters import bury

GROUP = "billing"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        orders = [
            Message("orders", b"%d" % n, keys=[f"k-{n}"], tags="even" if n % 2 == 0 else "odd")
            for n in range(4)
        ]
        bury(running, GROUP, *orders)
        yield running


@pytest.fixture
def user(broker: EmbeddedBroker) -> Shell:
    return Shell(broker.namesrv)


def bodies(letters: list[dict[str, str]]) -> set[str]:
    return {letter["body"] for letter in letters}


def test_who_has_dead_letters_is_listed(user: Shell) -> None:
    (found,) = user.facts("dlq", "list")

    assert (found["group"], found["count"]) == (GROUP, 4)
    assert found["last_ms"] > 0
    assert GROUP in user.told("dlq", "list")


def test_dead_letters_are_listed_by_what_is_asked_for(user: Shell) -> None:
    assert bodies(user.facts("dlq", "list", GROUP)) == {"0", "1", "2", "3"}
    assert bodies(user.facts("dlq", "list", GROUP, "--tag", "even")) == {"0", "2"}
    assert bodies(user.facts("dlq", "list", GROUP, "--key", "k-3")) == {"3"}
    assert len(user.facts("dlq", "list", GROUP, "--count", "2")) == 2
    assert user.facts("dlq", "list", GROUP, "--until", "1h") == []
    code, words = user.complaint("dlq", "list", "nobody")
    assert (code, GROUP in words) == (1, True)  # what there is


def test_one_is_shown_with_its_origin(user: Shell) -> None:
    (letter,) = user.facts("dlq", "list", GROUP, "--key", "k-2")

    (by_first_id,) = user.facts("dlq", "show", GROUP, letter["origin_message_id"])
    page = user.told("dlq", "show", GROUP, letter["message_id"])

    assert by_first_id == {**letter, "replayed_ms": None}
    assert letter["origin_topic"] == "orders"
    assert "of orders, tried" in page
    code, words = user.complaint("dlq", "show", GROUP, "nothing")
    assert code == 1
    assert "dlq list" in words


def test_a_replay_shows_first_and_asks(user: Shell, broker: EmbeddedBroker) -> None:
    before = len(broker.messages("orders"))
    refused = user.run("dlq", "replay", GROUP, "--to", "topic", input="n\n")
    dry = user.told("dlq", "replay", GROUP, "--to", "topic", "--dry-run")
    code, words = user.complaint("dlq", "replay", GROUP, "--output", "json")
    nothing_sent = len(broker.messages("orders")) - before
    agreed = user.run("dlq", "replay", GROUP, "--to", "topic", "--key", "k-1", input="y\n")

    assert refused.exit_code == 1
    assert "4 dead letters to the topic, 10 a second" in refused.stdout
    assert "4 dead letters" in dry
    assert (code, nothing_sent) == (2, 0)
    assert "--yes" in words
    assert agreed.exit_code == 0
    assert "1 dead letters are sent again" in agreed.stdout
    assert broker.messages("orders")[-1].body == b"1"
    assert user.complaint("dlq", "replay", GROUP, "--key", "nothing", "--yes")[0] == 1


def test_a_replay_goes_no_faster_than_it_may(user: Shell, broker: EmbeddedBroker) -> None:
    start_s = time.monotonic()
    sent = user.facts("dlq", "replay", GROUP, "--again", "--yes", "--rate", "20", "--count", "3")
    spent_s = time.monotonic() - start_s

    assert [each["topic"] for each in sent["sent"]] == [f"%RETRY%{GROUP}"] * 3
    assert spent_s >= 2 / 20
    oldest = [message.body for message in broker.messages(f"%DLQ%{GROUP}")][:3]
    assert [message.body for message in broker.messages(f"%RETRY%{GROUP}")] == oldest


def test_a_replay_that_fails_says_how_far_it_came(broker: EmbeddedBroker) -> None:
    from flintmq.protocol.codes import RequestCode

    user = Shell(broker.namesrv)
    broker.drop_next(RequestCode.SEND_MESSAGE_V2, lost="connection")
    code, words = user.complaint("dlq", "replay", GROUP, "--again", "--yes", "--to", "topic")

    assert code == 3
    assert "0 of 4 are sent; the next is" in words
