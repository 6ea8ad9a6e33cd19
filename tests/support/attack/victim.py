"""`flintmq serve` in a process of its own, and what an attack costs it.

CPU is that of the process, user and system.  Memory is what is its own (RssAnon): pages of the
mapped log files belong to the system, which takes them back when it likes.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from support.cli.serving import ANYWHERE, COMMAND, READY, environment

SERVE = ("serve", "--namesrv-listen", ANYWHERE, "--broker-listen", ANYWHERE, "--name", "victim")
START_S = 60.0
STOP_S = 40.0
"""What a stop may take at the most: its own limit of 30 s, and a machine that is busy."""

LOOK_S = 0.02
"""How often the memory is looked at: an allocation that lasts shorter is not felt by anybody."""

MB = 1024 * 1024
_TICKS = os.sysconf("SC_CLK_TCK")
_FORGED = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
_LINE_START = re.compile(rb"\d{4}-\d\d-\d\d |flintmq: |\S+: |\s|$")


def until(is_so: Callable[[], bool], limit_s: float, every_s: float = 0.05) -> bool:
    """Whether something came true within the limit."""
    deadline = time.monotonic() + limit_s
    pause = threading.Event()
    while not is_so():
        if time.monotonic() > deadline:
            return False
        pause.wait(every_s)
    return True


class NotStarted(Exception):
    """It ended before it was ready, with this code and these words."""

    def __init__(self, code: int, said: str) -> None:
        super().__init__(f"exit {code}: {said[-2_000:]}")
        self.said = said


class Victim:
    """A server that said it is ready."""

    def __init__(self, directory: Path, *options: str | Path, limit_mb: int | None = None) -> None:
        self.data = directory / "store"
        self.log_file = directory / f"log-{len(list(directory.glob('log-*')))}"
        prefix = ["prlimit", f"--as={limit_mb * MB}"] if limit_mb else []
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [*prefix, COMMAND, *SERVE, "--data", self.data, *options],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment(),
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = READY.fullmatch(line)
        if found is None:
            self.process.wait(START_S)
            self.process.stdout.close()
            raise NotStarted(self.process.returncode, self.log().decode(errors="replace"))
        self.namesrv, self.broker = str(found["namesrv"]), str(found["broker"])
        self.grpc = str(found["grpc"] or "")

    # What it costs

    def cpu_s(self) -> float:
        fields = self._proc("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def busy_s(self) -> float:
        """How long its loop ran, or waited for a processor."""
        ran_ns, waited_ns, _ = map(int, self._proc("schedstat").split())
        return (ran_ns + waited_ns) / 1e9

    def memory_mb(self) -> float:
        (line,) = (row for row in self._proc("status").splitlines() if row.startswith("RssAnon:"))
        return int(line.split()[1]) / 1024

    @contextmanager
    def peak(self) -> Iterator[Callable[[], float]]:
        """The most memory it has had since the block was entered."""
        most = self.memory_mb()
        over = threading.Event()

        def look() -> None:
            nonlocal most
            while not over.wait(LOOK_S) and self.is_alive():
                try:
                    most = max(most, self.memory_mb())
                except (OSError, ValueError):
                    return  # it ended between the two

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield lambda: most
        finally:
            over.set()
            thread.join()

    def log(self) -> bytes:
        return self.log_file.read_bytes()

    def stored_bytes(self) -> int:
        """What its files take on the disk; they are sparse."""
        files = (path for path in self.data.rglob("*") if path.is_file())
        return sum(path.stat().st_blocks * 512 for path in files)

    # What must hold

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def check_log(self) -> None:
        """No error that nobody foresaw, and no line or escape that a peer wrote."""
        log = self.log()
        assert b"Traceback" not in log, log[log.index(b"Traceback") :][:3_000].decode()
        assert not (found := _FORGED.search(log)), log[max(0, found.start() - 200) :][:400]
        forged = [line[:200] for line in log.split(b"\n") if not _LINE_START.match(line)]
        assert not forged, forged[:5]

    def stop(self) -> int:
        """End it as a service manager does; a stop that does not end is a failure."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"SIGTERM did not end it in {STOP_S} s") from None

    def check_store(self) -> None:
        """What it left behind is in order."""
        done = subprocess.run(
            [COMMAND, "store", "check", self.data],
            capture_output=True,
            text=True,
            check=False,
            env=environment(),
            timeout=120,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def close(self) -> None:
        if self.is_alive():
            self.process.kill()
        self.process.communicate()

    def _proc(self, name: str) -> str:
        return Path(f"/proc/{self.process.pid}/{name}").read_text()


@contextmanager
def serving(directory: Path, *options: str | Path, limit_mb: int | None = None) -> Iterator[Victim]:
    """A victim that is gone afterwards, whatever happened."""
    victim = Victim(directory, *options, limit_mb=limit_mb)
    try:
        yield victim
    finally:
        victim.close()
