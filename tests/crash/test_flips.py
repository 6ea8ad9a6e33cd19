"""A flipped bit or a cut file never makes a store serve something wrong as right.

One bit of one file is changed, or a file is cut, before the store is opened (after a clean
exit and after a crash) or while it is open.  Then everything is read the way clients read:
through the queues, by key and by place, each record decoded with its checksum.  A record
that is served must be what was stored, but for what the format has no checksum over:
properties, times, hosts, flags.  Those are counted and printed.  The store opens, or says
which file it is that keeps it from opening.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from shutil import copytree, rmtree

import msgspec
import pytest

from flintmq.errors import MalformedRecord, StoreRefused
from flintmq.model.queue import QueueOffset
from flintmq.protocol.records.record import Record, decode_record
from flintmq.store.message_log import MessageLog
from support.crash.recording import RecordingDisk
from support.crash.workload import CONFIG, QuickDisk, Workload, abandon

HEAVY_FLIPS = int(os.environ.get("FLINTMQ_FLIPS", "10000"))
WHENS = ("before a clean start", "before a start after a crash", "while open")

UNPROTECTED = {
    "flag",
    "sys_flag",
    "born_ms",
    "born_host",
    "store_ms",
    "store_host",
    "reconsume_times",
    "prepared_offset",
    "properties",
}
"""What a record holds without any way to tell that it changed."""

ONLY_BY_QUEUE = {"topic", "queue_id", "queue_offset"}
"""What its unit tells about a record, and its place alone does not."""


class UnsyncedRecordingDisk(RecordingDisk):
    def sync(self, path: Path) -> None:
        pass

    def sync_directory(self, path: Path) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Made:
    """A closed store, its records by place, and how many of them queues serve."""

    directory: Path
    records: dict[int, Record]
    served: int


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    directory = tmp_path_factory.mktemp("flips") / "made"
    workload = Workload(UnsyncedRecordingDisk(directory), directory, Random(5))
    workload.run(30)
    log = MessageLog.open(directory, CONFIG, process_id=1, disk=QuickDisk())
    records: dict[int, Record] = {}
    for sent in workload.sent.values():
        record = log.lookup.record_at(sent.at.log_offset)
        if record is not None:
            records[record.log_offset] = record
    count = len(served(log))
    log.close()
    assert count > 60
    return Made(directory, records, count)


def harm(path: Path, chance: Random) -> str:
    """Flip one bit of a file or cut it; tell what."""
    content = bytearray(path.read_bytes())
    if chance.random() < 0.1:
        size = chance.randrange(len(content))
        os.truncate(path, size)
        return f"{path.name} cut to {size}"
    used = len(content.rstrip(b"\\0"))
    stop = used if chance.random() < 0.8 and used else len(content)
    at, bit = chance.randrange(stop), chance.randrange(8)
    content[at] ^= 1 << bit
    with path.open("r+b") as file:  # in place: an open store has the file mapped
        file.seek(at)
        file.write(content[at : at + 1])
    return f"{path.name} bit {bit} of byte {at}"


def served(log: MessageLog) -> list[tuple[str, int, int, Record]]:
    """Every record that clients get and accept, with where they asked for it."""
    found: list[tuple[str, int, int, Record]] = []
    for topic, queue_id, start, stop in log.queues():
        offset = start
        while offset < stop:
            result = log.read(topic, queue_id, offset, 32)
            expected = int(offset)
            for view in result.views:
                at = 0
                while at < len(view):
                    try:
                        record = decode_record(view, at)
                    except MalformedRecord:
                        pass  # the client sees that it is damaged
                    else:
                        found.append((topic, queue_id, record.queue_offset, record))
                    at += int.from_bytes(view[at : at + 4])
            assert result.next_offset > expected
            offset = QueueOffset(result.next_offset)
    return found


def judge(log: MessageLog, records: dict[int, Record], hidden: Counter[str]) -> int:
    """Hold everything that is served against what was stored; tell how much it was."""
    shown = served(log)
    for topic, queue_id, offset, record in shown:
        original = records[record.log_offset]
        asked = (original.topic, original.queue_id, original.queue_offset)
        if offset == 0 and (topic, queue_id) != asked[:2]:
            hidden["queue of its first record"] += 1  # nothing contradicts that one
            continue
        assert (topic, queue_id, offset) == asked
        differing = differences(record, original)
        assert differing <= UNPROTECTED, differing
        hidden.update(differing)
    for place, original in records.items():
        by_place = log.lookup.record_at(original.log_offset)
        if by_place is not None:
            assert by_place.log_offset == place
            differing = differences(by_place, original)
            assert differing <= UNPROTECTED | ONLY_BY_QUEUE, differing
            hidden.update(f"{name}, asked by place" for name in differing)
    return len(shown)


def differences(now: Record, then: Record) -> set[str]:
    fields = msgspec.structs.asdict(then)
    return {name for name, value in fields.items() if getattr(now, name) != value}


def lost_max(kind: str, what: str) -> int:
    """How many records one bit may cost; a cut may cost all that it cuts."""
    if "cut" in what:
        return 10_000
    return 3 if kind in ("commitlog", "consumequeue") else 0


def try_one(made: Made, root: Path, seed: int, hidden: Counter[str]) -> str:
    """Harm one file and read everything; tell how it went."""
    chance = Random(seed)
    when = WHENS[seed % len(WHENS)]
    rmtree(root, ignore_errors=True)
    copytree(made.directory, root)
    files = [
        path
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.stat().st_size and path.name != "lock"
    ]
    kinds = sorted({path.relative_to(root).parts[0] for path in files})
    kind = chance.choice(kinds)
    path = chance.choice([path for path in files if path.relative_to(root).parts[0] == kind])
    if when == "while open":
        log = MessageLog.open(root, CONFIG, process_id=1, disk=QuickDisk())
        content = path.read_bytes()
        what = harm(path, chance)
        if path.stat().st_size != len(content):
            path.write_bytes(content)  # no process survives a cut of a file it has mapped
            os.truncate(path, len(content))
    else:
        if when == "before a start after a crash":
            (root / "abort").write_bytes(b"1")
        what = harm(path, chance)
        try:
            log = MessageLog.open(root, CONFIG, process_id=1, disk=QuickDisk())
        except StoreRefused as refusal:
            return "refused" if str(root) in refusal.path else f"unnamed: {refusal}"
    try:
        count = judge(log, made.records, hidden)
    except BaseException as error:
        error.add_note(f"seed {seed}: {when}, {kind}, {what}")
        raise
    finally:
        abandon(log)
    lost = made.served - count
    assert lost <= lost_max(kind, what), f"seed {seed}: {when}, {kind}, {what}: {lost} lost"
    return "some missing" if lost else "all served"


def try_many(made: Made, root: Path, seeds: range) -> tuple[Counter[str], Counter[str]]:
    hidden: Counter[str] = Counter()
    outcomes: Counter[str] = Counter(try_one(made, root, seed, hidden) for seed in seeds)
    print(f"{sum(outcomes.values())} harmed stores: {dict(outcomes)}")
    print(f"changes that the format cannot show: {dict(hidden)}")
    return outcomes, hidden


@pytest.mark.parametrize("part", range(2))
def test_no_flip_or_cut_is_served_as_right(part: int, made: Made, tmp_path: Path) -> None:
    outcomes, _ = try_many(made, tmp_path / "harmed", range(part * 120, (part + 1) * 120))

    assert outcomes["some missing"] > 5
    assert set(outcomes) <= {"all served", "some missing", "refused"}


@pytest.mark.heavy
@pytest.mark.parametrize("part", range(10))
def test_thousands_of_flips_and_cuts_are_not_served_as_right(
    part: int, made: Made, tmp_path: Path
) -> None:
    count = HEAVY_FLIPS // 10
    start = 10_000 + part * count

    outcomes, _ = try_many(made, tmp_path / "harmed", range(start, start + count))

    assert outcomes["some missing"] > 0
    assert set(outcomes) <= {"all served", "some missing", "refused"}
