"""`flintmq cluster` shows every broker, and a script notices the one that does not answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flintmq import EmbeddedBroker
from flintmq.core.conversation import Call
from flintmq.net.blocking.blocking import BlockingChannels
from support.cli.asking import Shell, shell
from support.nameserver.servers import register_request, registration

PATIENCE_MS = 5_000


@pytest.fixture(scope="module")
def user() -> Iterator[Shell]:
    with shell(brokers=2) as opened:
        opened.fill("orders", 10)
        opened.told("group", "create", "billing")
        yield opened


def test_brokers_are_listed_with_their_addresses(user: Shell) -> None:
    listed = user.facts("cluster", "list")

    assert [(each["broker"], each["role"], each["broker_id"]) for each in listed] == [
        ("broker-a", "master", 0),
        ("broker-b", "master", 0),
    ]
    told = user.told("cluster", "list")
    assert all(each["address"] in told for each in listed)


def test_the_status_has_version_rates_disk_and_counts(user: Shell) -> None:
    first, second = user.facts("cluster", "status")

    assert first["version"].startswith("V")
    assert first["log_bytes"] > 0
    assert 0 <= first["disk_ratio"] <= 1
    assert first["topic_count"] > 0
    assert first["group_count"] > 0
    assert first["sent_today"] + second["sent_today"] == 10
    assert first["error"] is None
    told = user.told("cluster", "status")
    assert first["version"] in told
    assert "broker-b" in told


def test_a_broker_that_does_not_answer_is_shown_and_is_exit_code_3() -> None:
    with EmbeddedBroker() as broker, BlockingChannels() as channels:
        lost = register_request(registration("broker-x", address="127.0.0.1:1"))
        channels.make(Call(broker.namesrv, lost, PATIENCE_MS))
        done = Shell(broker.namesrv).run("cluster", "status")

    assert done.exit_code == 3
    assert "no answer" in done.stdout
    assert "broker-a" in done.stdout
    assert "1 of 2 brokers" in done.stderr
    assert "broker-x" in done.stderr
