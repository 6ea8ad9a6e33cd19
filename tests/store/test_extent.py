"""A store tells where its log begins, how old its first record is and how full its disk is."""

from __future__ import annotations

from pathlib import Path

from flintmq.store.files.disk import Disk
from support.store.stored import START_MS, draft_of, open_store, store

HOUR_MS = 3_600_000


class SmallDisk(Disk):
    def usage(self, directory: Path) -> tuple[int, int]:
        return 300, 700


def test_an_empty_store_begins_at_0_and_has_no_first_record(tmp_path: Path) -> None:
    log = open_store(tmp_path)

    assert (log.extent.start_offset, log.extent.earliest_ms()) == (0, None)
    log.close()


def test_the_first_record_that_is_kept_is_the_earliest(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    store(log, now_ms=START_MS)
    assert log.extent.earliest_ms() == START_MS
    for number in range(8):
        log.append(*draft_of(1_000), now_ms=START_MS + number)
        log.write()

    log.retain(START_MS + 100 * HOUR_MS, due=True)

    assert log.extent.start_offset == 2 * log.config.commit_log_file_bytes
    earliest_ms = log.extent.earliest_ms()
    assert earliest_ms is not None
    assert earliest_ms > START_MS
    log.close()


def test_the_disk_is_asked_each_time(tmp_path: Path) -> None:
    log = open_store(tmp_path, disk=SmallDisk())

    assert log.extent.disk_bytes() == (300, 700)
    log.close()
