"""The help of every command has examples that are command lines of this very command; flags show no
type; shells complete commands, topics and groups.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from flintmq.cli.all_commands import app
from flintmq.cli.main import PARTS
from flintmq.cli.shared.help_page import split_examples
from flintmq.embedded.broker import EmbeddedBroker
from support.cli.asking import Shell
from support.cli.serving import COMMAND, environment
from support.cli.story import all_commands

COMMANDS = sorted(all_commands())
ROOT: Any = typer.main.get_command(app)


def help_of(*words: str) -> str:
    wide = {"COLUMNS": "200"}
    done = CliRunner().invoke(app, [*words, "--help"], env=wide, prog_name="flintmq")
    assert done.exit_code == 0
    return done.stdout


def parsed(line: str) -> tuple[str, ...]:
    """The words of the command that a command line reaches; typer refuses what it does not know."""
    command, context, words = ROOT, None, shlex.split(line)[1:]
    if "<" in words:
        words = words[: words.index("<")]
    path: tuple[str, ...] = ()
    while True:
        context = command.make_context(path[-1] if path else "flintmq", words, parent=context)
        rest = [*getattr(context, "_protected_args", ()), *context.args]
        children = getattr(command, "commands", {})
        if not rest or rest[0] not in children:
            assert not rest, rest
            return path
        path, command, words = (*path, rest[0]), children[rest[0]], rest[1:]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_examples_of_a_command_are_command_lines_of_it(words: tuple[str, ...]) -> None:
    examples = all_commands()[words].examples

    assert examples, "its docstring ends in no Examples:"
    assert [parsed(each) for each in examples] == [words] * len(examples)
    assert " ".join(examples[0].split()) in " ".join(help_of(*words).split())


@pytest.mark.parametrize("words", [(), *COMMANDS], ids=" ".join)
def test_help_shows_no_type_of_a_flag_and_tells_the_exit_codes(words: tuple[str, ...]) -> None:
    shown = help_of(*words)

    assert "bool" not in shown
    assert "unless told otherwise" not in shown
    assert "Exit codes: 0 " in shown


def test_the_help_has_every_command_in_its_panel_and_says_where_the_docs_are() -> None:
    shown = help_of()

    assert re.findall(r"╭─ (\w+) ─", shown)[1:] == [
        *("Run", "Messages", "Inspect", "Operate", "Offline")
    ]
    panels = dict(re.findall(r"╭─ (\w+) ─+╮\n(.*?)╰", shown, re.DOTALL))
    for name, part in PARTS.items():
        assert re.search(rf"^│ {name} ", panels[part.panel], re.MULTILINE), name
    assert "docs/" in shown


def test_examples_are_taken_out_of_a_docstring() -> None:
    text = "What it does.\n\nMore.\n\nExamples:\n    flintmq a\n    flintmq b"

    assert split_examples(text) == ("What it does.\n\nMore.", ("flintmq a", "flintmq b"))
    assert split_examples("What it does.") == ("What it does.", ())
    assert split_examples(None) == (None, ())


def test_json_is_a_flag_of_its_own() -> None:
    with EmbeddedBroker() as broker:
        user = Shell(broker.namesrv)
        user.told("topic", "create", "orders")

        assert user.told("topic", "list", "--json") == user.told("topic", "list", "-o", "json")


def test_a_broker_that_runs_is_not_asked_with_options_of_one_that_starts() -> None:
    done = subprocess.run(
        [COMMAND, "broker", "--data", "x", "nonsense"],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
    )

    assert done.returncode == 2
    assert "No such command 'nonsense'" in done.stderr


# Shells


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_a_script(shell: str) -> None:
    done = completed_here({"_FLINTMQ_COMPLETE": f"source_{shell}"})

    assert "_FLINTMQ_COMPLETE" in done
    assert f"complete_{shell}" in done


def completed(variables: dict[str, str]) -> str:
    done = subprocess.run(
        [COMMAND], capture_output=True, text=True, check=True, env=environment(**variables)
    )
    return done.stdout


def completed_here(variables: dict[str, str]) -> str:
    """The same in this process, which is sooner."""
    done = CliRunner().invoke(app, [], env=variables, prog_name="flintmq")
    assert done.exit_code == 0
    return done.stdout


def typed(shell: str, line: str) -> dict[str, str]:
    """What a shell tells us of a command line that is not complete."""
    count = len(line.split(" ")) - 1
    return {
        "_FLINTMQ_COMPLETE": f"complete_{shell}",
        **({"COMP_WORDS": line, "COMP_CWORD": str(count)} if shell == "bash" else {}),
        **({"_TYPER_COMPLETE_ARGS": line} if shell != "bash" else {}),
        **({"_TYPER_COMPLETE_FISH_ACTION": "get-args"} if shell == "fish" else {}),
    }


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_commands_topics_and_groups(shell: str) -> None:
    with EmbeddedBroker() as broker:
        user = Shell(broker.namesrv)
        user.told("topic", "create", "orders")
        user.told("group", "create", "billing")
        where = {"NAMESRV_ADDR": broker.namesrv}

        at = f"flintmq topic show --namesrv {broker.namesrv} ord"
        assert "orders" in completed(typed(shell, at))
        assert "connections" in completed_here(typed(shell, "flintmq group con"))
        assert "orders" in completed_here(typed(shell, "flintmq tail ord") | where)
        assert "billing" in completed_here(typed(shell, "flintmq group lag bil") | where)


def test_a_cluster_that_does_not_answer_completes_nothing() -> None:
    line = typed("bash", "flintmq tail --namesrv 127.0.0.1:1 ord")

    assert completed(line).strip() == ""


def test_bash_understands_the_script(tmp_path: Path) -> None:
    script = tmp_path / "complete.sh"
    script.write_text(completed({"_FLINTMQ_COMPLETE": "source_bash"}))
    asking = (
        f"PATH={Path(sys.executable).parent}:$PATH; source {script}; COMP_WORDS=(flintmq top); "
        "COMP_CWORD=1; _flintmq_completion flintmq; echo ${COMPREPLY[@]}"
    )

    done = subprocess.run(
        ["bash", "--norc", "-c", asking],  # whichever bash there is
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )

    assert done.stdout.split() == ["topic"]
