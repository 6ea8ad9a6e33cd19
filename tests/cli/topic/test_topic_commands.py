"""`flintmq topic` makes, shows, changes and deletes topics, and says plainly what it cannot."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.cli.asking import Shell, shell


@pytest.fixture(scope="module")
def user() -> Iterator[Shell]:
    with shell(brokers=2) as opened:
        yield opened


def test_a_topic_is_made_listed_and_shown(user: Shell) -> None:
    user.told("topic", "create", "orders", "--queues", "4")

    listed = user.facts("topic", "list")
    shown = user.facts("topic", "show", "orders")
    table = user.told("topic", "show", "orders")

    assert {"topic": "orders", "kind": "normal"} in listed
    assert [(one["broker"], one["read_queues"], one["perm"]) for one in shown["brokers"]] == [
        ("broker-a", 4, "RW-"),
        ("broker-b", 4, "RW-"),
    ]
    assert "broker-b" in table


def test_a_topic_has_the_type_it_was_given(user: Shell) -> None:
    user.told("topic", "create", "steps", "--type", "fifo")

    [first, _] = user.facts("topic", "show", "steps")["brokers"]
    assert first["attributes"] == {"message.type": "FIFO"}


def test_only_topics_of_people_are_listed_unless_all_are_asked_for(user: Shell) -> None:
    user.told("topic", "create", "mine")

    assert {topic["kind"] for topic in user.facts("topic", "list")} == {"normal"}
    assert "TBW102" in user.told("topic", "list", "--all")
    assert "TBW102" not in user.told("topic", "list")


def test_making_it_twice_changes_nothing_and_otherwise_is_refused(user: Shell) -> None:
    user.told("topic", "create", "twice", "--queues", "2")

    user.told("topic", "create", "twice", "--queues", "2")
    code, words = user.complaint("topic", "create", "twice", "--queues", "3")

    assert code == 2
    assert "update it instead" in words


def test_a_change_keeps_the_rest(user: Shell) -> None:
    user.told("topic", "create", "changed", "--queues", "2")

    user.told("topic", "update", "changed", "--perm", "R", "--broker", "broker-a")
    user.told("topic", "update", "changed", "--write-queues", "1")
    shown = user.facts("topic", "show", "changed")

    assert [(b["read_queues"], b["write_queues"], b["perm"]) for b in shown["brokers"]] == [
        (2, 1, "R--"),
        (2, 1, "RW-"),
    ]


def test_its_messages_are_counted(user: Shell) -> None:
    user.fill("counted", 5)

    stats = user.facts("topic", "stats", "counted")
    table = user.told("topic", "stats", "counted")

    assert stats["messages"] == 5
    assert {queue["broker"]: queue["max_offset"] for queue in stats["queues"]} == {
        "broker-a": 3,
        "broker-b": 2,
    }
    assert "5 messages in 2 queues" in table


def test_it_is_deleted_when_one_is_sure(user: Shell) -> None:
    user.told("topic", "create", "doomed")

    spared = user.run("topic", "delete", "doomed", input="n\n")
    assert "doomed" in user.told("topic", "list")
    gone = user.told("topic", "delete", "doomed", "--yes")

    assert spared.exit_code == 1
    assert "broker-a, broker-b" in gone
    assert "doomed" not in user.told("topic", "list")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("show", "nothing"), 1, "topic list shows"),
        (("stats", "nothing"), 1, "no route to topic 'nothing'"),
        (("delete", "nothing", "--yes"), 1, "no route"),
        (("create", "a b"), 2, "characters other than"),
        (("create", "x", "--queues", "0"), 2, "1 to 65536 queues"),
        (("create", "x", "--broker", "broker-x"), 2, "known are broker-a, broker-b"),
        (("create", "x", "--perm", "Q"), 2, "give RW, R or W"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(
    user: Shell, arguments: tuple[str, ...], code: int, words: str
) -> None:
    assert user.complaint("topic", *arguments)[0] == code
    assert words in user.complaint("topic", *arguments)[1]


def test_a_name_server_that_is_not_there_is_told_with_what_to_do() -> None:
    code, words = Shell("127.0.0.1:1").complaint("topic", "list")

    assert code == 3
    assert "127.0.0.1:1" in words
    assert "NAMESRV_ADDR" in words


def test_the_option_beats_the_environment(user: Shell) -> None:
    code, words = user.complaint("topic", "list", "--namesrv", "127.0.0.1:1")
    told = Shell("127.0.0.1:1").told("topic", "list", "-n", f"127.0.0.1:1;{user.namesrv}")

    assert (code, "127.0.0.1:1" in words) == (3, True)
    assert "topic" in told


def test_an_address_that_is_none_makes_no_sense() -> None:
    assert Shell("http://x").complaint("topic", "list")[0] == 2


def test_half_an_account_makes_no_sense(user: Shell) -> None:
    code, words = user.complaint("topic", "list", "--access-key", "me")

    assert code == 2
    assert "go together" in words


@pytest.mark.parametrize("command", ["topic", "group", "message", "send", "tail"])
def test_the_help_tells_what_the_exit_codes_mean(user: Shell, command: str) -> None:
    told = " ".join(user.told(command, "--help").split())

    assert "Exit codes: 0 done; 1 failed or not found;" in told
    assert "3 server unreachable" in told
