"""Commands that serve, run as a user runs them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from typer.testing import CliRunner

from flintmq.cli.all_commands import app

COMMAND = Path(sys.executable).with_name("flintmq")
ANYWHERE = "127.0.0.1:0"

READY = re.compile(
    r"flintmq ready(?: namesrv=(?P<namesrv>\S+))?"
    r"(?: broker=(?P<broker>\S+))?(?: grpc=(?P<grpc>\S+))?(?: data=(?P<data>.*))?\n"
)


def environment(**more: str) -> dict[str, str]:
    """Ours, without what would change the settings of a command."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("FLINTMQ_") and name != "NAMESRV_ADDR"
    }
    return {**kept, **more}


class Served:
    """A process that said it is ready."""

    def __init__(self, process: subprocess.Popen[str], line: str) -> None:
        self.process = process
        self.line = line
        found = READY.fullmatch(line)
        assert found is not None, line
        self.namesrv = found["namesrv"] or ""
        self.broker = found["broker"] or ""
        self.grpc = found["grpc"] or ""
        self.data = Path(found["data"] or "")
        self.errors = ""

    def brokers(self) -> dict[str, int]:
        """The broker processes below it, by name."""
        found = {}
        pid = self.process.pid
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            found[words[-2].decode()] = int(child)
        return found

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        _, self.errors = self.process.communicate(timeout=60)
        return self.process.returncode


@contextmanager
def running(*arguments: str | Path, **variables: str) -> Iterator[Served]:
    """Start a command, wait for its ready line, and end it if the test did not."""
    process = subprocess.Popen(
        [COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**variables),
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            _, errors = process.communicate(timeout=60)
            raise AssertionError(f"exit {process.returncode}: {errors}")
        yield Served(process, line)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def failing(*arguments: str | Path) -> tuple[int, str]:
    """Run a command that ends before it serves; its exit code and what it said."""
    texts = [str(argument) for argument in arguments]
    hidden = {name: None for name in os.environ if name not in environment()}
    done = CliRunner().invoke(app, texts, env=hidden)
    assert done.stdout == ""
    return done.exit_code, done.stderr


def ending(*arguments: str | Path) -> tuple[int, str]:
    """The same in a process of its own, for commands that end when they begin to serve."""
    done = subprocess.run(
        [COMMAND, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        timeout=60,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr
