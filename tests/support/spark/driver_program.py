"""A driver program that tests kill, all of it or a part: `scenarios/spark/killed_program.py`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

from flintmq.embedded.broker import EmbeddedBroker
from support.spark.support import wait_for

PROGRAM = Path(__file__).parents[2] / "scenarios" / "spark" / "killed_program.py"

PATIENCE_S = 600.0
"""Without any progress.  Up to its first batch of Delta a driver uses 40 s of CPU, which take
minutes on a machine that has other work."""

DRIVER, WORKERS, SOURCE_PROCESS = "the driver", "the workers", "the process of the source"
JVM, EVERYTHING = "the JVM of the driver", "all its processes"


class Program:
    """The driver program, which is started again and again."""

    def __init__(
        self, what: str, servers: EmbeddedBroker, place: Path, log: Path, jars: str = ""
    ) -> None:
        self._command = [sys.executable, str(PROGRAM), what, servers.namesrv, str(place)]
        self._environment = {**os.environ, "KILLED_JARS": jars}
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._left: set[int] = set()
        self.starts = 0

    def start(self) -> None:
        """See that it runs."""
        if self._process is not None and self._process.poll() is None:
            return
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env=self._environment
            )
        self.starts += 1

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self, kind: str) -> bool:
        """Kill a part of it; whether it was there.  The program ends where its JVM does."""
        assert self._process is not None
        tree = self._tree()
        self._left |= set(tree)
        java = [pid for pid, line in tree.items() if "java" in line]
        chosen = {
            DRIVER: [self._process.pid, *java],
            JVM: java,
            WORKERS: [pid for pid, line in tree.items() if "pyspark.daemon" in line],
            SOURCE_PROCESS: [p for p, line in tree.items() if "streaming_source_runner" in line],
            EVERYTHING: [self._process.pid, *tree],
        }[kind]
        for pid in chosen:
            _kill(pid)
        if chosen and kind in (DRIVER, JVM, EVERYTHING):
            self._process.wait(PATIENCE_S)
        return bool(chosen)

    def stop(self) -> None:
        """Let it end by itself, as a user does."""
        assert self._process is not None
        self._process.terminate()
        assert self._process.wait(PATIENCE_S) == 0, self.tail()

    def end(self) -> None:
        """Kill all of it, and what earlier kills left behind."""
        if self._process is None:
            return
        self._left |= set(self._tree())
        self._process.kill()
        self._process.wait()
        for pid in self._left:
            if "pyspark" in _command_line(pid):
                _kill(pid)

    def tail(self) -> str:
        return self._log.read_text(errors="replace")[-4_000:]

    def _tree(self) -> dict[int, str]:
        """Its children and theirs, with their command lines."""
        assert self._process is not None
        parents = dict(_parents())
        found: dict[int, str] = {}
        new = {self._process.pid}
        while new:
            new = {pid for pid, parent in parents.items() if parent in new} - found.keys()
            found |= {pid: _command_line(pid) for pid in new}
        return found


def _parents() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                after_name = (entry / "stat").read_text().rpartition(")")[2].split()
                yield int(entry.name), int(after_name[1])


def _command_line(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_once(program: Program, kind: str, chance: Random, progress: Callable[[], int]) -> None:
    """Kill a part of it at some moment; most often while batches run."""
    has_killed = False
    while not has_killed:  # it may have ended by itself, from an earlier kill
        program.start()
        before = progress()
        if kind in (WORKERS, SOURCE_PROCESS) or chance.random() < 0.7:
            wait_for(lambda b=before: progress() > b or not program.is_running, PATIENCE_S)  # type: ignore[misc]
        time.sleep(chance.uniform(0, 3))  # the moment is what is drawn
        has_killed = program.is_running and program.kill(kind)


def until_done(program: Program, progress: Callable[[], int], is_done: Callable[[], bool]) -> None:
    """Let it go on to the end, starting it again where a kill ends it late.

    What gathered while it was away takes its time: as long as it comes on, it may.
    """
    while not is_done():
        before = progress()

        def look(before: int = before) -> bool:
            program.start()
            return progress() > before or is_done()

        wait_for(look, PATIENCE_S)


def numbers(directory: Path) -> list[int]:
    """The batches that a checkpoint has files of."""
    if not directory.exists():
        return []
    return sorted(int(each.name) for each in directory.iterdir() if each.name.isdecimal())
