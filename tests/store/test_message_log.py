"""The store as its owner sees it: turns, offsets, syncs, checkpoints, a clean end, a new start."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.errors import BodyTooLarge, Overloaded, StoreLocked
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.protocol.records.record import Record
from flintmq.store import message_log
from flintmq.store.files.disk import Disk
from flintmq.store.files.layout import CHECKPOINT_STRUCT
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.message_log import MessageLog
from flintmq.store.queues.queue_set import QueueSpan
from support.store.stored import (
    BORN,
    SMALL,
    START_MS,
    STORED,
    bodies,
    draft,
    draft_of,
    open_store,
    read,
    records,
    store,
)


def sync(log: MessageLog, *, thorough: bool = False) -> LogOffset:
    plan = log.begin_sync(thorough=thorough)
    assert plan is not None
    plan.run()
    return log.finish_sync(plan)


def checkpoint(directory: Path) -> tuple[int, ...]:
    return CHECKPOINT_STRUCT.unpack_from((directory / "checkpoint").read_bytes())[:3]


# Appending


def test_a_message_comes_back_as_it_was_sent(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    store(log, b"before")

    appended = store(log, b"body", queue_id=3, TAGS="x", now_ms=START_MS + 5)

    (record,) = records(read(log, queue_id=3))
    assert isinstance(record, Record)
    assert (record.body, record.topic, record.queue_id) == (b"body", "T", 3)
    assert (record.born_host, record.store_host) == (BORN, STORED)
    assert (record.log_offset, record.queue_offset) == (appended.log_offset, 0)
    assert record.store_ms == appended.store_ms == START_MS + 5
    assert record.properties == b"TAGS\x01x\x02"


def test_offsets_are_handed_out_in_the_order_of_the_log(tmp_path: Path) -> None:
    log = open_store(tmp_path)

    appended = [
        log.append(*draft_of(100, "T", queue_id), now_ms=START_MS) for queue_id in (0, 1, 0, 0, 1)
    ]

    assert [one.log_offset for one in appended] == [0, 100, 200, 300, 400]
    assert [one.queue_offset for one in appended] == [0, 0, 1, 2, 1]


def test_nothing_is_seen_before_the_turn_is_written(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    store(log, b"first")

    appended = log.append(*draft(b"second"), now_ms=START_MS)

    assert bodies(log) == [b"first"]
    assert log.max_offset("T", 0) == 1
    assert log.lookup.record_at(appended.log_offset) is None


def test_a_turn_without_appends_writes_nothing(tmp_path: Path) -> None:
    log = open_store(tmp_path)

    assert log.write() == []
    assert not (tmp_path / "commitlog").exists()


def test_a_turn_is_one_write_for_each_file(tmp_path: Path) -> None:
    class CountingDisk(Disk):
        def __init__(self) -> None:
            super().__init__()
            self.written: list[str] = []

        def write(self, path: Path, at: int, chunks: object) -> None:
            self.written.append(f"{path.parent.name}/{path.name[-4:]}")
            super().write(path, at, chunks)  # type: ignore[arg-type]

    disk = CountingDisk()
    log = open_store(tmp_path, SMALL, disk)
    for queue_id in (0, 1, 0, 1, 1):
        log.append(*draft_of(100, "T", queue_id), keys=("k",), now_ms=START_MS)
    disk.written.clear()

    log.write()

    assert disk.written == ["commitlog/0000"]
    log.flush()
    assert disk.written[1:3] == ["0/0000", "1/0000"]


def test_a_record_that_fits_in_no_file_is_refused_alone(tmp_path: Path) -> None:
    log = open_store(tmp_path)

    with pytest.raises(BodyTooLarge) as refused:
        log.append(*draft_of(4089), now_ms=START_MS)
    log.append(*draft_of(4088), now_ms=START_MS)
    log.write()

    assert refused.value.limit_bytes == 4088
    assert log.max_offset("T", 0) == 1


def test_a_body_over_the_limit_of_the_configuration_is_refused(tmp_path: Path) -> None:
    config = replace(SMALL, commit_log_file_bytes=1 << 20, message_bytes_max=1000)
    log = open_store(tmp_path, config)

    with pytest.raises(BodyTooLarge):
        log.append(*draft_of(1000 + 65_536 + 1), now_ms=START_MS)


def test_a_turn_may_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_log, "TURN_BYTES_MAX", 250)
    log = open_store(tmp_path)
    for _ in range(3):
        log.append(*draft_of(100), now_ms=START_MS)

    with pytest.raises(Overloaded):
        log.append(*draft_of(100), now_ms=START_MS)
    log.write()

    assert log.append(*draft_of(100), now_ms=START_MS).queue_offset == 3


def test_many_keys_are_written_before_anyone_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_log, "PENDING_MAX", 3)
    log = open_store(tmp_path)

    store(log, keys=("a", "b"))
    before = log._index.pending_count
    store(log, keys=("c",))

    assert before == 2
    assert log._index.pending_count == 0


def test_keys_are_written_when_the_owner_says_so(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    store(log, keys=("a",))

    log.flush()

    assert log._index.pending_count == 0
    assert len(list((tmp_path / "index").iterdir())) == 1


# Syncing


def test_nothing_new_is_durable_before_a_sync(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    appended = store(log)

    assert log.durable_to == 0
    assert sync(log) == log.durable_to == appended.log_offset + appended.size_bytes
    assert log.begin_sync() is None


def test_a_sync_covers_what_was_written_when_it_began(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    store(log)
    end = log.end_offset
    plan = log.begin_sync()
    assert plan is not None

    store(log)
    second = log.begin_sync()
    plan.run()

    assert second is None
    assert log.finish_sync(plan) == end < log.end_offset
    assert sync(log) == log.end_offset


def test_a_plain_sync_touches_only_the_log(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    store(log, keys=("k",))

    plan = log.begin_sync()

    assert plan is not None
    assert [path.parent.name for _, dirty in plan.parts for path in dirty.files] == ["commitlog"]


def test_a_thorough_sync_covers_queues_and_index_and_ends_with_a_checkpoint(
    tmp_path: Path,
) -> None:
    log = open_store(tmp_path)
    store(log, keys=("k",), now_ms=START_MS)
    store(log, keys=("k",), now_ms=START_MS + 9)

    plan = log.begin_sync(thorough=True)
    assert plan is not None
    before = checkpoint(tmp_path)
    plan.run()
    log.finish_sync(plan)

    parts = {path.parent.name for _, dirty in plan.parts for path in dirty.files}
    assert parts == {"commitlog", "0", "index"}
    assert before == (0, 0, 0)
    assert checkpoint(tmp_path) == (START_MS + 9,) * 3


def test_a_checkpoint_speaks_of_what_its_sync_covered(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    store(log, now_ms=START_MS)
    plan = log.begin_sync(thorough=True)
    assert plan is not None

    store(log, now_ms=START_MS + 1000)
    plan.run()
    log.finish_sync(plan)

    assert checkpoint(tmp_path) == (START_MS,) * 3


# Beginning and end


def test_while_it_is_open_the_abort_file_names_the_process(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    running = (tmp_path / "abort").read_text()

    log.close()

    assert running == "4711"
    assert not (tmp_path / "abort").exists()


def test_closing_writes_and_syncs_everything(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    log.append(*draft(b"last"), keys=("k",), now_ms=START_MS)

    log.close()

    assert log.durable_to == log.end_offset > 0
    assert checkpoint(tmp_path) == (START_MS,) * 3
    log = open_store(tmp_path)
    assert bodies(log) == [b"last"]
    assert len(log.lookup.by_key("T", "k", 32, 0, 2**62).views) == 1


def test_another_process_finds_the_store_locked(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib\n"
        "from flintmq.errors import StoreLocked\n"
        "from flintmq.store.files.store_config import StoreConfig\n"
        "from flintmq.store.message_log import MessageLog\n"
        "try:\n"
        "    MessageLog.open(pathlib.Path(sys.argv[1]), StoreConfig(), process_id=2)\n"
        "except StoreLocked as locked:\n"
        "    print(locked)\n"
    )
    log = open_store(tmp_path)

    told = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )

    assert told.stdout == f"{StoreLocked(str(tmp_path / 'lock'))}\n"
    log.close()


@pytest.mark.parametrize("clean", [True, False])
def test_everything_is_there_after_a_new_start(tmp_path: Path, clean: bool) -> None:
    log = open_store(tmp_path)
    sent: dict[tuple[str, int], list[bytes]] = {}
    for index in range(200):
        topic, queue_id = f"topic-{index % 3}", index % 2
        body = b"%d" % index * (index % 7)
        sent.setdefault((topic, queue_id), []).append(body)
        store(log, body, topic, queue_id, keys=(f"k{index}",), now_ms=START_MS + index)
    end = log.end_offset
    if clean:
        log.close()

    log = open_store(tmp_path)

    assert log.end_offset == end
    assert {(topic, queue_id): bodies(log, topic, queue_id) for topic, queue_id in sent} == sent
    assert sorted(log.queues()) == sorted(
        QueueSpan(topic, queue_id, QueueOffset(0), QueueOffset(len(taken)))
        for (topic, queue_id), taken in sent.items()
    )
    for index in range(200):
        assert log.lookup.by_key(f"topic-{index % 3}", f"k{index}", 32, 0, 2**62).views
    assert store(log, b"more", "topic-0", 0).queue_offset == len(sent["topic-0", 0])


def test_queues_and_index_are_made_again_from_the_log(tmp_path: Path) -> None:
    log = open_store(tmp_path)
    for index in range(50):
        store(log, b"%d" % index, TAGS="x", keys=(f"k{index}",))
    log.close()
    before = {path.name: path.read_bytes() for path in (tmp_path / "consumequeue/T/0").iterdir()}
    for part in ("consumequeue", "index"):
        for path in sorted((tmp_path / part).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()

    log = open_store(tmp_path)

    after = {path.name: path.read_bytes() for path in (tmp_path / "consumequeue/T/0").iterdir()}
    assert after == before
    assert len(log.lookup.by_key("T", "k49", 32, 0, 2**62).views) == 1


def test_a_store_of_default_size_takes_little_room_on_disk(tmp_path: Path) -> None:
    log = open_store(tmp_path, StoreConfig())
    store(log, b"x" * 1000, keys=("k",))
    log.close()

    used = sum(path.stat().st_blocks * 512 for path in tmp_path.rglob("*") if path.is_file())

    assert (tmp_path / "commitlog" / f"{0:020d}").stat().st_size == 1 << 30
    assert used < 1 << 20
