"""`flintmq run` consumes until a signal, lets listeners end, and says what it could not do."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flintmq.cli.all_commands import app
from flintmq.client.admin import Admin
from flintmq.embedded.broker import EmbeddedBroker
from support.cli.serving import COMMAND, environment
from support.client.push_support import committed, filled, numbered
from support.client.support import create_topic, wait_for
from support.net.support import closed_port

APP = """
import os, time
from flintmq import App

app = App("{group}", start_from="first")
not_an_app = 3

@app.listener("{topic}")
def listen(messages):
    for message in messages:
        os.write(1, message.body + b"\\n")  # at once, whatever other threads and processes write
    time.sleep({sleep_s})
"""


@pytest.fixture(scope="module")
def servers() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as servers:
        yield servers


@contextmanager
def running(directory: Path, *arguments: str) -> Iterator[Run]:
    process = subprocess.Popen(
        [COMMAND, "run", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=directory,
        env=environment(),
    )
    started = Run(process)
    try:
        yield started
    finally:
        if process.poll() is None:
            process.kill()
        started.wait()


class Run:
    """A process and what it printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self.errors: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, args=pair)
            for pair in ((process.stdout, self.lines), (process.stderr, self.errors))
        ]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _read(source: Iterator[str], into: list[str]) -> None:
        for line in source:
            into += [line.rstrip("\n")]

    @property
    def ready(self) -> list[str]:
        return [line for line in self.lines if line.startswith("flintmq ready")]

    @property
    def bodies(self) -> list[str]:
        return [line for line in self.lines if line.isdigit()]

    def wait(self) -> int:
        code = self.process.wait(timeout=60)
        for reader in self._readers:
            reader.join()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code


def write_app(directory: Path, group: str, topic: str, sleep_s: float = 0) -> None:
    text = APP.format(group=group, topic=topic, sleep_s=sleep_s)
    (directory / "shop.py").write_text(text)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_listeners_end_and_commits(
    servers: EmbeddedBroker, tmp_path: Path, number: signal.Signals
) -> None:
    name = f"ended-{number.name}"
    filled(servers, name, numbered(3), queues=1)
    write_app(tmp_path, name, name, sleep_s=0.2)

    with running(tmp_path, "shop:app", "--namesrv", servers.namesrv) as run:
        wait_for(lambda: len(run.bodies) == 3)
        run.process.send_signal(number)
        code = run.wait()

    assert code == 0, run.errors
    assert run.ready[0].startswith(f"flintmq ready app=shop:app group={name} client=")
    assert committed(servers, name, name) == {0: 3}


def test_a_second_signal_ends_it_at_once(servers: EmbeddedBroker, tmp_path: Path) -> None:
    filled(servers, "at-once", numbered(1), queues=1)
    write_app(tmp_path, "at-once", "at-once", sleep_s=60)

    with running(tmp_path, "shop:app", "-n", servers.namesrv) as run:
        wait_for(lambda: run.bodies)
        run.process.terminate()
        wait_for(lambda: run.process.poll() is not None or _signalled(run))
        code = run.wait()

    assert code == -signal.SIGTERM


def _signalled(run: Run) -> bool:
    run.process.terminate()
    return False


def test_listeners_that_do_not_end_are_named(servers: EmbeddedBroker, tmp_path: Path) -> None:
    filled(servers, "named", numbered(1), queues=1)
    write_app(tmp_path, "named", "named", sleep_s=60)

    with running(tmp_path, "shop:app", "-n", servers.namesrv, "--stop-timeout", "0.1") as run:
        wait_for(lambda: run.bodies)
        run.process.terminate()
        code = run.wait()

    assert code == 1
    assert any("still running after" in line for line in run.errors)
    assert any("in listen" in line for line in run.errors)


def shares(servers: EmbeddedBroker, group: str, topic: str) -> list[int]:
    """How many queues of a topic each member has: until all have theirs, some are in two hands."""
    with Admin(namesrv=servers.namesrv) as admin:
        told = [each.running for each in admin.diagnose(group).members if each.running]
    return [sum(queue.topic == topic for queue in running.mq_table) for running in told]


def test_several_processes_share_the_work_and_stop_together(
    servers: EmbeddedBroker, tmp_path: Path
) -> None:
    create_topic(servers, "several")
    write_app(tmp_path, "several", "several")

    with running(tmp_path, "shop:app", "-n", servers.namesrv, "--processes", "2") as run:
        wait_for(lambda: len(run.ready) == 2)
        wait_for(lambda: shares(servers, "several", "several") == [2, 2])
        filled(servers, "several", numbered(20))
        wait_for(lambda: len(run.bodies) >= 20)
        run.process.send_signal(signal.SIGINT)
        code = run.wait()

    assert code == 0, run.errors
    assert sorted(run.bodies) == [body.decode() for body in numbered(20)]


def test_one_process_that_dies_takes_the_others_with_it(
    servers: EmbeddedBroker, tmp_path: Path
) -> None:
    create_topic(servers, "dying")
    write_app(tmp_path, "dying", "dying")

    with running(tmp_path, "shop:app", "-n", servers.namesrv, "--processes", "2") as run:
        wait_for(lambda: len(run.ready) == 2)
        child = int(run.ready[0].split("client=")[1].split("@")[1].split("#")[0])
        os.kill(child, signal.SIGKILL)
        code = run.wait()

    assert code != 0
    assert any(f"process {child} ended with -9" in line for line in run.errors)


def test_children_whose_parent_is_gone_stop(servers: EmbeddedBroker, tmp_path: Path) -> None:
    create_topic(servers, "orphaned")
    write_app(tmp_path, "orphaned", "orphaned")

    with running(tmp_path, "shop:app", "-n", servers.namesrv, "--processes", "2") as run:
        wait_for(lambda: len(run.ready) == 2)
        run.process.kill()
        run.wait()  # the children hold its output open until they end

    assert len(run.ready) == 2


@pytest.mark.parametrize(
    ("target", "text"),
    [
        ("shop", "is not MODULE:APP"),
        ("nowhere:app", "there is no module 'nowhere'"),
        ("shop:nothing", "module 'shop' has no attribute 'nothing'; apps in it: app"),
        ("shop:not_an_app", "shop.not_an_app is of type int, not an App; apps in it: app"),
        ("./nowhere.py:app", "there is no file './nowhere.py'"),
        ("./shop.py:nothing", "module 'shop' has no attribute 'nothing'"),
    ],
)
def test_a_target_that_is_no_app_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, text: str
) -> None:
    write_app(tmp_path, "g", "t")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    done = CliRunner().invoke(app, ["run", target], env={"COLUMNS": "200"})

    assert done.exit_code == 2
    assert text in done.stderr


@pytest.mark.parametrize("target", ["broken:app", "./broken.py:app"])
@pytest.mark.parametrize(
    ("text", "last", "lines"),
    [
        ("def half():\n    return 1 / 0\n\nhalf()\n", "ZeroDivisionError: division by zero", 10),
        ("import nowhere_at_all\n", "ModuleNotFoundError: No module named 'nowhere_at_all'", 5),
        ("x = (\n", "SyntaxError: '(' was never closed", 5),
    ],
)
def test_a_module_that_raises_shows_its_own_frames_and_no_other(
    tmp_path: Path, target: str, text: str, last: str, lines: int
) -> None:
    (tmp_path / "broken.py").write_text(text)

    with running(tmp_path, target) as run:
        code = run.wait()

    assert code == 1
    assert run.errors[0] == "flintmq: module 'broken' cannot be imported"
    assert run.errors[-1] == last
    assert "broken.py" in "".join(run.errors)
    assert "load_app.py" not in "".join(run.errors)
    assert "importlib" not in "".join(run.errors)
    assert len(run.errors) <= lines


def test_an_app_is_found_by_its_file(servers: EmbeddedBroker, tmp_path: Path) -> None:
    filled(servers, "by-file", numbered(1), queues=1)
    (tmp_path / "inner").mkdir()
    write_app(tmp_path / "inner", "by-file", "by-file")

    with running(tmp_path, "inner/shop.py:app", "--namesrv", servers.namesrv) as run:
        wait_for(lambda: len(run.bodies) == 1)
        run.process.send_signal(signal.SIGTERM)

        assert run.wait() == 0


def test_an_app_that_cannot_start_says_why(tmp_path: Path) -> None:
    write_app(tmp_path, "g", "t")

    with running(tmp_path, "shop:app") as run:
        code = run.wait()

    assert code == 1
    assert any("no name server is set" in line for line in run.errors)


def test_wait_says_how_long_a_name_server_is_waited_for(tmp_path: Path) -> None:
    write_app(tmp_path, "waiting", "waiting")
    with running(tmp_path, "shop:app", "--wait", "0", "--namesrv", closed_port()) as at_once:
        assert at_once.wait() == 1
    assert "asked once" in "\n".join(at_once.errors)

    with running(tmp_path, "shop:app", "--wait", "90", "--namesrv", closed_port()) as patient:
        wait_for(lambda: any("waits up to 90000 ms" in line for line in patient.errors))
        patient.process.send_signal(signal.SIGTERM)
        assert patient.wait() == 0
