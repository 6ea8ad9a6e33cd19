"""A program that is told to stop by a signal loses nothing and repeats nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flintmq import App, PushConsumer
from flintmq.client.admin import Admin
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.embedded.servers import Servers
from support.client.push_support import Ear, filled, numbered
from support.client.support import wait_for
from support.net.support import closed_port

PROGRAM = Path(__file__).parents[2] / "support" / "client" / "stopping_program.py"
COUNT = 600
LISTENER_MS = "300"
"""Nine seconds of work and more: it is stopped before, however slow the test is."""


class Program:
    """The program in a process of its own, and the lines it prints."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def consumed(self) -> list[bytes]:
        return [line[5:].encode() for line in list(self.lines) if line.startswith("done ")]

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        code = self.process.wait(60)
        self._reader.join(60)
        return code

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.strip())


@contextmanager
def running(*arguments: str) -> Iterator[Program]:
    program = Program(*arguments)
    try:
        yield program
    finally:
        program.process.kill()
        program.process.communicate()


def has_locks(servers: EmbeddedBroker, group: str) -> bool:
    """Whether a member of the group has a queue to itself."""

    def look(inside: Servers) -> bool:
        (running_broker,) = inside.brokers.values()
        return running_broker.state.locks.is_orderly(group, inside.clock())

    return servers.call(look)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("kind", ["threads", "asyncio", "ordered"])
def test_a_signal_lets_listeners_end_and_nothing_is_consumed_twice(
    broker: EmbeddedBroker, kind: str, number: signal.Signals
) -> None:
    topic = f"stopped-{kind}-{number.name}"
    filled(broker, topic, numbered(COUNT), queues=4)
    with running(broker.namesrv, topic, topic, kind, LISTENER_MS) as program:
        wait_for(lambda: len(program.consumed) >= 8)
        assert program.end(number) == 0
        first = program.consumed
        assert program.lines[-1] == "left 0"
        assert not has_locks(broker, topic)

    ear = Ear()
    ordered = kind == "ordered"
    consumer = PushConsumer(topic, ear, namesrv=broker.namesrv, ordered=ordered)
    with consumer.subscribe(topic):
        wait_for(lambda: len(first) + len(ear.messages) >= COUNT)

    assert sorted(first + ear.bodies) == numbered(COUNT)
    assert 8 <= len(first) < COUNT, "it was stopped in the middle"
    with Admin(namesrv=broker.namesrv) as admin:
        assert admin.members(topic) is None


def test_a_second_signal_ends_the_process_at_once(broker: EmbeddedBroker) -> None:
    filled(broker, "twice-told", numbered(1), queues=1)
    with running(broker.namesrv, "twice-told", "twice-told", "threads", "60000") as program:
        wait_for(lambda: "ready" in program.lines)
        with Admin(namesrv=broker.namesrv) as admin:
            wait_for(lambda: admin.members("twice-told"))
        program.process.send_signal(signal.SIGTERM)
        wait_for(lambda: program.process.poll() is not None or _again(program))

    assert program.process.returncode == -signal.SIGTERM


def _again(program: Program) -> bool:
    program.process.send_signal(signal.SIGTERM)
    return False


def test_a_signal_ends_a_program_that_still_waits_for_its_name_server() -> None:
    for kind in ("threads", "asyncio"):
        with running(closed_port(), "early", "early", kind, "0") as program:
            assert program.process.stderr is not None
            assert "the start waits up to 30000 ms" in program.process.stderr.readline()
            assert program.end(signal.SIGTERM) == 0


def test_handlers_are_put_back_and_other_threads_install_none(broker: EmbeddedBroker) -> None:
    app = App("handlers", namesrv=broker.namesrv)
    app.listener("handlers")(Ear())
    before = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []

    def ready(_consumer: object) -> None:
        seen.append(signal.getsignal(signal.SIGTERM))
        app.stop()

    app.run(on_ready=ready)
    other = threading.Thread(target=app.run, kwargs={"on_ready": ready})
    other.start()
    other.join()
    app.run(on_ready=ready, signals=False)

    assert seen[0] != before
    assert seen[1:] == [before, before]
    assert signal.getsignal(signal.SIGTERM) == before
