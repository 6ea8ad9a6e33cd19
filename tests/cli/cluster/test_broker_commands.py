"""`flintmq broker status` and `broker config` ask a running broker and change it only when told."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from support.cli.asking import Shell, shell

SETTING = "deleteWhen"


@pytest.fixture(scope="module")
def user() -> Iterator[Shell]:
    with shell(brokers=2) as opened:
        opened.fill("orders", 4)
        yield opened


def test_one_broker_or_all_are_shown(user: Shell) -> None:
    told = user.told("broker", "status", "broker-b")

    assert "broker-b" in told
    assert "broker-a" not in told
    assert "version" in told
    assert len(user.facts("broker", "status")) == 2
    assert user.complaint("broker", "status", "broker-x") == (
        2,
        "flintmq: broker 'broker-x': no such broker; known are broker-a, broker-b\n",
    )


def test_all_figures_are_those_of_rocketmq(user: Shell) -> None:
    (found,) = user.facts("broker", "status", "broker-a", "--all")

    assert "putTps" in found["figures"]
    assert "commitLogMaxOffset" in user.told("broker", "status", "broker-a", "--all")


def test_settings_are_shown_by_name(user: Shell) -> None:
    one = user.facts("broker", "config", "get", "broker-a", SETTING)
    every = user.facts("broker", "config", "get", "broker-a")
    code, words = user.complaint("broker", "config", "get", "broker-a", "deletewhe")

    assert one == {SETTING: every[SETTING]}
    assert every["brokerName"] == "broker-a"
    assert SETTING in user.told("broker", "config", "get", "broker-a")
    assert code == 1
    assert f"is it {SETTING}?" in words


def test_a_change_is_shown_first_and_asked_about(user: Shell) -> None:
    arguments = ("broker", "config", "set", "broker-a", f"{SETTING}=05")
    before = user.facts("broker", "config", "get", "broker-a", SETTING)[SETTING]

    refused = user.run(*arguments, input="n\n")
    dry = user.told(*arguments, "--dry-run")
    code, words = user.complaint(*arguments, "--json")
    still = user.facts("broker", "config", "get", "broker-a", SETTING)[SETTING]
    agreed = user.run(*arguments, input="y\n")
    after = user.facts("broker", "config", "get", "broker-a", SETTING)[SETTING]
    (other,) = user.facts("broker", "config", "get", "broker-b", SETTING).values()

    assert refused.exit_code == 1
    assert "05" in refused.stdout
    assert "05" in dry
    assert (code, "--yes" in words) == (2, True)
    assert still == before
    assert (agreed.exit_code, after, other) == (0, "05", before)


def test_programs_are_told_what_it_was_and_is(user: Shell) -> None:
    done = user.run("broker", "config", "set", "broker-b", f"{SETTING}=06", "--yes", "--json")

    (facts,) = json.loads(done.stdout)
    assert (done.exit_code, facts["setting"], facts["after"]) == (0, SETTING, "06")


@pytest.mark.parametrize(
    ("change", "code"),
    [("deleteWhen", 2), ("=3", 2), ("noSuchSetting=1", 1), ("brokerName=x", 1)],
)
def test_a_change_that_cannot_be_is_refused(user: Shell, change: str, code: int) -> None:
    done = user.run("broker", "config", "set", "broker-a", change, "--yes")

    assert done.exit_code == code
    assert done.stderr.startswith("flintmq: ")
