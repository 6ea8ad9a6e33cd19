"""The command tells its version and what it can do."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from flintmq import __version__
from flintmq.cli.all_commands import app
from flintmq.cli.main import PARTS, CommandPart, make_app

COMMAND = Path(sys.executable).with_name("flintmq")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False)


def test_version_answers() -> None:
    done = run("--version")

    assert done.stdout.startswith(f"flintmq {__version__} (")
    assert done.returncode == 0


def test_help_is_shown_to_who_types_nothing() -> None:
    done = run()

    assert "Usage: flintmq" in done.stdout + done.stderr


def test_an_unknown_command_is_refused_without_a_traceback() -> None:
    done = run("frobnicate")

    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["serve", "topic", "tail", "dlq"])
def test_a_command_that_is_named_is_the_same_without_the_others(name: str) -> None:
    """Help tells the name, what it does, its options or commands, and the exit codes."""
    alone = CliRunner().invoke(make_app([name]), [name, "--help"], prog_name="flintmq")
    among_all = CliRunner().invoke(app, [name, "--help"], prog_name="flintmq")

    assert alone.exit_code == among_all.exit_code == 0
    assert alone.stdout == among_all.stdout


def test_who_starts_a_server_waits_for_no_other_command_to_load() -> None:
    loaded = modules_after("serve", "--help")

    assert "flintmq.cli.serve" in loaded
    assert "flintmq.net.tls" in loaded
    unwanted = ("flintmq.client", "flintmq.spark", "flintmq.cli.send", "flintmq.filter.sql_eval")
    assert [name for name in loaded if name.startswith(unwanted)] == []


def test_help_and_unknown_words_load_every_command() -> None:
    for words in ((), ("--help",), ("frobnicate",)):
        loaded = modules_after(*words)
        assert {part.module for part in PARTS.values()} <= loaded


@pytest.mark.parametrize(("name", "part"), PARTS.items(), ids=PARTS)
def test_every_part_of_the_table_is_a_command_in_the_module_it_names(
    name: str, part: CommandPart
) -> None:
    """The parts are imported by name, so nothing but this table and its test leads to them."""
    found = getattr(import_module(part.module), part.attribute)

    assert callable(found)
    assert isinstance(found, typer.Typer) or (found.__module__, found.__name__) == (
        part.module,
        name,
    )


def modules_after(*words: str) -> set[str]:
    """What is loaded when a command line has been run to its end."""
    code = (
        "import sys\n"
        f"sys.argv = ['flintmq', *{words!r}]\n"
        "from flintmq.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print('LOADED', *sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("LOADED ")[2].split())
