"""Dead letters are shown by their reasons, beside their originals, and replayed at a rate."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from flintmq import Message, ReceivedMessage
from flintmq.embedded.broker import EmbeddedBroker
from support.cli.dead_letters import bury
from support.console.browsing import PATIENCE_S, Tags, Visitor, visiting


@pytest.fixture
def visitor(broker: EmbeddedBroker, tmp_path: Path) -> Iterator[Visitor]:
    with visiting(broker.namesrv, audit=tmp_path / "audit.log", live_s=0.05) as made:
        made.sign_in()
        yield made


def letters(page: str) -> list[str]:
    found = [tag.attributes.get("href") or "" for tag in Tags.of(page, "a")]
    return [each for each in found if each.startswith("/dead-letters/letter?")]


def lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_they_are_counted_by_reason_and_compared_with_their_originals(
    broker: EmbeddedBroker, visitor: Visitor
) -> None:
    bury(broker, "counted", *(Message("counted-orders", b"%d" % each) for each in range(3)))

    listed = visitor.until("counted", "/dead-letters")
    group = visitor.text("/dead-letters/group", name="counted")
    letter = visitor.client.get(letters(group)[0]).text

    assert "/dead-letters/group?name=counted" in listed
    assert len(letters(group)) == 3
    assert "broken" in group
    assert "The bodies are the same." in letter
    assert "DLQ_REASON" in letter
    assert len(letters(visitor.text("/dead-letters/group", name="counted", reason="other"))) == 0


def test_a_dry_run_tells_what_would_be_sent_and_sends_nothing(
    broker: EmbeddedBroker, visitor: Visitor
) -> None:
    bury(broker, "dry", *(Message("dry-orders", b"%d" % each) for each in range(2)))

    page = visitor.text("/dead-letters/replay", name="dry", rate=2)

    assert "2 dead letters would be sent to this group alone, in 1 s" in page
    assert broker.lag("dry") == 0


def test_a_replay_is_confirmed_by_the_name_and_sends_each_once(
    broker: EmbeddedBroker, visitor: Visitor, tmp_path: Path
) -> None:
    bury(broker, "again", *(Message("again-orders", b"%d" % each) for each in range(3)))
    wish = {"name": "again", "to": "group", "rate": 1000}

    unconfirmed = visitor.send("/dead-letters/replay", **wish, confirm="agai")
    sent = visitor.send("/dead-letters/replay", **wish, confirm="again")
    visitor.until("The replay is done.", "/dead-letters/group", name="again")
    got: list[bytes] = []
    done = threading.Event()

    def listen(messages: tuple[ReceivedMessage, ...]) -> None:
        got.extend(message.body for message in messages)
        if len(got) == 3:
            done.set()

    with broker.push_consumer("again", listen).subscribe("again-orders"):
        assert done.wait(PATIENCE_S)
    page = visitor.text("/dead-letters/replay", name="again")
    twice = visitor.send("/dead-letters/replay", **wish, confirm="again")

    assert unconfirmed.status_code == 400
    assert sent.status_code == 303
    assert sorted(got) == [b"0", b"1", b"2"]
    assert "0 dead letters would be sent" in page
    assert twice.status_code == 400
    outcomes = [
        (line["action"], line["target"], line["outcome"]) for line in lines(tmp_path / "audit.log")
    ]
    assert outcomes == [
        ("replay dead letters", "again", "begun"),
        ("replay dead letters", "again", "done"),
    ]


def test_a_replay_can_be_stopped(broker: EmbeddedBroker, visitor: Visitor) -> None:
    """A minute of replay, so that a machine that stands still does not end it before the stop."""
    bury(broker, "slow", *(Message("slow-orders", b"%d" % each) for each in range(60)))
    wish = {"name": "slow", "to": "group", "rate": 1, "confirm": "slow"}

    visitor.send("/dead-letters/replay", **wish)
    busy = visitor.send("/dead-letters/replay", **wish)
    running = visitor.text("/dead-letters/group", name="slow")
    visitor.send("/dead-letters/stop", name="slow")
    stopped = visitor.until("The replay was stopped.", "/dead-letters/group", name="slow")

    assert busy.status_code == 409
    assert "A replay is running, 1 a second." in running
    assert "of 60 sent" in stopped
    assert "60 of 60 sent" not in stopped
