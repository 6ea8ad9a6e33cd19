"""No command lets a terminal obey what others wrote, nor takes it for markup; what programs read
has every value as it is.
"""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from flintmq import EmbeddedBroker, Message
from flintmq.cli.shared.output import print_json, print_line, say
from flintmq.embedded.servers import Servers
from support.cli.asking import Shell
from support.cli.dead_letters import bury
from support.cli.serving import COMMAND, environment
from support.embedded.asking import send
from test_logs import hidden

NASTY = "[red]x[/red]\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\x00\x7f"
BODY = NASTY + "\nsecond line"
SEEN = r"[red]x[/red]\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\x00\x7f"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    """Names, bodies, tags, keys and properties that hold everything."""
    with EmbeddedBroker() as running:
        properties = "".join(
            f"{name}\x01{NASTY}\x02" for name in ("TAGS", "KEYS", "UNIQ_KEY", f"p{NASTY}")
        )
        send(running.broker, "orders", BODY.encode(), properties)

        def invent(servers: Servers) -> None:
            (server,) = servers.brokers.values()
            server.state.topics.ensure(f"t{NASTY}", 1, server.now_ms())
            server.state.offsets.commit(f"g{NASTY}", "orders", 0, 0, "test")
            server.state.offsets.commit("readers", "orders", 0, 0, "test")
            server.state.groups.find_or_create(f"g{NASTY}", server.now_ms())
            server.announce_all()

        running.call(invent)
        bury(running, "billing", Message("bills", BODY.encode(), tags=NASTY, keys=[NASTY.strip()]))
        yield running


def commands() -> Iterator[tuple[str, ...]]:
    yield "topic", "list"
    yield "topic", "show", "orders"
    yield "topic", "stats", "orders"
    yield "message", "find", "orders", "--since", "1h"
    yield "message", "show", "ID", "--topic", "orders"
    yield "group", "list"
    yield "group", "lag", "readers"
    yield "group", "show", "billing"
    yield "group", "connections", "billing"
    yield "dlq", "list"
    yield "dlq", "list", "billing"
    yield "dlq", "replay", "billing", "--dry-run"
    yield "group", "show", f"none{NASTY}".replace("\x00", "")
    yield "topic", "show", f"none{NASTY}".replace("\x00", "")
    yield "message", "show", NASTY.replace("\x00", ""), "--topic", "orders"


@pytest.mark.parametrize("words", list(commands()), ids=lambda words: ascii(" ".join(words[:2])))
def test_a_command_shows_what_others_wrote(broker: EmbeddedBroker, words: tuple[str, ...]) -> None:
    (message,) = broker.messages("orders")
    words = tuple(message.offset_message_id if word == "ID" else word for word in words)

    done = Shell(broker.namesrv).run(*words)

    said = done.stdout + done.stderr
    assert said
    assert hidden(said.replace("\n", "")) == []


def test_markup_in_what_others_wrote_is_text(broker: EmbeddedBroker) -> None:
    user = Shell(broker.namesrv)

    assert f"t{SEEN}" in user.told("topic", "list")
    assert "[red]x" in user.told("message", "find", "orders", "--since", "1h")


def test_json_has_every_value_as_it_is(broker: EmbeddedBroker) -> None:
    user = Shell(broker.namesrv)

    (found,) = user.facts("message", "find", "orders", "--since", "1h")
    (tailed,) = user.lines("tail", "orders", "--from", "start", "-e")

    assert found["body"] == tailed["body"] == BODY
    assert found["tags"] == tailed["tags"] == NASTY


def on_a_terminal(*words: str) -> bytes:
    """What a command writes when a terminal shows it."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [COMMAND, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=environment()
    )
    os.close(theirs)
    written = b""
    try:
        while chunk := os.read(ours, 65_536):
            written += chunk
    except OSError:  # the other side is closed
        pass
    os.close(ours)
    assert process.wait(timeout=60) == 0
    return written


def test_tail_shows_on_a_terminal_and_is_true_in_a_pipe(broker: EmbeddedBroker) -> None:
    words = ("tail", "orders", "--from", "start", "-e", "-f", r"%t %g %k %h|%s\n")
    where = ("--namesrv", broker.namesrv)

    shown = on_a_terminal(*words, *where).decode()
    piped = subprocess.run(
        [COMMAND, *words, *where], capture_output=True, check=True, env=environment()
    ).stdout.decode()

    assert hidden(shown.replace("\r\n", "")) == []
    assert f"{SEEN}\r\nsecond line" in shown
    assert f"|{BODY}\n" in piped


def test_what_is_said_of_errors_can_be_seen(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"no topic {NASTY}")
    print_line(f"line {NASTY}")
    print_json({"name": NASTY})

    said = capsys.readouterr()
    assert hidden((said.out + said.err).replace("\n", "")) == []


def test_a_store_with_such_names_is_shown(tmp_path: Path) -> None:
    name = NASTY.replace("\x00", "").replace("/", "")
    with EmbeddedBroker(tmp_path) as running:
        send(running.broker, "orders", BODY.encode())

        def invent(servers: Servers) -> None:
            (server,) = servers.brokers.values()
            server.state.offsets.commit(name, "orders", 0, 0, "test")

        running.call(invent)
    (tmp_path / "consumequeue" / "orders").rename(tmp_path / "consumequeue" / name)

    shown, checked = (Shell("").run("store", each, str(tmp_path)) for each in ("show", "check"))

    assert "[red]x" in shown.stdout
    for done in (shown, checked):
        assert hidden((done.stdout + done.stderr).replace("\n", "")) == []
