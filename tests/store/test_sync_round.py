"""A thorough sync of many queues goes in parts; a checkpoint is written when all are through."""

from __future__ import annotations

from pathlib import Path

import pytest

from flintmq.errors import DiskFailed
from flintmq.store import sync_round
from flintmq.store.files import group_commit
from flintmq.store.files.checkpoint import CheckpointFile
from flintmq.store.files.disk import Disk
from flintmq.store.files.group_commit import SyncPlan
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


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (group_commit, sync_round):
        monkeypatch.setattr(module, "MANY_FILES", QUEUES - 1)


def begun_beside(log: MessageLog) -> SyncPlan:
    plan = log.round.begin_beside()
    assert plan is not None
    return plan


def rest_of_round(log: MessageLog) -> int:
    """Go on until it is through; tell how many files that covered."""
    covered = 0
    while log.round.left:
        covered += sync(log)
    return covered


def test_a_round_takes_several_syncs_and_ends_with_a_checkpoint(tmp_path: Path) -> None:
    log = opened(tmp_path)

    sizes = [sync(log, thorough=True)]
    first_durable_to = log.durable_to
    while log.round.left:
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
    assert log.round.left
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

    assert not log.round.left
    assert checkpoint_ms(tmp_path) < STORE_MS
    covered = sync(log, thorough=True) + rest_of_round(log)
    assert covered >= 1 + QUEUES - 2, "all but the two that were through before"
    assert checkpoint_ms(tmp_path) == STORE_MS + 1_000
    log.close()


@pytest.mark.usefixtures("few_are_many")
def test_many_queues_are_synced_beside_the_log_which_does_not_wait(tmp_path: Path) -> None:
    log = opened(tmp_path)

    assert sync(log, thorough=True) == 0, "the log alone"
    plan = begun_beside(log)
    assert log.round.begin_beside() is None, "one at a time"
    store(log, b"x", "T", 0, now_ms=STORE_MS + 1)
    assert sync(log) == 0
    assert log.durable_to == log.end_offset
    plan.run()
    log.finish_sync(plan)

    assert len(plan.parts) == QUEUES
    assert checkpoint_ms(tmp_path) < STORE_MS, "the index is not synced yet"
    assert sync(log) == 1
    assert checkpoint_ms(tmp_path) == STORE_MS, "what came later is for the next round"
    log.close()


@pytest.mark.usefixtures("few_are_many")
def test_no_round_begins_while_queues_of_one_that_was_given_up_are_synced(tmp_path: Path) -> None:
    """They are not dirty any more, and not on disk yet: a new round would not see them."""
    disk = RefusingDisk()
    log = opened(tmp_path, disk)
    plan = log.begin_sync(thorough=True, files_max=3)
    assert plan is not None
    beside = begun_beside(log)
    disk.changes_left = 0
    plan.run()
    with pytest.raises(DiskFailed):
        log.finish_sync(plan)
    disk.changes_left = None
    store(log, b"x", "T", 0, now_ms=STORE_MS + 1_000)

    sync(log, thorough=True)
    assert not log.round.left
    disk.changes_left = 0
    beside.run()
    with pytest.raises(DiskFailed):
        log.finish_sync(beside)
    disk.changes_left = None
    store(log, b"x", "T", 0, now_ms=STORE_MS + 2_000)

    sync(log, thorough=True)
    again = begun_beside(log)
    assert len(again.parts) == QUEUES, "none is forgotten"
    again.run()
    log.finish_sync(again)
    rest_of_round(log)
    assert checkpoint_ms(tmp_path) == STORE_MS + 2_000
    log.close()


@pytest.mark.usefixtures("few_are_many")
def test_a_file_that_somebody_removed_is_missed_by_a_sync_of_all(tmp_path: Path) -> None:
    log = opened(tmp_path)
    sync(log, thorough=True)
    plan = begun_beside(log)
    next((tmp_path / "consumequeue" / "T" / "4").iterdir()).unlink()

    plan.run()

    with pytest.raises(DiskFailed, match="T/4"):
        log.finish_sync(plan)
