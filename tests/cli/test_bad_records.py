"""Commands that read messages go on behind one that cannot be decoded, and show it as stored."""

from __future__ import annotations

import json
import subprocess
from base64 import b64encode
from collections.abc import Iterator

import pytest

from flintmq import PushConsumer
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.model.group import dead_letter_topic
from support.cli.asking import Shell
from support.cli.serving import COMMAND, environment
from support.client.push_support import Ear
from support.client.support import wait_for
from support.poison import POISONS, poison, send_raw

KINDS = list(POISONS)
GROUP = "poisoned"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as servers:
        yield servers


@pytest.fixture(scope="module")
def user(broker: EmbeddedBroker) -> Shell:
    """One queue: two messages, every kind of poison, two more; all poison is dead in a group."""
    opened = Shell(broker.namesrv)
    opened.fill("orders", 2)
    for kind in KINDS:
        poison(broker.brokers[0], "orders", kind)
    for body in ("last", "least"):
        opened.told("send", "orders", body)
    ear = Ear()
    with PushConsumer(GROUP, ear, namesrv=broker.namesrv, start_from="first").subscribe("orders"):
        ear.wait_for(4)
        wait_for(lambda: len(broker.messages(dead_letter_topic(GROUP))) == len(KINDS))
    return opened


def test_tail_prints_everything_and_tells_of_what_it_cannot_decode(user: Shell) -> None:
    done = user.run("tail", "orders", "--from", "start", "--no-follow", "--output", "json")
    messages = [json.loads(line) for line in done.stdout.splitlines()]

    assert done.exit_code == 0
    assert [message["queue_offset"] for message in messages] == list(range(4 + len(KINDS)))
    assert [messages[n].get("body") for n in (0, 1, -2, -1)] == ["0", "1", "last", "least"]
    for number, kind in enumerate(KINDS, 2):
        body, sys_flag = POISONS[kind]
        assert messages[number]["sys_flag"] == sys_flag
        assert messages[number].get("body") == body.decode() if body.isascii() else True
        assert messages[number].get("body_base64") in (None, b64encode(body).decode())
        assert f"orders/broker-a/0 at {number} cannot be decoded" in done.stderr
    assert done.stderr.count("it is shown as it is stored") == len(KINDS)


def test_tail_follows_behind_a_bad_message(user: Shell, broker: EmbeddedBroker) -> None:
    user.fill("live", 1)
    live = [str(COMMAND), "tail", "live", "--namesrv", user.namesrv]
    with subprocess.Popen(
        [*live, "--from=start", "--output=json", "--count=3"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            json.loads(process.stdout.readline())  # it reads now: the rest comes live
            poison(broker.brokers[0], "live", KINDS[0])
            bad = json.loads(process.stdout.readline())
            user.told("send", "live", "behind")
            behind = json.loads(process.stdout.readline())
            code = process.wait(timeout=60)
            errors = process.stderr.read()
        finally:
            process.kill()

    assert (bad["queue_offset"], bad["sys_flag"]) == (1, 1)
    assert behind["body"] == "behind"
    assert code == 0
    assert "live/broker-a/0 at 1 cannot be decoded" in errors


def test_a_bad_message_is_found_and_shown_by_id_key_and_time(
    user: Shell, broker: EmbeddedBroker
) -> None:
    user.fill("found", 1)
    stored = send_raw(
        broker.brokers[0],
        "found",
        b"never packed",
        1,
        properties="KEYS\x01lost\x02UNIQ_KEY\x01u1\x02",
    )
    wait_for(lambda: user.run("message", "find", "found", "--key", "lost").exit_code == 0)

    shown = user.run("message", "show", stored.msg_id, "--output", "json")
    by_key = user.facts("message", "find", "found", "--key", "lost")
    by_id = user.facts("message", "find", "found", "--id", "u1")
    by_time = user.facts("message", "find", "found", "--since", "1h")
    page = user.told("message", "show", stored.msg_id)

    assert json.loads(shown.stdout)[0]["body"] == "never packed"
    assert "cannot be decoded" in shown.stderr
    assert [message["body"] for message in by_key] == ["never packed"]
    assert [message["body"] for message in by_id] == ["never packed"]
    assert [message["body"] for message in by_time] == ["0", "never packed"]
    assert "never packed" in page


def test_dead_letters_that_cannot_be_decoded_are_listed_shown_and_replayed_as_stored(
    user: Shell, broker: EmbeddedBroker
) -> None:
    listed = user.facts("dlq", "list", GROUP)
    tailed = user.lines("tail", dead_letter_topic(GROUP), "--from", "start", "--no-follow")
    shown = user.facts("dlq", "show", GROUP, listed[0]["offset_message_id"])

    assert [letter["origin_topic"] for letter in listed] == ["orders"] * len(KINDS)
    assert len(tailed) == len(KINDS)
    assert json.dumps(shown).count("orders") >= 1

    before = len(broker.messages("orders"))
    user.facts("dlq", "replay", GROUP, "--to", "topic", "--yes", "--rate", "1000")
    again = broker.messages("orders")[before:]
    assert sorted((m.body, m.sys_flag) for m in again) == sorted(map(tuple, POISONS.values()))
