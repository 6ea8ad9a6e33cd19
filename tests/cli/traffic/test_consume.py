"""`flintmq consume` is a member of a group: what it printed is committed, or nothing is."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator

import pytest

from flintmq import EmbeddedBroker
from support.cli.asking import Shell
from support.cli.serving import COMMAND, environment


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        Shell(running.namesrv).fill("orders", 10, queues=2)
        Shell(running.namesrv).fill("refunds", 3)
        yield running


@pytest.fixture
def user(broker: EmbeddedBroker) -> Shell:
    return Shell(broker.namesrv)


def test_what_was_printed_is_committed_and_no_more(broker: EmbeddedBroker, user: Shell) -> None:
    arguments = ("consume", "orders", "--group", "billing", "--from", "start")

    first = user.lines(*arguments, "--count", "4")
    behind = broker.lag("billing", "orders")
    rest = user.lines(*arguments, "--idle", "1")

    assert (len(first), behind) == (4, 6)
    bodies = [message["body"] for message in first + rest]
    assert sorted(bodies) == [str(number) for number in range(10)]
    assert broker.lag("billing", "orders") == 0


def test_without_a_commit_the_group_stays_where_it_is(user: Shell) -> None:
    arguments = ("consume", "orders", "-g", "audit", "--from", "start", "--no-commit")

    once = user.run(*arguments, "--count", "10", "--format", r"%s\n")
    again = user.run(*arguments, "--count", "10", "--format", r"%s\n")

    assert once.exit_code == 0
    assert sorted(once.stdout.split()) == sorted(again.stdout.split())
    assert "nothing is committed" in once.stderr
    committed = [each["consumer_offset"] for each in user.facts("group", "lag", "audit")["queues"]]
    assert set(committed) <= {0}


def test_several_topics_and_tags(user: Shell) -> None:
    found = user.lines(
        *("consume", "orders", "refunds", "-g", "both", "--from", "1h", "--tag", "even"),
        *("--count", "7"),
    )

    assert {message["topic"] for message in found} == {"orders", "refunds"}
    assert {message["tags"] for message in found} == {"even"}


def test_an_offset_is_no_place_to_start_for_all_queues(user: Shell) -> None:
    code, words = user.complaint("consume", "orders", "-g", "billing", "--from", "3")

    assert code == 2
    assert "start, end or a time" in words


def test_a_signal_ends_it_with_a_commit(broker: EmbeddedBroker) -> None:
    arguments = ("consume", "orders", "--group", "signalled", "--from", "start", "-f", r"%s\n")
    process = subprocess.Popen(
        [COMMAND, *arguments, "-n", broker.namesrv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(PYTHONUNBUFFERED="1"),
    )
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(10)]
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)

    assert process.returncode == 0, errors
    assert len(set(lines)) == 10
    assert broker.lag("signalled", "orders") == 0
