"""Programs of other clients that do one thing with an account.

    NAMESRV BROKER KEY SECRET VERB NAME...        a minus sign as KEY is no account

    SEND topic              send one message
    BATCH topic             send two in one request
    PULL group topic        pull from queue 0
    TOPIC name              make a topic
    PUSH group topic body   consume; HEARD and the number of tries for each message with this body
    ORDERLY …               the same in order
    BACK …                  the same, and fail the message once, when a line of input comes

They answer OK, STARTED, HEARD n or FAILED with what the client says.  A program of one run is
killed when the run is over; the JVM, which takes long to start, is told END.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from support.interop import cppclient, goclient, nodeclient
from support.interop.jvm import ERRORS, JAVA_SOURCES, compile_java, jars, start_java

LINE_TIMEOUT_S = 90.0
"""A client that is refused tries again for a while; the machine may be busy."""
QUICK = {
    "rocketmq.client.rebalance.waitInterval": "1000",
    "rocketmq.client.rebalance.lockInterval": "1000",
}


class Account(NamedTuple):
    name: str
    secret: str

    @property
    def keys(self) -> dict[str, Any]:
        """As our clients want them; nobody's is nothing."""
        return {} if self.name == "-" else {"access_key": self.name, "secret_key": self.secret}


class Running:
    """A program that was told to do something."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._input, self._output = process.stdin, process.stdout
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._output:
            self._lines.put(line.rstrip("\n"))
        self._lines.put("FAILED the program ended")

    def line(self) -> str:
        """What it says next."""
        try:
            return self._lines.get(timeout=LINE_TIMEOUT_S)
        except queue.Empty:
            return "FAILED it says nothing"

    def lines_so_far(self) -> list[str]:
        """All it said and nobody asked for."""
        said = []
        while not self._lines.empty():
            said.append(self._lines.get())
        return said

    def say(self, line: str) -> None:
        self._input.write(line + "\n")
        self._input.flush()


Program: TypeAlias = Callable[[Sequence[str]], AbstractContextManager[Running]]
"""Called with the words above."""


def one_run(command: Sequence[str | Path], home: Path, **variables: str) -> Program:
    """A program that is started for each run."""

    @contextmanager
    def run(words: Sequence[str]) -> Iterator[Running]:
        with (
            (home / ERRORS).open("ab") as errors,
            subprocess.Popen(
                [*command, *words],
                cwd=home,
                env={**os.environ, "HOME": str(home), **variables},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            ) as process,
        ):
            try:
                yield Running(process)
            finally:
                process.kill()

    return run


def go(home: Path) -> Program:
    return one_run([goclient.build(), "account"], home)


def node(home: Path) -> Program:
    return one_run(["node", nodeclient.install() / "account.js"], home)


def cpp(home: Path) -> Program:
    program = [Path(sys.executable), cppclient.SOURCES / "account.py"]
    return one_run(program, home, PYTHONPATH=str(cppclient.install()))


@contextmanager
def java(version: str, home: Path) -> Iterator[Program]:
    """The client of one release, in one JVM."""
    lib = jars(["tools"], version)
    classes = compile_java([JAVA_SOURCES / "Account.java"], lib)
    process = start_java("Account", [], [lib, classes], QUICK, reads_input=True, talks_in=home)
    with process:
        running = Running(process)

        @contextmanager
        def run(words: Sequence[str]) -> Iterator[Running]:
            running.say(" ".join(words))
            try:
                yield running
            finally:
                running.say("GO")  # a listener that still waits would keep the consumer
                running.say("END")
                while (line := running.line()) != "ENDED":
                    assert line != "FAILED the program ended", line

        try:
            yield run
        finally:
            process.kill()
