"""Killed at any moment, a run that pops loses nothing, and repeats only what it had not settled.

What is killed is drawn from the seed: the JVM of the driver, the driver with its Python, or all
its processes at once, so that nobody returns what was popped.  After each kill the checkpoint says
which micro-batches Spark had committed.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from pathlib import Path
from random import Random

import pytest

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.spark.source.control_files import ControlFiles
from scenarios.spark.killed_program import BATCH, LISTENED, LISTENERS
from support.spark.driver_program import (
    DRIVER,
    EVERYTHING,
    JVM,
    Program,
    kill_once,
    numbers,
    until_done,
)
from support.spark.popping_program import Micro, app_of
from support.spark.support import create_topic, traffic

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(3_600), pytest.mark.java]

QUEUES = 4
EACH_S = 1.0
"""Between messages: a driver is away for longer than it runs, and has to catch up."""
KINDS = [JVM] * 5 + [DRIVER] * 2 + [EVERYTHING] * 2
SEED = 7
INVISIBLE_S = 30


class Notes:
    """What the program wrote down."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._diary = directory / "heard"
        self._diary.touch()

    def lines(self) -> list[list[str]]:
        """Who heard which message: the start of the program, the body, the message id."""
        return [line.split() for line in self._diary.read_text().split("\n")[:-1]]

    def bodies(self) -> Counter[str]:
        return Counter(body for _, body, _ in self.lines())

    def committed(self) -> dict[str, list[set[str]]]:
        """The message ids of the micro-batches that Spark has committed, by start, in order."""
        found: dict[str, list[set[str]]] = {start: [] for start, _, _ in self.lines()}
        done = set(numbers(self._directory / "checkpoint" / "commits"))
        files = [each.name.split("-") for each in self._directory.glob("*-*")]
        for start, number in sorted(files, key=lambda name: (name[0], int(name[1]))):
            if int(number) in done:
                ids = (self._directory / f"{start}-{number}").read_text().split()
                found.setdefault(start, []).append(set(ids))
        return found


def test_a_killed_driver_that_pops_acknowledges_only_what_is_committed(tmp_path: Path) -> None:
    chance, since_s = Random(SEED), time.monotonic()
    kinds = chance.sample(KINDS, len(KINDS))
    notes, known = Notes(tmp_path), dict[str, list[set[str]]]()

    def heard_count() -> int:
        return len(notes.lines())

    with EmbeddedBroker() as servers:
        create_topic(servers, LISTENED, QUEUES)
        program = Program("pop", servers, tmp_path, tmp_path / "log")
        try:
            with traffic(servers, LISTENED, QUEUES, each_s=EACH_S) as sent:
                for kind in kinds:
                    kill_once(program, kind, chance, heard_count)
                    known = notes.committed() | known
                    servers.advance(INVISIBLE_S)
            until_done(program, heard_count, lambda: len(notes.bodies()) == sent())
            program.stop()
        except BaseException:
            print(program.tail())
            raise
        finally:
            program.end()
        assert left(servers, tmp_path) == [], "all are acknowledged"

    heard = defaultdict[str, set[str]](set)
    for start, _, message_id in notes.lines():
        heard[start].add(message_id)
    starts = sorted(heard)
    counts = notes.bodies()
    uncommitted = unsettled = 0
    for killed, start in enumerate(starts[:-1]):
        batches = known[start]
        committed = set().union(*batches)
        later = set().union(*(heard[each] for each in starts[killed + 1 :]))
        again = heard[start] & later
        assert heard[start] - committed <= later, "what is not committed is not acknowledged"
        assert again & committed <= (batches[-1] if batches else set()), "that was settled"
        uncommitted += len(heard[start] - committed)
        unsettled += len(again & committed)
    repeats = counts.total() - len(counts)
    print(
        f"\n{len(kinds)} kills, {program.starts} starts, {sent()} messages, {repeats} repeats: "
        f"{uncommitted} of micro-batches that were not committed, {unsettled} of those that were "
        f"and not yet acknowledged; {time.monotonic() - since_s:.0f} s"
    )
    assert set(counts) == {f"{number:06}" for number in range(sent())}, "nothing is lost"
    assert uncommitted > 0
    assert repeats == uncommitted + unsettled <= len(kinds) * 2 * BATCH


def left(servers: EmbeddedBroker, directory: Path) -> list[str]:
    """What the brokers still have for the group, when every invisible time is over."""
    servers.advance(3_600)
    diary, control = directory / "left", directory / "control"
    control.mkdir()
    diary.touch()
    app = app_of(servers.namesrv, LISTENERS, LISTENED, str(diary))
    micro = Micro(app, ControlFiles(str(control)))
    micro.driver.stop_at_now()
    try:
        while micro.run_batch():
            micro.settle()
    finally:
        micro.driver.close()
    return diary.read_text().split()
