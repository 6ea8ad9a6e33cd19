"""Where our own CPU goes under the loads of the comparisons: samples of py-spy, by module.

    python -m benchmarks.peers.profile [--seconds N] [--only NAME …] [--out FILE]

A sample counts for the innermost module of ours on its stack, with the C code that this one has
called.  Those with none of ours are the event loop's and the interpreter's.  Whether a sample was
in the kernel is told by the function of the C library at its end.  Who waits, for a lock or for
something to arrive, counts nothing.  Of the Spark workloads the whole is told, Spark's JVM and the
broker too: see `spark_profile`.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

from benchmarks.__main__ import RESULTS
from benchmarks.peers.pop import WORKS, PopSide, PopWork, grpc_load, new_group, our_pops, prepare
from benchmarks.peers.python import client_python
from benchmarks.peers.sides import BACKLOG, Load, fill, our_side
from benchmarks.peers.spark_profile import ELSEWHERE, spark_loads
from benchmarks.peers.spark_profile import TITLES as SPARK_TITLES
from benchmarks.report.results import save
from support.interop.jvm import missing_tools

PY_SPY = "0.4.3"
SAMPLES_A_SECOND = 250
SECONDS = 8
SHOWN = 6
"""Modules told of each load."""

LEAST_SHARE = 0.02

_OURS = re.compile(r"flintmq/(?P<module>\w+(?:/\w+)+)\.py")
_LIBC = re.compile(r"^(?P<function>\w+) \((libc|ld-linux)")
_SYSTEM = re.compile(r"send|recv|write|read|poll|epoll_ctl|ioctl|fcntl|sync|accept")
_WAITS = re.compile(
    r"PyThread_acquire_lock_timed|take_gil|pthread_cond_\w*wait|epoll_p?wait|;poll "
)


@dataclass(frozen=True)
class Case:
    """A load, by the title of its goal; whose CPU is looked at; what makes it, by name server."""

    title: str
    is_client: bool
    command: str


CASES = (
    Case("sync send 128 B, 1 thread", False, "send {} p 128 1 {}"),
    Case("sync send 128 B, 16 threads", False, "send {} p 128 16 {}"),
    Case("sync send 128 B, 64 threads", False, "send {} p 128 64 {}"),
    Case("sync send 1 KiB, 64 threads", False, "send {} p 1024 64 {}"),
    Case("batch send 32 x 128 B, 4 threads", False, "batch {} p 128 4 {} 32"),
    Case("pull of a backlog, 32 a pull, 128 B", False, f"pull {{}} backlog_128 {BACKLOG}"),
    Case("end to end at 1,000 a second", False, "latency {} q 1000 {}"),
    Case("push of a backlog, 128 B, 1 a call", True, f"push {{}} backlog_128 {BACKLOG} 1"),
    Case("push of a backlog, 128 B, 32 a call", True, f"push {{}} backlog_128 {BACKLOG} 32"),
    Case("pull of a backlog, 128 B", True, f"pull {{}} backlog_128 {BACKLOG} 1024"),
    Case("lite pull of a backlog, 128 B", True, f"lite {{}} backlog_128 {BACKLOG} 1024"),
    Case("send one by one, 128 B", True, "send {} p 128 1 {}"),
    Case("send many at once, 128 B", True, "many {} p 128 {} 1000"),
)


TITLES = (*(case.title for case in CASES), *(work.name for work in WORKS), *SPARK_TITLES)
"""Everything that has a profile."""


def parts_of(
    stacks: Iterable[str], elsewhere: str = "event loop, interpreter"
) -> tuple[Counter[str], int]:
    """Samples of each module of ours, or of what else there is, and those in the kernel."""
    found: Counter[str] = Counter()
    in_kernel = 0
    for line in stacks:
        stack, _, count = line.rpartition(" ")
        if _WAITS.search(stack):
            continue
        frames = stack.split(";")
        ours = (match["module"] for frame in reversed(frames) if (match := _OURS.search(frame)))
        found[next(ours, elsewhere)] += int(count)
        leaf = _LIBC.match(frames[-1])
        if leaf is not None and _SYSTEM.search(leaf["function"]):
            in_kernel += int(count)
    return found, in_kernel


def told(found: Counter[str], in_kernel: int) -> dict[str, object]:
    total = max(1, found.total())
    shares = ((name, count / total) for name, count in found.most_common(SHOWN))
    return {
        "samples": found.total(),
        "kernel": in_kernel / total,
        "parts": [[name, share] for name, share in shares if share >= LEAST_SHARE],
    }


def keep_busy(run_once: Callable[[], object], stop: threading.Event) -> None:
    while not stop.is_set():
        run_once()


def stacks_of(pid: int, seconds: int, work: Path, *more: str) -> Iterator[str]:
    """What a process does meanwhile; ``more`` is told to the sampler."""
    out = work / "stacks"
    program = client_python("py-spy", PY_SPY).parent / "py-spy"
    limits = ["--rate", str(SAMPLES_A_SECOND), "--duration", str(seconds)]
    how = ["--native", "--format", "raw", "--output", str(out)]
    ended = subprocess.run(
        [program, "record", "--pid", str(pid), *limits, *how, *more],
        check=False,
        capture_output=True,
        text=True,
    )
    if ended.returncode:
        raise SystemExit(f"py-spy: {ended.stderr.strip()}")
    yield from out.read_text().splitlines()


@contextmanager
def busy_with(run_once: Callable[[], object]) -> Iterator[None]:
    """While a load runs again and again, once it ran for the first time."""
    run_once()
    stop = threading.Event()
    busy = threading.Thread(target=keep_busy, args=(run_once, stop))
    busy.start()
    try:
        yield
    finally:
        stop.set()
        busy.join()


def profiled(run_once: Callable[[], object], pid: int, seconds: int, work: Path) -> object:
    """Where the CPU of a process goes while a load runs again and again."""
    with busy_with(run_once):
        return told(*parts_of(stacks_of(pid, seconds, work)))


def of_remoting(cases: list[Case], seconds: int, work: Path) -> Iterator[tuple[str, object]]:
    """Sends, pulls and pushes, at a broker of ours."""
    with our_side(work / "ours") as side:
        java, ours = Load.java(work), Load.ours()
        fill(java, side, 128)
        java.run(f"send {side.namesrv} q 128 1 1")
        for case in cases:
            print(f"… {case.title}", flush=True)
            load = ours if case.is_client else java
            pid = load.pid if case.is_client else side.pid
            run_once = partial(load.run, case.command.format(side.namesrv, 3))
            yield case.title, profiled(run_once, pid, seconds, work)
        java.close()
        ours.close()


def of_pops(works: list[PopWork], seconds: int, work: Path) -> Iterator[tuple[str, object]]:
    """Pops and gRPC, at a broker of ours with a proxy in it."""
    numbers = count(1)

    def run_once(side: PopSide, load: Load, case: PopWork) -> object:
        group = new_group(side, next(numbers), case)
        return load.run(case.command(side, group, 3))

    with our_pops(work / "pops") as side:
        java, grpc = Load.java(work), grpc_load(work / "grpc")
        prepare(side, java)
        for case in works:
            print(f"… {case.name}", flush=True)
            run = partial(run_once, side, grpc if case.is_grpc else java, case)
            yield case.name, profiled(run, side.broker.pid, seconds, work)
        java.close()
        grpc.close()


def of_spark(titles: list[str], seconds: int, work: Path) -> Iterator[tuple[str, object]]:
    """Our source, sink and listeners: Spark's JVM and Python, and the broker."""
    with spark_loads(titles, work / "spark") as loads:
        for title, load in loads.items():
            print(f"… {title}", flush=True)
            with busy_with(load.run_once):
                before = load.account()
                samples, _ = parts_of(
                    stacks_of(load.pid, seconds, work, "--subprocesses"), ELSEWHERE
                )
                used = load.account().since(before)
            yield title, used.told(samples, SHOWN, LEAST_SHARE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=SECONDS, help="of each load")
    parser.add_argument("--only", nargs="*", default=[], help="loads whose name contains this")
    parser.add_argument("--out", type=Path, default=RESULTS / "profile.json")
    chosen = parser.parse_args()
    if reason := missing_tools("java", "mvn"):
        print(f"skipped: {reason}")
        return 0

    def is_chosen(title: str) -> bool:
        return not chosen.only or any(part in title for part in chosen.only)

    cases = [case for case in CASES if is_chosen(case.title)]
    works = [case for case in WORKS if is_chosen(case.name)]
    on_spark = [title for title in SPARK_TITLES if is_chosen(title)]
    found: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as name:
        if cases:
            found.update(of_remoting(cases, chosen.seconds, Path(name)))
        if works:
            found.update(of_pops(works, chosen.seconds, Path(name)))
        if on_spark:
            found.update(of_spark(on_spark, chosen.seconds, Path(name)))
    settings = {"seconds": chosen.seconds, "samples a second": SAMPLES_A_SECOND}
    save(
        chosen.out,
        [],
        versions={"py-spy": PY_SPY},
        settings=settings,
        profiles=found,
        adds=bool(chosen.only),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
