"""Topics that keep batches: what a real 5.3.3 wrote is read, made again and added to, to the byte.

Judge: ``golden-batch-5.3.3``, a directory of a real broker and its answers, see
``tools/capture_batch_store.py``.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from shutil import rmtree

import pytest

from flintmq.errors import StoreRefused
from flintmq.model.java_hash import tags_code
from flintmq.model.queue import QueueOffset
from flintmq.model.sys_flag import INNER_BATCH, NEED_UNWRAP
from flintmq.protocol.records.properties import parse_properties
from flintmq.protocol.records.record import decode_record
from flintmq.store.check.findings import Severity
from flintmq.store.check.show_store import show_store
from flintmq.store.check.store_check import check_store
from flintmq.store.files.disk import Disk
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.message_log import Appended, MessageLog
from flintmq.store.queues.consume_queue import Bound
from flintmq.store.queues.dispatch import keys_of
from flintmq.store.queues.queue_reader import GetStatus
from flintmq.store.queues.selection import Selection
from support.store.real_records import real_records, redraft
from support.store.real_stores import manifest, unpack_store
from support.store.recovering import files, kill
from support.store.stored import START_MS, draft

GOLDEN = "golden-batch-5.3.3"
KINDS = ("batchconsumequeue", "consumequeue", "commitlog")
UNIT = struct.Struct(">qiqqqhii")
CONFIG = StoreConfig(
    commit_log_file_bytes=4096,
    queue_file_bytes=200,
    batch_queue_file_bytes=46 * 4,
    index_slots=100,
    index_entries=500,
)


def open_golden(directory: Path) -> MessageLog:
    return MessageLog.open(directory, StoreConfig(), process_id=1)


def open_small(directory: Path) -> MessageLog:
    return MessageLog.open(directory, CONFIG, process_id=1)


def batch(
    log: MessageLog, messages: int, queue_id: int = 0, *, now_ms: int = START_MS, size: int = 10
) -> Appended:
    """Store an inner batch in a turn of its own."""
    base = log.batched.next_offset("B", queue_id)
    body = b"%d+%d " % (base, messages) + bytes(size)
    flags = INNER_BATCH | NEED_UNWRAP if messages > 1 else 0
    numbers = {"INNER_NUM": str(messages), "INNER_BASE": str(base)} if messages > 1 else {}
    appended = log.append(
        *draft(body, "B", queue_id, flags, TAGS="a", UNIQ_KEY=f"U{base}", **numbers),
        tags_code=tags_code("a"),
        keys=(f"U{base}",),
        count=messages,
        now_ms=now_ms,
    )
    log.write()
    return appended


def filled(directory: Path, records: int = 40) -> MessageLog:
    """A store with two queues of batches and single messages."""
    log = open_small(directory)
    log.batched.keep("B")
    for number in range(records):
        batch(log, number % 5 + 1, number % 2, now_ms=START_MS + 10 * number)
    return log


def spans(log: MessageLog) -> dict[tuple[str, int], tuple[int, int]]:
    return {(span.topic, span.queue_id): (span.start, span.stop) for span in log.queues()}


def served(log: MessageLog, queue_id: int = 0) -> list[int]:
    """Read a queue from end to end; tell at which offsets its records begin."""
    found: list[int] = []
    offset = log.min_offset("B", queue_id)
    while True:
        result = log.read("B", queue_id, offset, 32)
        if result.status is not GetStatus.FOUND:
            return found
        found += [decode_record(view).queue_offset for view in result.views]
        offset = result.next_offset


def findings(directory: Path) -> list[str]:
    kept = check_store(Disk(), directory, CONFIG).findings.kept
    return [finding.what for finding in kept if finding.severity is not Severity.NOTE]


def units(directory: Path, queue_id: int = 0) -> Iterator[tuple[int, ...]]:
    root = directory / "batchconsumequeue" / "B" / str(queue_id)
    for path in sorted(root.iterdir()):
        yield from (unit for unit in UNIT.iter_unpack(path.read_bytes()) if unit[1])


# The directory of a real broker


@pytest.mark.parametrize("abort", [False, True])
def test_a_real_directory_is_not_changed_by_opening_it(abort: bool, tmp_path: Path) -> None:
    directory = unpack_store(GOLDEN, tmp_path)
    before = files(directory, *KINDS)
    if abort:
        (directory / "abort").touch()

    log = open_golden(directory)

    assert spans(log) == {("batched", 0): (0, 67), ("batched", 1): (0, 46), ("plain", 1): (0, 7)}
    log.close()
    assert files(directory, *KINDS) == before
    assert check_store(Disk(), directory, StoreConfig()).findings.kept == []


@pytest.mark.parametrize("lost", ["queue", "queues", "queues and config"])
def test_queues_of_a_real_directory_are_rebuilt_byte_for_byte(lost: str, tmp_path: Path) -> None:
    directory = unpack_store(GOLDEN, tmp_path)
    before = files(directory, "batchconsumequeue")
    rmtree(directory / "batchconsumequeue" / ("batched/0" if lost == "queue" else ""))
    if "config" in lost:
        rmtree(directory / "config")
    (directory / "abort").touch()

    MessageLog.open(directory, StoreConfig(batch_queue_file_bytes=460), process_id=1).close()

    assert files(directory, "batchconsumequeue") == before


def test_the_same_records_make_the_same_files(tmp_path: Path) -> None:
    real = unpack_store(GOLDEN, tmp_path / "real")
    config = StoreConfig(
        commit_log_file_bytes=65_536,
        queue_file_bytes=1_000,
        batch_queue_file_bytes=460,
        index_slots=100,
        index_entries=500,
    )
    log = MessageLog.open(tmp_path / "ours", config, process_id=1)
    log.batched.keep("batched")
    for record in real_records(real):
        properties = parse_properties(record.properties)
        if record.topic == "batched":
            assert log.batched.next_offset("batched", record.queue_id) == record.queue_offset
        log.append(
            *redraft(record),
            tags_code=tags_code(properties.get("TAGS")),
            keys=keys_of(properties),
            count=int(properties.get("INNER_NUM", "1")),
            now_ms=record.store_ms,
        )
    log.write()
    log.close()

    for kind in ("batchconsumequeue", "consumequeue", "commitlog"):
        assert files(tmp_path / "ours", kind) == files(real, kind)


def test_a_read_gives_the_records_a_real_broker_gives(tmp_path: Path) -> None:
    log = open_golden(unpack_store(GOLDEN, tmp_path))
    asked = 0
    for question in manifest(GOLDEN)["questions"]:
        fields = question["fields"]
        if question["request"] != 11 or fields["expressionType"] != "TAG":
            continue
        if fields["topic"] != "batched":
            continue
        asked += 1
        codes = None
        if fields["subscription"] != "*":
            tags = fields["subscription"].split(" || ")
            codes = frozenset(tags_code(tag) for tag in tags)
        result = log.read(
            "batched",
            int(fields["queueId"]),
            QueueOffset(int(fields["queueOffset"])),
            int(fields["maxMsgNums"]),
            wanted=Selection(tags_codes=codes),
        )
        answer = question["answer"]
        given = [decode_record(view).log_offset for view in result.views]
        assert given == question["records"], fields
        assert result.status.value == question["remark"], fields
        assert result.next_offset == int(answer["nextBeginOffset"]), fields
        assert (result.min_offset, result.max_offset) == (
            int(answer["minOffset"]),
            int(answer["maxOffset"]),
        )
    assert asked > 100
    log.close()


def test_times_lead_to_the_batch_a_real_broker_tells(tmp_path: Path) -> None:
    """Between two files a real broker tells the batch before, and for an upper bound anything."""
    directory = unpack_store(GOLDEN, tmp_path)
    log = open_golden(directory)
    between = []
    for queue_id in ("0", "1"):
        root = directory / "batchconsumequeue" / "batched" / queue_id
        stored = [
            [unit[3] for unit in UNIT.iter_unpack(path.read_bytes()) if unit[1]]
            for path in sorted(root.iterdir())
        ]
        between += [
            (queue_id, ms)
            for before, after in pairwise(stored)
            for ms in range(before[-1], after[0] + 1)
        ]
    asked = 0
    for question in manifest(GOLDEN)["questions"]:
        fields = question["fields"]
        if question["request"] != 29 or fields["topic"] != "batched":
            continue
        queue_id, ms = fields["queueId"], int(fields["timestamp"])
        bound = Bound[fields["boundaryType"]]
        exact = any(
            (one["topic"], str(one["queue_id"]), one["stored_ms"]) == ("batched", queue_id, ms)
            for one in manifest(GOLDEN)["sent"]
        )
        if (queue_id, ms) in between or (bound is Bound.UPPER and not exact):
            continue
        asked += 1
        found = log.lookup.offset_by_time("batched", int(queue_id), ms, bound)
        assert found == int(question["answer"]["offset"]), fields
    assert asked > 90
    log.close()


def test_a_topic_that_a_real_broker_deleted_stays_deleted(tmp_path: Path) -> None:
    directory = unpack_store(GOLDEN, tmp_path)
    rmtree(directory / "batchconsumequeue" / "batched")
    for name in ("topics.json", "topics.json.bak"):
        path = directory / "config" / name
        table = json.loads(path.read_text())
        table["topicConfigTable"].pop("batched", None)
        path.write_text(json.dumps(table))

    report = check_store(Disk(), directory, StoreConfig())
    log = open_golden(directory)

    assert "batched" not in log.batched
    assert spans(log) == {("plain", 1): (0, 7)}
    log.close()
    assert report.is_good


# Our own


def test_offsets_count_messages_and_units_count_records(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.close()

    assert [unit[4:6] for unit in units(tmp_path)][:5] == [(0, 1), (1, 3), (4, 5), (9, 2), (11, 4)]
    assert findings(tmp_path) == []
    log = open_small(tmp_path)
    assert spans(log) == {("B", 0): (0, 60), ("B", 1): (0, 60)}
    assert batch(log, 3).queue_offset == 60
    assert log.max_offset("B", 0) == 63
    assert served(log)[-2:] == [56, 60]
    log.close()


def test_an_offset_inside_a_batch_gives_the_batch(tmp_path: Path) -> None:
    log = filled(tmp_path)

    for offset, base in ((4, 4), (6, 4), (8, 4), (9, 9)):
        result = log.read("B", 0, QueueOffset(offset), 1)
        assert [decode_record(view).queue_offset for view in result.views] == [base]
    log.close()


@pytest.mark.parametrize("flushed", [0, 13, 40])
def test_units_that_a_crash_took_are_made_again(flushed: int, tmp_path: Path) -> None:
    log = filled(tmp_path, flushed)
    log.flush()
    for number in range(flushed, 40):
        batch(log, number % 5 + 1, number % 2, now_ms=START_MS + 10 * number)
    kill(log)

    log = open_small(tmp_path)

    assert spans(log) == {("B", 0): (0, 60), ("B", 1): (0, 60)}
    assert served(log) == [unit[4] for unit in units(tmp_path)]
    log.close()
    assert findings(tmp_path) == []


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_restart_reads_the_log_from_the_checkpoint_on(is_killed: bool, tmp_path: Path) -> None:
    """Not from its first file, as it does when a queue lacks something."""
    log = filled(tmp_path, 100)
    log.close()
    log = open_small(tmp_path)
    late_ms = START_MS + 3_600_000
    for number in range(20):
        batch(log, 3, number % 2, now_ms=late_ms + number)
    plan = log.begin_sync(thorough=True)
    assert plan is not None
    plan.run()
    log.finish_sync(plan)
    batch(log, 2, now_ms=late_ms + 3_600_000)
    if is_killed:
        kill(log)
    else:
        log.close()

    log = open_small(tmp_path)

    assert log.complaints == ()
    assert log.max_offset("B", 0) == 150 + 30 + 2
    log.close()
    assert findings(tmp_path) == []


def test_a_crash_before_the_first_message_leaves_the_kind_of_a_topic(tmp_path: Path) -> None:
    log = open_small(tmp_path)
    log.batched.keep("B")
    kill(log)

    log = open_small(tmp_path)

    assert "B" in log.batched
    assert batch(log, 4).queue_offset == 0
    assert log.max_offset("B", 0) == 4
    log.close()


def test_a_damaged_record_costs_its_messages_alone(tmp_path: Path) -> None:
    log = filled(tmp_path)
    places = {
        int(decode_record(view).queue_offset): decode_record(view).log_offset
        for view in log.read("B", 0, QueueOffset(0), 32).views
    }
    kill(log)
    path = tmp_path / "commitlog" / f"{0:020d}"
    content = bytearray(path.read_bytes())
    content[places[4] + 90] ^= 0xFF  # in its body
    path.write_bytes(content)

    log = open_small(tmp_path)

    assert served(log)[:4] == [0, 1, 9, 11]
    assert log.read("B", 0, QueueOffset(5), 1).next_offset == 11
    log.close()
    damaged = [what for what in findings(tmp_path) if "records follow" not in what]
    assert damaged == []
    log = open_small(tmp_path)
    assert log.max_offset("B", 0) == 60
    log.close()


def test_a_damaged_end_of_the_log_takes_its_units_along(tmp_path: Path) -> None:
    log = filled(tmp_path)
    last = batch(log, 5, now_ms=START_MS + 60_000)
    log.close()
    (tmp_path / "abort").touch()
    path = tmp_path / "commitlog" / f"{last.log_offset // 4096 * 4096:020d}"
    content = bytearray(path.read_bytes())
    content[last.log_offset % 4096 + 90] ^= 0xFF
    path.write_bytes(content)

    log = open_small(tmp_path)

    assert log.max_offset("B", 0) == last.queue_offset == 60
    log.close()
    assert findings(tmp_path) == []


def test_old_files_go_with_the_log_and_the_smallest_offset_follows(tmp_path: Path) -> None:
    log = filled(tmp_path, 100)
    log.flush()
    removed = log.retain(START_MS + 100 * 3_600_000, due=True)

    assert removed > 2
    first = log.min_offset("B", 0)
    (unit, *_) = [unit for unit in units(tmp_path) if unit[0] >= log.extent.start_offset]
    assert first == unit[4] > 0
    assert served(log)[0] == first
    assert log.read("B", 0, QueueOffset(0), 1).status is GetStatus.OFFSET_TOO_SMALL
    kept = files(tmp_path, "batchconsumequeue")
    assert min(kept)[-3:] != "000" or len(kept) < 20
    span = spans(log)
    log.close()
    log = open_small(tmp_path)
    assert spans(log) == span
    log.close()
    assert findings(tmp_path) == []


def test_a_deleted_topic_is_gone_and_may_come_back_as_a_plain_one(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.delete_topic("B")

    assert "B" not in log.batched
    assert not (tmp_path / "batchconsumequeue" / "B").exists()
    plain = log.append(*draft(b"x", "B", 0), now_ms=START_MS + 1_000)
    log.write()
    assert plain.queue_offset == 0
    kill(log)
    log = open_small(tmp_path)
    assert spans(log) == {("B", 0): (0, 1)}
    assert "B" not in log.batched
    log.close()
    assert findings(tmp_path) == []


def test_a_topic_with_queues_of_both_kinds_is_refused(tmp_path: Path) -> None:
    filled(tmp_path).close()
    path = tmp_path / "consumequeue" / "B" / "0" / f"{0:020d}"
    path.parent.mkdir(parents=True)
    path.write_bytes(bytes(200))

    with pytest.raises(StoreRefused, match="topic B has plain consume queues"):
        open_small(tmp_path)


@pytest.mark.parametrize(
    ("field", "what"),
    [
        (1, "its record has"),
        (2, "its third field should stand for 97"),
        (3, "its record was stored at"),
        (4, "its record begins with queue offset 4"),
        (5, "its record has 5 messages"),
        (0, "no record of it is at"),
    ],
)
def test_a_check_names_a_unit_that_contradicts_its_record(
    field: int, what: str, tmp_path: Path
) -> None:
    filled(tmp_path).close()
    path = tmp_path / "batchconsumequeue" / "B" / "0" / f"{0:020d}"
    content = path.read_bytes()
    unit = list(UNIT.unpack_from(content, 92))
    unit[field] += 1
    path.write_bytes(content[:92] + UNIT.pack(*unit) + content[138:])

    assert any(what in text for text in findings(tmp_path))


def test_a_check_names_units_that_are_missing_and_bytes_behind_the_last(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.close()
    root = tmp_path / "batchconsumequeue" / "B" / "0"
    last = max(root.iterdir())
    last.write_bytes(bytes(184))
    rmtree(tmp_path / "batchconsumequeue" / "B" / "1")

    told = findings(tmp_path)

    assert "4 records of the log are not in it" in told
    assert "20 records of the log are not in it" in told


def test_a_listing_shows_messages_and_the_bytes_of_records(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.close()

    queues = show_store(Disk(), tmp_path, CONFIG).queues

    assert [(one.topic, one.queue_id, one.min_offset, one.max_offset) for one in queues] == [
        ("B", 0, 0, 60),
        ("B", 1, 0, 60),
    ]
    assert queues[0].size_bytes == sum(unit[1] for unit in units(tmp_path))
    assert queues[0].newest_ms == START_MS + 380


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_every_record_of_the_log_is_served_in_order(
    seed: int, tmp_path: Path
) -> None:
    """Appends, flushes, syncs, clean and unclean restarts, retention and lost queue files."""
    random = Random(seed)
    log = open_small(tmp_path)
    log.batched.keep("B")
    stored: dict[int, list[tuple[int, int]]] = {0: [], 1: []}  # offset and place, by queue
    now_ms = START_MS
    for _ in range(150):
        now_ms += random.randrange(5)
        match random.randrange(12):
            case 0:
                log.flush()
            case 1:
                plan = log.begin_sync(thorough=True)
                assert plan is not None
                plan.run()
                log.finish_sync(plan)
            case 2:
                log.close()
                log = open_small(tmp_path)
            case 3:
                kill(log)
                log = open_small(tmp_path)
            case 4:
                log.retain(now_ms + 100 * 3_600_000 * random.randrange(2), due=True)
            case 5:
                kill(log)
                lost = tmp_path / "batchconsumequeue" / "B" / str(random.randrange(2))
                if lost.is_dir():
                    rmtree(lost)
                log = open_small(tmp_path)
            case _:
                queue_id = random.randrange(2)
                size = random.randrange(400)
                done = batch(log, random.randrange(1, 7), queue_id, now_ms=now_ms, size=size)
                stored[queue_id].append((done.queue_offset, done.log_offset))
        first = log.extent.start_offset
        for queue_id, all_of_them in stored.items():
            alive = [offset for offset, place in all_of_them if place >= first]
            assert served(log, queue_id) == alive
    log.close()
    assert findings(tmp_path) == []
