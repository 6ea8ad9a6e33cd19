"""Every command there is runs in a test, speaks JSON where it tells something, and has its help."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from flintmq.cli.all_commands import app
from flintmq.core.consumer import queue_table
from flintmq.embedded.broker import EmbeddedBroker
from support.cli.story import Recording, all_commands, tell
from support.net.support import PATIENCE_S

HERE = Path(__file__).parent
SERVING = {"serve", "console", "namesrv", "broker", "proxy", "run", "demo", "bench"}
"""What runs until it is told to stop, or is a show of its own: it prints no facts."""

ON_ITS_OWN = {"config", "store", "acl", "tls"}
"""What needs no cluster, or one with access control; tests of their own run them."""

ON_SPARK = {
    ("lake", "write"),
    ("lake", "compact"),
    ("topic", "report"),
    ("dlq", "report"),
    ("dlq", "bulk-replay"),
}
"""What needs a JVM: tests/spark runs them, in the session that it has anyway."""

COMMANDS = sorted(all_commands())


def test_every_command_that_asks_a_cluster_plays_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_table, "MOVED_MS", 100)  # how long a consumer rests after a reset
    with EmbeddedBroker() as broker:
        user = Recording(broker.namesrv, PATIENCE_S)
        tell(user)

    left = {words for words in COMMANDS if words not in user.ran}
    elsewhere = {words for words in left if any(HERE.rglob(f"test_{words[0]}*.py"))}
    assert left == elsewhere, "these commands are run by no test"
    assert {words[0] for words in left - ON_SPARK} <= SERVING | ON_ITS_OWN


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_says_what_it_does_and_speaks_json(words: tuple[str, ...]) -> None:
    command = all_commands()[words]
    flags = {flag for parameter in command.params for flag in parameter.opts}

    assert command.help
    assert all(getattr(each, "help", None) for each in command.params if not each.hidden), words
    if words[0] not in SERVING:
        assert "--output" in flags


def test_shells_can_complete_it() -> None:
    done = CliRunner().invoke(
        app,
        [],
        env={"_FLINTMQ_COMPLETE": "complete_bash", "COMP_WORDS": "flintmq top", "COMP_CWORD": "1"},
        prog_name="flintmq",
    )

    assert done.exit_code == 0
    assert done.stdout.split() == ["topic"]
