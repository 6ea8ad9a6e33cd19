"""`App.run(processes=N)`: N members of the group in processes, which stop and fail together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flintmq import App, InvalidSetting
from flintmq.embedded.broker import EmbeddedBroker
from support.cli.serving import environment
from support.client.push_support import committed, filled, numbered, send_spread
from support.client.support import create_topic, wait_for

PROGRAM = """
import os, sys, threading
from flintmq import App, FlintError

app = App("{group}", namesrv="{namesrv}", start_from="first", start_timeout_ms={wait_ms})

@app.listener("{topic}")
def listen(messages):
    for message in messages:
        os.write(1, b"%d %s\\n" % (os.getpid(), message.body))

def ask():
    for line in sys.stdin:
        told = [
            (each.state, sum(one.queue.topic == "{topic}" for one in each.queues))
            for each in app.status()
        ]
        os.write(1, f"status {{sorted(told)}}\\n".encode())

if __name__ == "__main__":
    threading.Thread(target=ask, daemon=True).start()
    try:
        left = app.run(processes=2)
    except FlintError as error:
        sys.exit(f"failed: {{error}}")
    print("left", left)
"""


@pytest.fixture(scope="module")
def servers() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as servers:
        yield servers


class Run:
    """A program and what it printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        assert process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(process.stdout,))
        self._reader.start()

    def _read(self, source: Iterator[str]) -> None:
        for line in source:
            self.lines.append(line.rstrip())

    def status(self) -> str:
        assert self.process.stdin is not None
        before = sum(line.startswith("status") for line in self.lines)
        self.process.stdin.write("?\n")
        self.process.stdin.flush()
        wait_for(lambda: sum(line.startswith("status") for line in self.lines) > before)
        return next(line for line in reversed(self.lines) if line.startswith("status"))

    @property
    def bodies(self) -> dict[str, str]:
        """Each body, and the process that listened to it last."""
        pairs = (line.split(" ", 1) for line in self.lines if line[:1].isdigit())
        return {body: pid for pid, body in pairs}

    def close(self) -> None:
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()

    def end(self) -> tuple[int, str]:
        assert self.process.stderr is not None
        errors = self.process.stderr.read()
        code = self.process.wait(60)
        return code, errors


@contextmanager
def running(directory: Path, namesrv: str, topic: str, wait_ms: int = 30_000) -> Iterator[Run]:
    text = PROGRAM.format(group=f"g-{topic}", namesrv=namesrv, topic=topic, wait_ms=wait_ms)
    program = directory / "shop.py"
    program.write_text(text)
    process = subprocess.Popen(
        [sys.executable, program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    run = Run(process)
    try:
        yield run
    finally:
        if process.poll() is None:
            process.kill()
        run.close()


def test_members_share_the_queues_and_a_signal_stops_all(
    servers: EmbeddedBroker, tmp_path: Path
) -> None:
    sent = numbered(200)
    create_topic(servers, "shared", 4)
    with running(tmp_path, servers.namesrv, "shared") as run:
        wait_for(lambda: run.status() == "status [('running', 2), ('running', 2)]")
        send_spread(servers, "shared", sent)  # now: a queue that changes hands is redelivered
        wait_for(lambda: set(run.bodies) == {body.decode() for body in sent})
        run.process.send_signal(signal.SIGTERM)
        code, errors = run.end()

    assert (code, errors) == (0, "")
    assert run.lines[-1] == "left []"
    assert committed(servers, "g-shared", "shared") == dict.fromkeys(range(4), 50)


def test_one_that_is_killed_stops_the_others_and_is_named(
    servers: EmbeddedBroker, tmp_path: Path
) -> None:
    filled(servers, "killed", numbered(100))
    with running(tmp_path, servers.namesrv, "killed") as run:
        wait_for(lambda: run.status() == "status [('running', 2), ('running', 2)]")
        wait_for(lambda: bool(run.bodies))
        pid = next(iter(run.bodies.values()))
        os.kill(int(pid), signal.SIGKILL)
        code, errors = run.end()

    assert code == 1
    assert f"failed: process {pid}: it ended with code -9; the other processes were" in errors


def test_the_error_of_a_member_is_raised(servers: EmbeddedBroker, tmp_path: Path) -> None:
    with running(tmp_path, "127.0.0.1:1", "nowhere", wait_ms=0) as run:
        code, errors = run.end()

    assert code == 1
    assert "failed: 127.0.0.1:1" in errors


def test_what_other_processes_cannot_run_is_refused_before_any_starts() -> None:
    app = App("g-refused", namesrv="127.0.0.1:1")
    app.listener("orders")(lambda messages: None)

    with pytest.raises(InvalidSetting, match="must be importable by other processes"):
        app.run(processes=2)
    with pytest.raises(InvalidSetting, match="it must be 1 to 1024"):
        app.run(processes=0)
    with pytest.raises(InvalidSetting, match="there is no consumer here"):
        app.run(processes=2, on_ready=repr)
    assert app.status() == []
