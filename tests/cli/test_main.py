"""The command tells its version and what it can do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from flintmq import __version__

COMMAND = Path(sys.executable).with_name("flintmq")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False)


def test_version_answers() -> None:
    done = run("--version")

    assert done.stdout == f"flintmq {__version__}\n"
    assert done.returncode == 0


def test_help_is_shown_to_who_types_nothing() -> None:
    done = run()

    assert "Usage: flintmq" in done.stdout + done.stderr


def test_an_unknown_command_is_refused_without_a_traceback() -> None:
    done = run("frobnicate")

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
