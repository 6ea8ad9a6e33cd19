"""Killed at any moment, a query goes on where it was: nothing is lost, repeats can be dropped.

What is killed is drawn from the seed, and when: the driver, both its Python and its Java; the
Python workers of the tasks; the process of the source.  Sometimes the newest commit file of the
checkpoint is gone too, as if the disk had lost it.  What the killed leave behind lives on for as
long as it likes: a task may send its last rows beside the one that repeats it.

A lake of Delta needs a Spark that Delta has a release for; with any other, its test skips:

    build/sparks/4.2/bin/python -m pytest -m heavy --timeout 0 tests/scenarios/spark -k delta
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from random import Random
from urllib.parse import urlparse

import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.spark.pipelines.lake_formats import LakeFormat
from flintmq.spark.sink.drop_repeats import drop_repeats
from flintmq.spark.source.stream_offset import StreamOffset
from scenarios.spark.killed_program import (
    BATCH,
    COPIERS,
    COPY,
    KEEPERS,
    KEPT,
    LISTENED,
    LISTENERS,
    SOURCE,
)
from support.client.support import stored
from support.spark.lake_jars import lake_jars
from support.spark.support import create_topic, lag, read, traffic, wait_for

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(3_600), pytest.mark.java]

PROGRAM = Path(__file__).with_name("killed_program.py")
QUEUES = 4
EACH_S = 1.0
"""Between messages: a driver is away for longer than it runs, and has to catch up."""
KILLS = 10
LAKE_KILLS = int(os.environ.get("FLINTMQ_KILLS", "25"))
"""Of each format.  On two free cores 25 take some minutes; ``FLINTMQ_KILLS=5`` has fewer."""
SEED = 7
PATIENCE_S = 600.0
"""Without any progress.  Up to its first batch of Delta a driver uses 40 s of CPU, which take
minutes on a machine that has other work."""

DRIVER, WORKERS, SOURCE_PROCESS = "the driver", "the workers", "the process of the source"
KINDS = [DRIVER] * 5 + [WORKERS] * 3 + [SOURCE_PROCESS] * 2


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
        """Kill a part of it; whether it was there."""
        assert self._process is not None
        tree = self._tree()
        self._left |= set(tree)
        if kind == DRIVER:
            chosen = [self._process.pid, *(p for p, line in tree.items() if "java" in line)]
        elif kind == WORKERS:
            chosen = [pid for pid, line in tree.items() if "pyspark.daemon" in line]
        else:
            chosen = [pid for pid, line in tree.items() if "streaming_source_runner" in line]
        for pid in chosen:
            _kill(pid)
        if kind == DRIVER:
            self._process.wait()
        return bool(chosen)

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
        if kind != DRIVER or chance.random() < 0.7:
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


def forget_newest_commit(checkpoint: Path) -> bool:
    commits = checkpoint / "commits"
    found = numbers(commits)
    if not found:
        return False
    (commits / str(found[-1])).unlink()
    (commits / f".{found[-1]}.crc").unlink(missing_ok=True)
    return True


def batches(checkpoint: Path) -> list[StreamOffset]:
    """What each batch was to read, as Spark wrote it down before."""
    offsets = checkpoint / "offsets"
    lines = [(offsets / str(number)).read_text().splitlines() for number in numbers(offsets)]
    return [StreamOffset.from_json(json.loads(each[-1])) for each in lines]


def test_a_killed_query_leaves_no_gap_and_what_it_repeats_can_be_dropped(
    spark: SparkSession, tmp_path: Path
) -> None:
    chance, checkpoint, start_s = Random(SEED), tmp_path / "checkpoint", time.monotonic()
    kinds = chance.sample(KINDS, KILLS)
    forgotten = 0

    def committed() -> int:
        return len(numbers(checkpoint / "commits"))

    with EmbeddedBroker() as servers:
        create_topic(servers, SOURCE, QUEUES)
        create_topic(servers, COPY, QUEUES)
        program = Program("copy", servers, checkpoint, tmp_path / "log")
        try:
            with traffic(servers, SOURCE, QUEUES, each_s=EACH_S) as sent:
                for kind in kinds:
                    kill_once(program, kind, chance, committed)
                    if kind == DRIVER and chance.random() < 0.6:
                        forgotten += forget_newest_commit(checkpoint)
            until_done(program, committed, lambda: sent() > 0 and lag(servers, COPIERS) == 0)
        except BaseException:
            print(program.tail())
            raise
        finally:
            program.end()
        places = {f"{m.queue_id}-{m.queue_offset}" for m in stored(servers, SOURCE)}
        copies = stored(servers, COPY)
        kept = drop_repeats(read(spark, servers, subscribe=COPY, properties="map"))
        rows = Counter(bytes(row.body).decode() for row in kept.select("body").collect())

    took_s = time.monotonic() - start_s
    print(
        f"\n{KILLS} kills, {forgotten} commits forgotten, {program.starts} starts, "
        f"{len(places)} messages, {len(copies) - len(places)} repeats, {took_s:.0f} s"
    )
    assert len(places) == sent()
    assert {copy.properties["place"] for copy in copies} == places, "there is a gap"
    for earlier, later in pairwise(batches(checkpoint)):
        assert {span.queue: span.start for span in later.spans} == earlier.stops
    assert rows == {f"{number:06}": 1 for number in range(sent())}
    assert len(copies) - len(places) <= (KILLS + forgotten) * BATCH


@pytest.mark.parametrize("kind", [LakeFormat.PARQUET, LakeFormat.DELTA])
def test_a_lake_whose_driver_is_killed_has_each_message_once(
    kind: LakeFormat, tmp_path: Path
) -> None:
    chance, to, start_s, forgotten = Random(SEED), tmp_path / "lake", time.monotonic(), 0
    checkpoint, jars = to / "_checkpoint", lake_jars(kind)

    def committed() -> int:
        return len(numbers(checkpoint / "commits"))

    with EmbeddedBroker() as servers:
        create_topic(servers, KEPT, QUEUES)
        program = Program(kind, servers, to, tmp_path / "log", jars)
        try:
            with traffic(servers, KEPT, QUEUES, each_s=EACH_S) as sent:
                for kill in range(LAKE_KILLS):
                    kill_once(program, DRIVER, chance, committed)
                    if chance.random() < 0.4:
                        forgotten += forget_newest_commit(checkpoint)
                    took_s = time.monotonic() - start_s
                    print(f"kill {kill + 1}: {committed()} batches, {sent()} sent, {took_s:.0f} s")
            until_done(program, committed, lambda: sent() > 0 and lag(servers, KEEPERS) == 0)
        except BaseException:
            print(program.tail())
            raise
        finally:
            program.end()

    took_s = time.monotonic() - start_s
    print(
        f"\n{kind}: {LAKE_KILLS} kills, {forgotten} commits forgotten, {program.starts} starts, "
        f"{sent()} messages, {took_s:.0f} s"
    )
    for earlier, later in pairwise(batches(checkpoint)):
        assert {span.queue: span.start for span in later.spans} == earlier.stops
    if kind is LakeFormat.DELTA:
        table = DeltaTable(str(to)).to_pyarrow_table(columns=["body"])
    else:  # a query that was killed within a batch leaves files that do not count
        files = [entry["path"] for entry in counted_entries(to / "_spark_metadata")]
        table = ds.dataset([Path(urlparse(file).path) for file in files]).to_table(["body"])
    rows = Counter(table.column("body").to_pylist())
    assert rows == {b"%06d" % number: 1 for number in range(sent())}


def counted_entries(logs: Path) -> Iterator[dict[str, str]]:
    """Spark's log of files, read without Spark: the newest whole list and what follows."""
    whole = max((int(p.stem) for p in logs.glob("*.compact")), default=-1)
    names = [f"{whole}.compact"] if whole >= 0 else []
    names += [str(number) for number in numbers(logs) if number > whole]
    for name in names:
        for line in (logs / name).read_text().splitlines()[1:]:
            yield json.loads(line)


def test_listeners_of_a_killed_driver_hear_all_and_little_twice(tmp_path: Path) -> None:
    chance, diary, start_s = Random(SEED), tmp_path / "diary", time.monotonic()
    diary.touch()

    def heard() -> Counter[str]:
        return Counter(diary.read_text().split("\n")[:-1])

    with EmbeddedBroker() as servers:
        create_topic(servers, LISTENED, QUEUES)
        program = Program("listen", servers, diary, tmp_path / "log")
        kinds = [DRIVER, WORKERS, DRIVER, SOURCE_PROCESS]
        try:
            with traffic(servers, LISTENED, QUEUES, each_s=EACH_S) as sent:
                for kind in kinds:
                    kill_once(program, kind, chance, lambda: heard().total())
            until_done(
                program,
                lambda: heard().total(),
                lambda: len(heard()) == sent() and lag(servers, LISTENERS) == 0,
            )
        except BaseException:
            print(program.tail())
            raise
        finally:
            program.end()

    counts, took_s = heard(), time.monotonic() - start_s
    repeats = counts.total() - len(counts)
    print(f"\n{len(kinds)} kills, {sent()} messages, {repeats} repeats, {took_s:.0f} s")
    assert set(counts) == {f"{number:06}" for number in range(sent())}
    assert repeats <= len(kinds) * 2 * BATCH, "a batch, and one that the group was not told of"
