"""A thorough sync of many queues goes in parts; a checkpoint is written when all are through."""

from __future__ import annotations

from pathlib import Path

import pytest

from flintmq.errors import DiskFailed
from flintmq.store.files.checkpoint import CheckpointFile
from flintmq.store.files.disk import Disk
from flintmq.store.files.layout import CHECKPOINT_FILE
from flintmq.store.message_log import MessageLog
from support.store.refusing_disk import RefusingDisk
from support.store.stored import SMALL, START_MS, store

QUEUES = 10
STORE_MS = START_MS + 5_000


def opened(directory: Path, disk: Disk | None = None) -> MessageLog:
    log = MessageLog.open(directory, SMALL, process_id=1, disk=disk)
    for queue_id in range(QUEUES):
        store(log, b"x", "T", queue_id, now_ms=STORE_MS)
    return log


def checkpoint_ms(directory: Path) -> int:
    return CheckpointFile(Disk(), directory / CHECKPOINT_FILE).read().queues_ms


def sync(log: MessageLog, *, thorough: bool = False) -> int:
    """One sync of at most three files beside the log; tell how many it covered."""
    plan = log.begin_sync(thorough=thorough, files_max=3)
    assert plan is not None
    plan.run()
    log.finish_sync(plan)
    return len(plan.parts) - 1


def rest_of_round(log: MessageLog) -> int:
    """Go on until it is through; tell how many files that covered."""
    covered = 0
    while log.has_round:
        covered += sync(log)
    return covered


def test_a_round_takes_several_syncs_and_ends_with_a_checkpoint(tmp_path: Path) -> None:
    log = opened(tmp_path)

    sizes = [sync(log, thorough=True)]
    first_durable_to = log.durable_to
    while log.has_round:
        assert checkpoint_ms(tmp_path) < STORE_MS
        sizes.append(sync(log))

    assert first_durable_to == log.end_offset, "the log does not wait for the queues"
    assert sizes == [3, 3, 3, 2], "ten queues and the index"
    assert checkpoint_ms(tmp_path) == STORE_MS
    log.close()


def test_records_stored_during_a_round_are_durable_with_its_next_sync(tmp_path: Path) -> None:
    log = opened(tmp_path)
    sync(log, thorough=True)

    store(log, b"x", "T", 0, now_ms=STORE_MS + 1)
    sync(log)

    assert log.durable_to == log.end_offset
    assert log.has_round
    log.close()
    assert checkpoint_ms(tmp_path) == STORE_MS + 1, "closing covers everything"


def test_a_round_that_fails_is_begun_anew(tmp_path: Path) -> None:
    disk = RefusingDisk()
    log = opened(tmp_path, disk)
    sync(log, thorough=True)
    plan = log.begin_sync(files_max=3)
    assert plan is not None
    disk.changes_left = 0

    plan.run()
    with pytest.raises(DiskFailed):
        log.finish_sync(plan)
    disk.changes_left = None
    store(log, b"x", "T", 0, now_ms=STORE_MS + 1_000)

    assert not log.has_round
    assert checkpoint_ms(tmp_path) < STORE_MS
    covered = sync(log, thorough=True) + rest_of_round(log)
    assert covered >= 1 + QUEUES - 2, "all but the two that were through before"
    assert checkpoint_ms(tmp_path) == STORE_MS + 1_000
    log.close()
