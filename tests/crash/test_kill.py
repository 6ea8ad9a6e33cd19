"""A broker process that is killed loses nothing it has acknowledged, and is back at once.

A process writes to a store on the real disk, syncs, and prints what is safe.  It is killed at
a moment drawn from the seed, again and again on the same directory.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from crash.writer import CONFIG, body_of
from flintmq.store.check.store_check import check_store
from flintmq.store.files.disk import Disk
from flintmq.store.message_log import MessageLog
from support.crash.workload import abandon, served

WRITER = Path(__file__).with_name("writer.py")
SLOW_MS = 3_000
"""How soon a killed broker is back."""


def write_and_kill(directory: Path, seed: int, after_s: float) -> tuple[list[str], float]:
    """Let a process write for a while and kill it; tell what it acknowledged, and its start."""
    process = subprocess.Popen(
        [sys.executable, WRITER, directory, str(seed)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    opened = process.stdout.readline().split()
    stop = time.monotonic() + after_s
    lines: list[str] = []
    while time.monotonic() < stop:
        lines.append(process.stdout.readline())
    process.kill()
    rest = process.stdout.read()
    process.stdout.close()
    process.wait()
    whole = ("".join(lines) + rest).rpartition("\n")[0]
    return whole.splitlines(), float(opened[1])


def run_kills(directory: Path, kills: int, seed: int) -> None:
    chance = Random(seed)
    acknowledged: dict[tuple[str, int, int], int] = {}
    starts_ms = []
    for kill in range(kills):
        lines, opened_ms = write_and_kill(directory, seed + kill, chance.uniform(0.02, 0.3))
        starts_ms.append(opened_ms)
        for line in lines:
            number, topic, queue_id, offset = line.split()
            acknowledged[topic, int(queue_id), int(offset)] = int(number)
    began = time.monotonic()
    log = MessageLog.open(directory, CONFIG, process_id=1)
    starts_ms.append((time.monotonic() - began) * 1000)
    found = served(log)
    abandon(log)
    for key, sent in acknowledged.items():
        assert key in found, f"{sent} at {key} was acknowledged and is gone"
        assert found[key].body == body_of(sent)
    with Disk() as disk:
        report = check_store(disk, directory, CONFIG)
    assert report.findings.kept == []
    print(
        f"{kills} kills, {len(acknowledged)} acknowledged, {len(found)} found; "
        f"slowest start {max(starts_ms):.0f} ms of {SLOW_MS}"
    )


def test_nothing_acknowledged_is_lost_when_the_writer_is_killed(tmp_path: Path) -> None:
    run_kills(tmp_path / "store", kills=3, seed=1)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(1_000, 11_000, 1_000))
def test_nothing_acknowledged_is_lost_in_many_kills(seed: int, tmp_path: Path) -> None:
    run_kills(tmp_path / "store", kills=10, seed=seed)
