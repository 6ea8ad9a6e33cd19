"""A store that was not closed, or was damaged, comes back with everything its log still says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shutil import rmtree

import pytest

from flintmq.model.queue import LogOffset
from flintmq.model.topic import SCHEDULE_TOPIC
from flintmq.store.check.findings import Severity
from flintmq.store.check.store_check import check_store
from flintmq.store.files.disk import Disk
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.message_log import MessageLog
from support.store.real_stores import ALL, PLAIN, setting, unpack_store
from support.store.recovering import files, filled, flip, kill
from support.store.stored import SMALL, START_MS, bodies, draft, open_store, read, store

KINDS = ("commitlog", "consumequeue", "consumequeue_ext")


def wrong(directory: Path) -> list[str]:
    report = check_store(Disk(), directory, SMALL)
    return [str(f) for f in report.findings.kept if f.severity is not Severity.LOST]


@pytest.mark.parametrize("abort", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_a_real_directory_is_not_changed_by_opening_it(
    name: str, abort: bool, tmp_path: Path
) -> None:
    directory = unpack_store(name, tmp_path)
    before = files(directory, *KINDS)
    if abort:
        (directory / "abort").touch()

    MessageLog.open(directory, StoreConfig(), process_id=1).close()

    assert files(directory, *KINDS) == before


@pytest.mark.parametrize("abort", [False, True])
@pytest.mark.parametrize("name", PLAIN)
def test_queues_of_a_real_directory_are_rebuilt_byte_for_byte(
    name: str, abort: bool, tmp_path: Path
) -> None:
    directory = unpack_store(name, tmp_path)
    before = files(directory, "consumequeue")
    config = StoreConfig(queue_file_bytes=setting(name, "mappedFileSizeConsumeQueue"))
    rmtree(directory / "consumequeue")
    rmtree(directory / "index")
    if abort:
        (directory / "abort").touch()

    MessageLog.open(directory, config, process_id=1).close()

    assert files(directory, "consumequeue") == before
    assert wrong(directory) == []


def test_one_lost_queue_is_rebuilt_after_a_crash(tmp_path: Path) -> None:
    kill(filled(tmp_path, 60))
    before = files(tmp_path, "consumequeue")
    rmtree(tmp_path / "consumequeue" / "T")

    log = open_store(tmp_path)

    assert files(tmp_path, "consumequeue") == before
    log.close()


def test_half_a_record_behind_the_end_is_wiped(tmp_path: Path) -> None:
    log = filled(tmp_path, 5)
    end = log.end_offset
    kill(log)
    path = tmp_path / "commitlog" / f"{0:020d}"
    with path.open("r+b") as file:
        file.seek(end)
        file.write(draft(b"x" * 100).octets()[:80])

    log = open_store(tmp_path)

    assert log.end_offset == end
    assert any(f"{path} at byte {end}" in text for text in log.complaints)
    assert path.read_bytes()[end:].strip(b"\0") == b""
    log.close()


def test_a_damaged_last_record_is_a_tail_and_is_cut(tmp_path: Path) -> None:
    log = filled(tmp_path, 6)
    last = store(log, b"the last one", "T", now_ms=START_MS + 60_000)
    kill(log)
    flip(tmp_path, last.log_offset + 90)

    log = open_store(tmp_path)

    assert log.end_offset == last.log_offset
    assert log.max_offset("T", 0) == last.queue_offset
    assert wrong(tmp_path) == []
    log.close()


@pytest.mark.parametrize("at", [0, 5, 30, 95])
def test_a_damaged_record_in_the_middle_costs_itself_alone(at: int, tmp_path: Path) -> None:
    log = filled(tmp_path, 40)
    all_bodies = bodies(log)
    lost = log.lookup.by_key("T", "k10", 1, 0, 2**60)
    place = int.from_bytes(lost.views[0][28:36])
    kill(log)
    flip(tmp_path, place + at)

    log = open_store(tmp_path)

    assert bodies(log) == [body for body in all_bodies if not body.startswith(b"010")]
    assert read(log, 5, 1).next_offset == 7
    assert any(f"at byte {place % 4096}" in text for text in log.complaints)
    assert log.lookup.record_at(LogOffset(place)) is None
    log.close()


def test_a_record_inside_a_body_is_no_record(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    inner = draft(b"not me", "T").octets()
    first = store(log, b"x" * 50 + inner * 3 + b"y" * 50)
    store(log, b"after it")
    kill(log)
    flip(tmp_path, first.log_offset + 100)

    log = open_store(tmp_path)

    assert bodies(log) == [b"after it"]
    log.close()


def test_a_flipped_queue_offset_costs_that_record_alone(tmp_path: Path) -> None:
    log = filled(tmp_path, 40)
    all_bodies = bodies(log)
    place = int.from_bytes(log.lookup.by_key("T", "k10", 1, 0, 2**60).views[0][28:36])
    kill(log)
    flip(tmp_path, place + 26)  # queue offset 5 becomes 261

    log = open_store(tmp_path)

    assert bodies(log) == [body for body in all_bodies if not body.startswith(b"010")]
    assert any("contradicts the records around it" in text for text in log.complaints)
    log.close()


def test_units_of_delayed_messages_carry_their_time_again(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    octets = draft(b"later", SCHEDULE_TOPIC, 2, DELAY="3")
    log.append(*octets, delay_level=3, now_ms=START_MS)
    log.write()
    log.flush()
    kill(log)
    before = files(tmp_path, "consumequeue")
    rmtree(tmp_path / "consumequeue")

    open_store(tmp_path).close()

    after = files(tmp_path, "consumequeue")
    assert after == before
    assert int.from_bytes(next(iter(after.values()))[12:20]) == START_MS + 10_000


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_deleted_topic_stays_deleted(is_clean: bool, tmp_path: Path) -> None:
    log = filled(tmp_path, 30)
    log.delete_topic("T")
    if is_clean:
        log.close()
    else:
        kill(log)

    log = open_store(tmp_path)

    assert {span.topic for span in log.queues()} == {"U"}
    assert wrong(tmp_path) == []
    log.close()


def test_a_topic_made_anew_begins_anew_after_a_crash(tmp_path: Path) -> None:
    log = filled(tmp_path, 30)
    log.delete_topic("T")
    store(log, b"first again", "T", now_ms=START_MS + 60_000)
    log.flush()
    kill(log)
    rmtree(tmp_path / "consumequeue")

    log = open_store(tmp_path)

    assert bodies(log) == [b"first again"]
    assert len(bodies(log, "U")) == 15
    log.close()


def test_units_ahead_of_the_log_are_cut(tmp_path: Path) -> None:
    log = filled(tmp_path, 4)
    third = int.from_bytes(log.lookup.by_key("T", "k2", 1, 0, 2**60).views[0][28:36])
    kill(log)
    path = tmp_path / "commitlog" / f"{0:020d}"
    content = path.read_bytes()
    path.write_bytes(content[:third].ljust(len(content), b"\0"))

    log = open_store(tmp_path)

    assert (log.max_offset("T", 0), log.max_offset("U", 0)) == (1, 1)
    assert not log.lookup.by_key("T", "k2", 1, 0, 2**60).views
    assert wrong(tmp_path) == []
    log.close()


def test_an_index_of_unknown_shape_is_set_aside_and_made_anew(tmp_path: Path) -> None:
    filled(tmp_path, 30).close()
    old = next((tmp_path / "index").iterdir())
    old.write_bytes(b"\x55" * 1001)

    log = open_store(tmp_path)

    assert (tmp_path / "index.aside" / old.name).read_bytes() == b"\x55" * 1001
    assert len(log.lookup.by_key("T", "k10", 1, 0, 2**60).views) == 1
    log.close()
    assert wrong(tmp_path) == []


def test_only_files_after_the_checkpoint_are_read(tmp_path: Path) -> None:
    """A record far before it may even be damaged: reading finds out, starting does not."""
    log = filled(tmp_path, 120)
    log._sync_all()
    kill(log)
    flip(tmp_path, 95)

    log = open_store(tmp_path)

    assert log.complaints == ()
    log.close()


def test_a_power_cut_during_a_rebuild_begins_it_again(tmp_path: Path) -> None:
    """Also when all that was lost again is older than the checkpoint before."""
    log = open_store(tmp_path)
    store(log, b"old", "U", now_ms=START_MS, keys=("k",), KEYS="k")
    for number in range(100):
        store(log, b"%d" % number, "T", now_ms=START_MS + number * 1000)
    log.close()
    before = files(tmp_path, "consumequeue")
    rmtree(tmp_path / "consumequeue")

    class Dying(Disk):
        def sync(self, path: Path) -> None:
            if "consumequeue" in path.parts:
                raise KeyboardInterrupt
            super().sync(path)

    with pytest.raises(KeyboardInterrupt):
        open_store(tmp_path, disk=Dying())
    rmtree(tmp_path / "consumequeue" / "U")
    open_store(tmp_path).close()

    assert files(tmp_path, "consumequeue") == before


def test_extended_queues_are_rebuilt_with_their_extension(tmp_path: Path) -> None:
    config = replace(SMALL, extended_queues=True)
    kill(filled(tmp_path, 40, config))
    rmtree(tmp_path / "consumequeue")

    log = open_store(tmp_path, config)

    assert len(bodies(log)) == 20
    log.close()
    assert wrong(tmp_path) == []


def test_the_only_record_of_a_lost_new_queue_is_believed(tmp_path: Path) -> None:
    """Though others have queues and old files are gone, so that nothing speaks for it."""
    log = filled(tmp_path, 60)
    store(log, b"alone", "N", now_ms=START_MS + 70_000)
    log.flush()
    kill(log)
    (tmp_path / "commitlog" / f"{0:020d}").unlink()
    rmtree(tmp_path / "consumequeue" / "N")

    log = open_store(tmp_path)

    assert bodies(log, "N") == [b"alone"]
    assert log.complaints == ()
    log.close()
