"""Whatever a power cut leaves of a store, it opens again and has all it promised.

A workload is recorded write by write, and then many of the states are laid out that a disk
may be in after a crash at any point of it: unsynced writes lost, reordered, torn at sectors,
names that came or went.  ``FLINTMQ_CRASH_STATES`` says how many.
"""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from shutil import rmtree

import pytest

from flintmq.store.check.findings import Severity
from flintmq.store.check.store_check import check_store
from flintmq.store.files import group_commit
from flintmq.store.files.disk import Disk
from flintmq.store.files.json_tables import Tables
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.message_log import MessageLog
from support.crash.recording import CrashState, RecordingDisk, crash_states
from support.crash.workload import (
    CONFIG,
    QuickDisk,
    Sent,
    Workload,
    abandon,
    file_bytes,
    served,
    still_due,
)

KINDS = ("commitlog", "consumequeue", "consumequeue_ext", "batchconsumequeue", "index")
PER_POINT = 6
HEAVY_STATES = int(os.environ.get("FLINTMQ_CRASH_STATES", "10000"))


class QuickRecordingDisk(RecordingDisk):
    """Notes syncs and leaves them out."""

    def sync(self, path: Path) -> None:
        self.note_sync(path)

    def sync_directory(self, path: Path) -> None:
        self.note_sync_directory(path)

    def sync_file_system(self) -> int | None:
        self.note_sync_of_all()
        return self.identity(self.root)[0]


def recorded(
    directory: Path, seed: int, turns: int, config: StoreConfig, batched: tuple[str, ...]
) -> Workload:
    workload = Workload(QuickRecordingDisk(directory), directory, Random(seed), config, batched)
    workload.run(turns)
    return workload


def verify(
    state: CrashState, sent: dict[int, Sent], old: Path, root: Path, config: StoreConfig
) -> None:
    state.lay_out(old, root)
    log = MessageLog.open(root, config, process_id=2, disk=QuickDisk())
    found = served(log)
    bodies = {(s.topic, s.queue_id, s.at.queue_offset, s.body) for s in sent.values()}
    for (topic, queue_id, offset), record in found.items():
        assert (topic, queue_id, offset, record.body) in bodies, "served what was never sent"
    for message in still_due(sent, state.acknowledged):
        key = (message.topic, message.queue_id, message.at.queue_offset)
        assert key in found, f"{message} was acknowledged and is gone"
        assert found[key].body == message.body, f"{message} was acknowledged"
        by_key = log.lookup.by_key(message.topic, message.key, 64, 0, 2**60)
        assert any(bytes(view).find(message.body) > 0 for view in by_key.views), message
    with QuickDisk() as disk:
        Tables(disk, root).delay_offsets.load()

    first = file_bytes(root, *KINDS)
    abandon(log)
    log = MessageLog.open(root, config, process_id=3, disk=QuickDisk())
    second = file_bytes(root, *KINDS)
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []
    log.close()

    log = MessageLog.open(root, config, process_id=4, disk=QuickDisk())
    third = file_bytes(root, *KINDS)
    assert [name for name in first if first[name] != third.get(name)] == []
    assert served(log).keys() == found.keys()
    holes = [complaint for complaint in log.complaints if "records after it stay" in complaint]
    log.close()

    with Disk() as disk:
        report = check_store(disk, root, config)
    kept = report.findings.kept
    assert [f for f in kept if f.severity is Severity.WRONG or "repeats" in f.what] == []
    assert report.findings.count(Severity.LOST) == 0 or holes


def verify_states(
    directory: Path,
    seed: int,
    turns: int,
    count: int,
    config: StoreConfig,
    batched: tuple[str, ...] = (),
) -> int:
    """Lay out about ``count`` of the states of one workload; tell how many."""
    workload = recorded(directory / "recorded", seed, turns, config, batched)
    notes = workload.disk.notes
    stride = max(1, len(notes) * PER_POINT // count) | 1
    done = 0
    for state in islice(crash_states(notes, seed, PER_POINT), 0, None, stride):
        root = directory / "state"
        try:
            verify(state, workload.sent, workload.directory, root, config)
        except BaseException as error:
            error.add_note(state.name)
            raise
        rmtree(root)
        done += 1
    return done


@pytest.mark.parametrize("seed", range(6))
def test_every_state_after_a_crash_opens_with_all_that_was_acknowledged(
    seed: int, tmp_path: Path
) -> None:
    config = replace(CONFIG, extended_queues=seed % 3 == 2)

    assert verify_states(tmp_path, seed, 30, 60, config) > 50


@pytest.mark.parametrize("seed", range(300, 304))
def test_one_sync_of_all_files_promises_as_much_as_one_of_each(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "MANY_FILES", 2)

    assert verify_states(tmp_path, seed, 30, 60, CONFIG) > 50


@pytest.mark.parametrize("seed", range(200, 204))
def test_every_state_after_a_crash_has_all_batches_that_were_acknowledged(
    seed: int, tmp_path: Path
) -> None:
    assert verify_states(tmp_path, seed, 30, 60, CONFIG, ("orders", "tasks")) > 50


@pytest.mark.heavy
@pytest.mark.parametrize("seed", range(100, 120))
def test_thousands_of_states_after_a_crash_open_with_all_that_was_acknowledged(
    seed: int, tmp_path: Path
) -> None:
    config = replace(CONFIG, extended_queues=seed % 3 == 2)

    batched = ("events",) if seed % 2 else ()

    assert verify_states(tmp_path, seed, 60, HEAVY_STATES // 20, config, batched) > 0
