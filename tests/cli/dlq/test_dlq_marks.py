"""Dead letters that are dealt with, by a mark, a replay or a purge, are not replayed again."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from flintmq import EmbeddedBroker, Message
from support.cli.asking import Shell
from support.cli.dead_letters import bury
from support.client.support import wait_for

GROUP = "billing"


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        bury(running, GROUP, *(Message("orders", b"%d" % n, keys=[f"k-{n}"]) for n in range(4)))
        yield running


@pytest.fixture
def user(broker: EmbeddedBroker) -> Shell:
    return Shell(broker.namesrv)


def test_a_letter_says_why_it_died(user: Shell) -> None:
    (letter,) = user.facts("dlq", "list", GROUP, "--key", "k-2")

    assert letter["reason"] == "broken"
    assert "broken" in user.told("dlq", "list", GROUP)
    assert "reason: broken" in user.told("dlq", "show", GROUP, letter["message_id"])
    assert "broken" in user.told("dlq", "replay", GROUP, "--dry-run")


def test_what_a_replay_has_sent_is_not_sent_twice(broker: EmbeddedBroker, user: Shell) -> None:
    arguments = ("dlq", "replay", GROUP, "--to", "topic", "--yes", "--rate", "1000", "--json")
    before = len(broker.messages("orders"))

    one = user.run(*arguments, "--key", "k-1")
    rest = user.run(*arguments)
    none = user.run(*arguments)
    twice = user.run(*arguments, "--again")

    assert len(json.loads(one.stdout)["sent"]) == 1
    assert len(json.loads(rest.stdout)["sent"]) == 3
    assert "1 were replayed before" in rest.stderr
    assert (none.exit_code, none.stdout) == (1, "")
    assert "4 were replayed before: --again" in none.stderr
    assert "no dead letter is left to replay" in none.stderr
    assert len(json.loads(twice.stdout)["sent"]) == 4
    assert len(broker.messages("orders")) == before + 8


def test_a_message_that_died_again_is_another_dead_letter(
    broker: EmbeddedBroker, user: Shell
) -> None:
    arguments = ("dlq", "replay", GROUP, "--to", "topic", "--key", "k-0", "--yes", "--json")
    user.told(*arguments)
    bury(broker, GROUP, Message("orders", b"4"))  # it consumes the replayed one too
    wait_for(lambda: len(user.facts("dlq", "list", GROUP, "--key", "k-0")) == 2)

    sent = json.loads(user.told(*arguments))["sent"]

    assert len(sent) == 1


def test_a_replayed_letter_says_when(user: Shell) -> None:
    user.told("dlq", "replay", GROUP, "--to", "topic", "--key", "k-3", "--yes")
    (letter,) = user.facts("dlq", "list", GROUP, "--key", "k-3")
    (other,) = user.facts("dlq", "list", GROUP, "--key", "k-2")

    (shown,) = user.facts("dlq", "show", GROUP, letter["message_id"])
    (not_sent,) = user.facts("dlq", "show", GROUP, other["message_id"])

    assert shown["replayed_ms"] >= letter["store_ms"]
    assert not_sent["replayed_ms"] is None
    assert "replayed at" in user.told("dlq", "show", GROUP, letter["message_id"])


def test_a_mark_hides_what_lies_before_it(broker: EmbeddedBroker, user: Shell) -> None:
    told = user.told("dlq", "mark", GROUP, "--to", "3")
    left = user.facts("dlq", "list", GROUP)
    every = user.facts("dlq", "list", GROUP, "--all")
    counts = user.facts("dlq", "list")
    replayed = user.run("dlq", "replay", GROUP, "--dry-run", "--json")
    back = user.facts("dlq", "mark", GROUP, "--to", "start")

    assert "1 dead letters of billing are not marked" in told
    assert (len(left), len(every)) == (1, 4)
    assert sum(letter["marked"] for letter in every) == 3
    assert [(each["count"], each["open"]) for each in counts] == [(4, 1)]
    assert json.loads(replayed.stdout)["chosen"] == 1
    assert "3 are marked" in replayed.stderr
    assert "3 are marked" not in user.told("dlq", "list", GROUP)
    assert back["queues"][0]["marked_to"] == 0
    assert user.facts("group", "lag", GROUP)["lag"] == 0  # the group itself has not moved


def test_a_purge_deletes_them_all_when_it_is_confirmed(broker: EmbeddedBroker, user: Shell) -> None:
    user.told("dlq", "mark", GROUP, "--to", "end")
    refused = user.run("dlq", "purge", GROUP, input="n\n")
    dry = user.told("dlq", "purge", GROUP, "--dry-run")
    code, words = user.complaint("dlq", "purge", GROUP, "--json")
    still = len(user.facts("dlq", "list", GROUP, "--all"))
    done = user.run("dlq", "purge", GROUP, input="y\n")

    assert refused.exit_code == 1
    assert "4 dead letters, 0 of them not marked" in refused.stdout
    assert "4 dead letters" in dry
    assert (code, "--yes" in words) == (2, True)
    assert still == 4
    assert done.exit_code == 0
    assert user.facts("dlq", "list") == []
    assert user.told("dlq", "list", GROUP) == f"{GROUP} has no such dead letter\n"

    bury(broker, GROUP, Message("orders", b"next", keys=["k-9"]))
    wait_for(lambda: len(user.facts("dlq", "list", GROUP)) == 1)  # the old mark does not hide it


@pytest.mark.parametrize("command", ["list", "mark", "purge", "replay", "report"])
def test_a_group_that_nobody_knows_is_an_error(user: Shell, command: str) -> None:
    code, words = user.complaint("dlq", command, "nobody")

    assert code == 1
    assert "nobody" in words
