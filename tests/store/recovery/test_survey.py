"""A directory is understood before it is touched: its sizes are learnt, and what we cannot serve
is refused or named.
"""

from __future__ import annotations

import json
import logging
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.errors import StoreRefused
from flintmq.store.files.disk import Disk
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.message_log import MessageLog
from flintmq.store.recovery.survey import StoreSurvey, TimerProgress, survey, timer_progress
from support.store.real_stores import ALL, EXTENDED, unpack_store
from support.store.stored import SMALL, START_MS, bodies, draft_of, open_store, store


def look(directory: Path, config: StoreConfig = SMALL) -> StoreSurvey:
    return survey(Disk(), directory, config)


def make(path: Path, size_bytes: int = 0) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size_bytes))


def logs(directory: Path, *files: tuple[int, int]) -> None:
    for start, size_bytes in files:
        make(directory / "commitlog" / f"{start:020d}", size_bytes)


def refusal(directory: Path) -> str:
    with pytest.raises(StoreRefused) as refused:
        look(directory)
    return str(refused.value)


# Sizes


def test_a_new_directory_takes_the_sizes_it_is_given(tmp_path: Path) -> None:
    found = look(tmp_path / "new")

    assert found == StoreSurvey(SMALL, (), ())


@pytest.mark.parametrize("name", ALL)
def test_sizes_of_a_real_directory_are_learnt_and_the_difference_is_told(
    tmp_path: Path, name: str
) -> None:
    directory = unpack_store(name, tmp_path)

    found = look(directory, StoreConfig())

    extension_bytes = 1024 if name in EXTENDED else 48 << 20
    assert found.config == replace(
        StoreConfig(),
        commit_log_file_bytes=65_536,
        queue_file_bytes=1_000,
        extension_file_bytes=extension_bytes,
    )
    assert any("commit_log_file_bytes is 65536" in complaint for complaint in found.complaints)
    assert any("1073741824" in complaint for complaint in found.complaints)
    assert any("queue_file_bytes is 1000" in complaint for complaint in found.complaints)


def test_a_configuration_that_fits_is_not_complained_about(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    store(log)
    log.close()

    assert look(tmp_path).complaints == ()


def test_what_was_learnt_is_logged_and_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_store(tmp_path)
    for _ in range(30):
        store(log, b"x" * 300)
    log.close()

    with caplog.at_level(logging.WARNING, logger="flintmq.store"):
        log = open_store(tmp_path, replace(SMALL, commit_log_file_bytes=8192, queue_file_bytes=400))
    for _ in range(30):
        store(log, b"x" * 300)

    assert "commit_log_file_bytes is 4096 by its files, 8192 is set aside" in caplog.text
    assert "queue_file_bytes is 200 by its files, 400 is set aside" in caplog.text
    assert {path.stat().st_size for path in (tmp_path / "commitlog").iterdir()} == {4096}
    assert {path.stat().st_size for path in (tmp_path / "consumequeue/T/0").iterdir()} == {200}
    assert len(bodies(log)) == 60


def test_the_shape_of_the_index_is_learnt_and_the_difference_is_told(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    store(log, keys=("k",))
    log.close()

    log = open_store(tmp_path, replace(SMALL, index_slots=99, index_entries=999))
    for number in range(100):
        store(log, keys=(f"k{number}",))
    log.close()

    told = "the index has 16 slots and 64 entries by its files, 99 and 999 are set aside"
    assert told in log.complaints
    assert {path.stat().st_size for path in (tmp_path / "index").iterdir()} == {
        40 + 16 * 4 + 64 * 20
    }


def test_a_size_that_no_queue_file_can_have_is_not_learnt(tmp_path: Path) -> None:
    make(tmp_path / "consumequeue" / "T" / "0" / f"{0:020d}", 150)
    make(tmp_path / "consumequeue" / "T" / "1" / f"{0:020d}", 0)

    assert look(tmp_path).config.queue_file_bytes == SMALL.queue_file_bytes


def test_the_names_of_two_files_tell_their_size(tmp_path: Path) -> None:
    logs(tmp_path, (8192, 8192), (16384, 100))

    found = look(tmp_path)

    assert found.config.commit_log_file_bytes == 8192
    assert found.short_files == (tmp_path / "commitlog" / f"{16384:020d}",)


def test_a_file_that_was_never_brought_to_its_size_is_short(tmp_path: Path) -> None:
    logs(tmp_path, (0, 0))

    found = look(tmp_path)

    assert found.config.commit_log_file_bytes == SMALL.commit_log_file_bytes
    assert len(found.short_files) == 1


def test_a_short_file_is_brought_to_its_size_and_its_records_are_kept(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    for _ in range(3):
        log.append(*draft_of(2000), now_ms=START_MS)
    log.write()
    log.close()
    path = tmp_path / "commitlog" / f"{4096:020d}"
    path.write_bytes(path.read_bytes()[:2100])

    log = open_store(tmp_path)

    assert path.stat().st_size == 4096
    assert len(bodies(log)) == 3
    assert store(log).queue_offset == 3


# Refused


def test_queues_in_rocksdb_are_refused(tmp_path: Path) -> None:
    make(tmp_path / "consumequeue" / "CURRENT")

    assert "RocksDB" in refusal(tmp_path)


@pytest.mark.parametrize("table", ["topics", "subscriptionGroups", "consumerOffsets", "rdb"])
def test_tables_in_rocksdb_are_refused(tmp_path: Path, table: str) -> None:
    make(tmp_path / "config" / table / "CURRENT")

    assert f"config/{table}" in refusal(tmp_path)


def test_a_topic_with_queues_of_both_kinds_is_refused(tmp_path: Path) -> None:
    make(tmp_path / "batchconsumequeue" / "mine" / "0" / f"{0:020d}", 46)
    make(tmp_path / "consumequeue" / "mine" / "0" / f"{0:020d}", 200)

    assert "topic mine has plain consume queues, and is of batch" in refusal(tmp_path)


def test_a_batch_consume_queue_tells_the_size_of_its_files(tmp_path: Path) -> None:
    make(tmp_path / "batchconsumequeue" / "mine" / "0" / f"{0:020d}", 460)

    found = look(tmp_path)

    assert found.config.batch_queue_file_bytes == 460
    assert "batch_queue_file_bytes is 460 by its files" in found.complaints[-1]


def test_batch_consume_queues_without_messages_are_not(tmp_path: Path) -> None:
    (tmp_path / "batchconsumequeue" / "mine" / "0").mkdir(parents=True)

    assert look(tmp_path).complaints == ()


def test_a_log_in_several_directories_is_refused(tmp_path: Path) -> None:
    logs(tmp_path, (0, 4096), (8192, 4096), (16384, 4096))

    assert "several directories" in refusal(tmp_path)


def test_a_file_lost_from_the_middle_of_the_log_is_named(tmp_path: Path) -> None:
    logs(tmp_path, (0, 4096), (4096, 4096), (12288, 4096))

    assert f"{8192:020d}: is missing" in refusal(tmp_path)


def test_a_file_that_does_not_fit_its_neighbours_is_named(tmp_path: Path) -> None:
    logs(tmp_path, (0, 4096), (4096, 5000))

    assert f"{4096:020d}: does not fit" in refusal(tmp_path)


def test_a_file_whose_name_does_not_fit_its_size_is_named(tmp_path: Path) -> None:
    logs(tmp_path, (100, 4096))

    assert f"{100:020d}: does not fit" in refusal(tmp_path)


def test_a_stranger_in_the_log_is_named(tmp_path: Path) -> None:
    make(tmp_path / "commitlog" / "notes.txt")

    assert "notes.txt" in refusal(tmp_path)


def test_a_refused_directory_is_free_again(tmp_path: Path) -> None:
    make(tmp_path / "consumequeue" / "CURRENT")
    with pytest.raises(StoreRefused):
        open_store(tmp_path)
    (tmp_path / "consumequeue" / "CURRENT").unlink()

    open_store(tmp_path).close()


# Named


def test_light_queues_are_named_where_they_are_not_served(tmp_path: Path) -> None:
    (tmp_path / "consumequeue" / "%LMQ%one" / "0").mkdir(parents=True)

    assert "%LMQ%one" in look(tmp_path).complaints[0]
    served = replace(SMALL, light_queues=True, multi_dispatch=True)
    assert survey(Disk(), tmp_path, served).complaints == ()


def test_compaction_topics_are_named(tmp_path: Path) -> None:
    table = {
        "topicConfigTable": {
            "c": {"topicName": "c", "attributes": {"cleanup.policy": "COMPACTION"}},
            "b": {"topicName": "b", "attributes": {"queue.type": "BatchCQ"}},
            "plain": {"topicName": "plain", "attributes": {}},
        }
    }
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "topics.json").write_text(json.dumps(table))
    (tmp_path / "compaction" / "compactionLog" / "d").mkdir(parents=True)

    complaints = look(tmp_path).complaints

    assert complaints == (
        "topic c: compaction is not served",
        "topic d: compaction is not served",
    )


# The timer of 5.x


def test_a_directory_without_a_timer_has_no_progress(tmp_path: Path) -> None:
    assert timer_progress(Disk(), tmp_path) is None


def test_the_progress_of_a_timer_is_read(tmp_path: Path) -> None:
    make(tmp_path / "config" / "timercheck", 4096)
    with (tmp_path / "config" / "timercheck").open("r+b") as file:
        file.write(struct.pack(">qqq", START_MS, 5200, 17))

    assert timer_progress(Disk(), tmp_path) == TimerProgress(START_MS, 17)  # type: ignore[arg-type]


def test_a_broken_checkpoint_of_a_timer_says_that_nothing_was_delivered(tmp_path: Path) -> None:
    make(tmp_path / "config" / "timercheck", 10)

    assert timer_progress(Disk(), tmp_path) == TimerProgress(0, 0)  # type: ignore[arg-type]


def test_pending_timer_messages_are_a_queue_like_any_other(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    store(log, b"later", topic="rmq_sys_wheel_timer", TIMER_OUT_MS=str(START_MS + 5_000))
    log.close()
    make(tmp_path / "config" / "timercheck", 4096)

    log = MessageLog.open(tmp_path, SMALL, process_id=1)

    assert log.timer_progress() == TimerProgress(0, 0)  # type: ignore[arg-type]
    assert bodies(log, "rmq_sys_wheel_timer") == [b"later"]
