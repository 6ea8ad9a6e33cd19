"""What comparisons share: brokers that are up, clients that make load, ratios of two sides.

A client that makes load is a process of its own that reads commands and answers each with a line
of JSON: messages, failures, seconds and its own CPU.  `Load.java` lists the commands.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from benchmarks.at_rest import private_mib  # noqa: E402
from benchmarks.report.goals import PLAIN  # noqa: E402
from benchmarks.report.results import Measured, Row, median, ratio  # noqa: E402
from support.interop.jvm import compile_java, jars, start_java  # noqa: E402
from support.interop.real import RealRocketMQ  # noqa: E402

__all__ = [
    "BACKLOG",
    "CLIENT_VERSION",
    "ROOT",
    "Load",
    "Result",
    "Row",
    "Running",
    "fill",
    "median",
    "our_side",
    "process_cpu_s",
    "ratio",
    "real_side",
    "show",
]

CLIENT_VERSION = "5.3.3"
BACKLOG = 200_000

_CPU_CLOCK = 2  # of a process, of all that its threads have run: linux/posix-timers.h

Result = dict[str, float]


@dataclass
class Running:
    """A broker that is up."""

    name: str
    namesrv: str
    pid: int
    ready_s: float
    brokers: tuple[int, ...] = ()
    """Processes of its brokers, where it has several."""
    said: dict[str, str] = field(default_factory=dict)
    """What its ready line says, of a broker of ours."""

    def cpu_s(self) -> float:
        """User and system time the processes of the broker have used."""
        return sum(map(process_cpu_s, (self.pid, *self.brokers)))

    def private_mib(self) -> float:
        """Memory that belongs to the broker process alone; mapped files do not count."""
        return private_mib(self.pid)


def process_cpu_s(pid: int) -> float:
    """The kernel's account of another process, to the nanosecond; that in /proc counts in 10 ms."""
    return time.clock_gettime((~pid << 3) | _CPU_CLOCK)


def show(
    found: Sequence[Measured], metrics: Mapping[str, str], ours: str, not_compared: Collection[str]
) -> None:
    """A table of all sides, with the ratios of ours to each of the others."""
    table = Table("workload", "side", *metrics.values(), "ours / theirs")
    for each in found:
        for side in sorted(each.rows, key=lambda name: name != ours):
            ratios = {metric: each.ratio(ours, side, metric) for metric in metrics}
            compared = ", ".join(
                f"{metrics[metric]} {ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
                for metric, ratio in ratios.items()
                if ratio is not None and metric not in not_compared
            )
            figures = (each.median(side, metric) for metric in metrics)
            table.add_row(
                each.name if side == ours else "",
                side,
                *("" if value is None else f"{value:,.4g}" for value in figures),
                "" if side == ours else compared,
            )
    Console(width=180).print(table)


@contextmanager
def our_side(
    directory: Path, *more: str, brokers: int = 1, kernel: str | None = None
) -> Iterator[Running]:
    """`flintmq serve` as a user starts it; what it logs is beside its directory.

    ``kernel`` asks for one of both.
    """
    environment = {n: v for n, v in os.environ.items() if n != "PYTHONDONTWRITEBYTECODE"}
    if kernel is not None:
        environment["FLINTMQ_KERNEL"] = kernel
    directory.parent.mkdir(parents=True, exist_ok=True)
    log = directory.with_suffix(".log")
    started = time.monotonic()
    with log.open("w") as errors:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "flintmq", "serve", "--data", str(directory)),
                *("--namesrv-listen", "127.0.0.1:0", "--broker-listen", "127.0.0.1:0"),
                *("--flush", "async", "--brokers", str(brokers), *more),
            ],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        )  # pip leaves modules compiled, and so does the first start
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        ready_s = time.monotonic() - started
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        if "namesrv" not in words:
            raise SystemExit(f"flintmq serve did not start:\n{log.read_text()[-2000:]}")
        name = "flintmq" if brokers == 1 else f"flintmq, {brokers} brokers"
        name = name if kernel is None else PLAIN
        children = _children(process.pid)
        yield Running(name, words["namesrv"], process.pid, ready_s, children, words)
    finally:
        process.terminate()
        process.wait(30)


def _children(pid: int) -> tuple[int, ...]:
    return tuple(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


@contextmanager
def real_side(version: str, directory: Path) -> Iterator[Running]:
    started = time.monotonic()
    real = RealRocketMQ(
        version,
        directory,
        mappedFileSizeCommitLog=1024 * 1024 * 1024,
        mappedFileSizeConsumeQueue=6_000_000,
        maxHashSlotNum=5_000_000,
        maxIndexNum=20_000_000,
        jvm_flags=("-Xms1g", "-Xmx1g", "-XX:MaxDirectMemorySize=1g"),
    )
    with real:
        ready_s = time.monotonic() - started
        yield Running(f"RocketMQ {version}", real.namesrv, real.broker_pid, ready_s)


class Load:
    """A process that makes load."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @classmethod
    def java(cls, directory: Path) -> Load:
        lib = jars(["client"], CLIENT_VERSION)
        classes = compile_java(sorted((ROOT / "benchmarks" / "java").glob("*.java")), lib)
        return cls(
            start_java(
                "Load",
                [],
                [lib, classes],
                {"rocketmq.client.rebalance.waitInterval": "1000"},
                jvm_flags=("-Xms512m", "-Xmx512m"),
                reads_input=True,
                talks_in=directory,
            )
        )

    @classmethod
    def ours(cls) -> Load:
        return cls(
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.peers.our_load"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=ROOT,
            )
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def run(self, command: str) -> Result:
        """Give one command and wait for its result."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(command + "\n")
        stdin.flush()
        for line in stdout:
            if line.startswith("RESULT "):
                result: dict[str, Any] = json.loads(line.removeprefix("RESULT "))
                if "error" in result:
                    raise SystemExit(f"{command}: {result['error']}")
                if result["failed"]:
                    print(f"{command}: {result['failed']} failed", file=sys.stderr)
                return result
        raise SystemExit("the load generator ended")

    def close(self) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended by itself
            self._process.stdin.close()
        self._process.wait(30)


def fill(load: Load, side: Running, size: int, wanted: int = BACKLOG) -> float:
    """Put a backlog into a topic of its own; how many messages it got."""
    stored = 0.0
    while stored < wanted:
        stored += load.run(f"batch {side.namesrv} backlog_{size} {size} 4 1 32")["count"]
    return stored
