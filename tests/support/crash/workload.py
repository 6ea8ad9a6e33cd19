"""A broker's day in small: what is written to a store, and what must be readable after it.

Everything comes from one seed.  Each message has a number in its body and is known by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random

from flintmq.model.java_hash import tags_code
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.model.sys_flag import INNER_BATCH, NEED_UNWRAP
from flintmq.model.topic import SCHEDULE_TOPIC
from flintmq.protocol.bodies.offset import DelayOffsets
from flintmq.protocol.bodies.topic import TopicConfig, TopicTable
from flintmq.protocol.records.batch import BatchColumns
from flintmq.protocol.records.properties import encode_properties
from flintmq.protocol.records.record import Record, decode_record
from flintmq.protocol.records.record_pattern import RecordPattern, packed_host
from flintmq.store.files.disk import Disk
from flintmq.store.files.json_tables import Tables
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.message_log import Appended, MessageLog
from support.crash.recording import Acknowledged, RecordingDisk
from support.store.stored import BORN, START_MS, STORED, draft

CONFIG = StoreConfig(
    commit_log_file_bytes=8192,
    queue_file_bytes=1000,
    batch_queue_file_bytes=46 * 12,
    extension_file_bytes=1024,
    index_slots=16,
    index_entries=48,
    retention_hours=1,
    clean_percent=99,
    clean_forced_percent=100,
    refuse_percent=100,
)
TOPICS = ("orders", "events", "tasks")
STEP_MS = 397_000
"""Between two turns, so that files of the log expire while the workload runs."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that was appended, and where."""

    number: int
    topic: str
    queue_id: int
    body: bytes
    key: str
    at: Appended


@dataclass(frozen=True, slots=True)
class Stored:
    """These messages are safe."""

    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Removing:
    """A topic is being deleted."""

    topic: str


@dataclass(frozen=True, slots=True)
class Expiring:
    """Records before a place may be gone from now on."""

    stop: LogOffset


class QuickDisk(Disk):
    """Syncs nothing: these stores are gone in a moment."""

    def sync(self, path: Path) -> None:
        pass

    def sync_directory(self, path: Path) -> None:
        pass

    def sync_file_system(self) -> int | None:
        return None


@dataclass
class Workload:
    """Turns of appends, syncs and everything else a broker does to a store."""

    disk: RecordingDisk
    directory: Path
    chance: Random
    config: StoreConfig = CONFIG
    batched: tuple[str, ...] = ()
    """Topics that keep batches."""
    sent: dict[int, Sent] = field(default_factory=dict)
    now_ms: int = START_MS
    _unsafe: list[Sent] = field(default_factory=list)

    def run(self, turns: int) -> None:
        self.log = self._open()
        self.tables = Tables(self.disk, self.directory)
        self._make_topics()
        for turn in range(turns):
            self._turn()
            self._sync(thorough=self.chance.random() < 0.15)
            if self.chance.random() < 0.2:
                self.log.flush()
            if self.chance.random() < 0.15:
                offsets = DelayOffsets(offset_table={1: turn, 2: turn // 2})
                self.tables.delay_offsets.save(offsets)
            if self.chance.random() < 0.1:
                self._retain()
            if self.chance.random() < 0.04:
                self._delete_topic(self.chance.choice(TOPICS))
            if self.chance.random() < 0.06:
                self._sync(thorough=False)
                self.log.close()
                self.log = self._open()
        self.log.close()

    def _make_topics(self) -> None:
        """What a broker saves of topics; recorded states have no directories without files."""
        if self.batched:
            kinds = {"queue.type": "BatchCQ"}
            named = {name: TopicConfig(topic_name=name, attributes=kinds) for name in self.batched}
            self.tables.topics.save(TopicTable(topic_config_table=named))
        for topic in self.batched:
            self.log.batched.keep(topic)

    def _open(self) -> MessageLog:
        return MessageLog.open(self.directory, self.config, process_id=1, disk=self.disk)

    def _turn(self) -> None:
        self.now_ms += STEP_MS
        for _ in range(self.chance.randint(1, 5)):
            topic, queue_id = self.chance.choice(TOPICS), self.chance.randrange(2)
            shape = self.chance.random()
            if shape < 0.2:
                self._batch(topic, queue_id)
            elif shape < 0.35:
                self._delayed()
            else:
                self._single(topic, queue_id)
        self.log.write()

    def _body(self, number: int) -> bytes:
        filling = self.chance.randbytes(self.chance.choice((0, 10, 100, 700)))
        return b"%d:" % number + filling

    def _single(self, topic: str, queue_id: int) -> None:
        number = len(self.sent)
        body, key, tag = self._body(number), f"k{number}", f"tag{number % 3}"
        properties = {"TAGS": tag, "KEYS": key, "UNIQ_KEY": f"U{number}"}
        messages, flags = 1, 0
        if topic in self.batched and number % 3:
            messages, flags = number % 4 + 1, INNER_BATCH | NEED_UNWRAP
            base = self.log.batched.next_offset(topic, queue_id)
            properties |= {"INNER_NUM": str(messages), "INNER_BASE": str(base)}
        octets = draft(body, topic, queue_id, flags, **properties)
        at = self.log.append(
            *octets,
            tags_code=tags_code(tag),
            keys=(f"U{number}", key),
            count=messages,
            now_ms=self.now_ms,
        )
        self._note(Sent(number, topic, queue_id, body, key, at))

    def _batch(self, topic: str, queue_id: int) -> None:
        first = len(self.sent)
        numbers = range(first, first + self.chance.randint(2, 4))
        all_bodies = [self._body(number) for number in numbers]
        texts = [encode_properties({"UNIQ_KEY": f"U{number}"}) for number in numbers]
        batch = self.log.plain.append_batch(
            RecordPattern(topic, queue_id, store_host=STORED),
            BatchColumns(all_bodies, texts, [0] * len(texts)),
            b"",
            self.now_ms,
            packed_host(BORN),
            tags_codes=[0] * len(texts),
            keys=[(f"U{number}",) for number in numbers],
            now_ms=self.now_ms,
        )
        stops = [*batch.log_offsets[1:], batch.stop]
        places = zip(batch.log_offsets, stops, count(batch.queue_offset), strict=False)
        for number, body, (at, stop, offset) in zip(numbers, all_bodies, places, strict=True):
            place = Appended(LogOffset(at), QueueOffset(offset), stop - at, self.now_ms)
            self._note(Sent(number, topic, queue_id, body, f"U{number}", place))

    def _delayed(self) -> None:
        number, level = len(self.sent), self.chance.randint(1, 2)
        body = self._body(number)
        octets = draft(
            body,
            SCHEDULE_TOPIC,
            level - 1,
            DELAY=str(level),
            REAL_TOPIC="orders",
            REAL_QID="0",
            UNIQ_KEY=f"U{number}",
        )
        at = self.log.append(
            *octets,
            delay_level=level,
            keys=(f"U{number}",),
            now_ms=self.now_ms,
        )
        self._note(Sent(number, SCHEDULE_TOPIC, level - 1, body, f"U{number}", at))

    def _note(self, sent: Sent) -> None:
        self.sent[sent.number] = sent
        self._unsafe.append(sent)

    def _sync(self, *, thorough: bool) -> None:
        plan = self.log.begin_sync(thorough=thorough)
        if plan is None:
            return
        plan.run()
        self.log.finish_sync(plan)
        safe = [s for s in self._unsafe if s.at.log_offset < self.log.durable_to]
        self._unsafe = [s for s in self._unsafe if s.at.log_offset >= self.log.durable_to]
        self.disk.acknowledge(Stored(tuple(s.number for s in safe)))

    def _retain(self) -> None:
        noted = len(self.disk.notes)
        self.log.retain(self.now_ms, due=True)
        self.disk.notes.insert(noted, Acknowledged(Expiring(self.log._log.min_offset)))

    def _delete_topic(self, topic: str) -> None:
        self.disk.acknowledge(Removing(topic))
        self.log.delete_topic(topic)
        if topic in self.batched:
            self.log.batched.keep(topic)


def still_due(sent: dict[int, Sent], notes: Iterable[object]) -> list[Sent]:
    """The messages that a store must have after everything that was acknowledged."""
    due: dict[int, Sent] = {}
    start = LogOffset(0)
    for note in notes:
        match note:
            case Stored(numbers):
                due.update((number, sent[number]) for number in numbers)
            case Removing(topic):
                due = {n: s for n, s in due.items() if s.topic != topic}
            case Expiring(stop):
                start = stop
    return [s for s in due.values() if s.at.log_offset >= start]


def served(log: MessageLog) -> dict[tuple[str, int, int], Record]:
    """Every message a reader of every queue gets, decoded as a client does."""
    found: dict[tuple[str, int, int], Record] = {}
    for topic, queue_id, start, stop in log.queues():
        offset = start
        while offset < stop:
            result = log.read(topic, queue_id, offset, 32)
            for view in result.views:
                at = 0
                while at < len(view):
                    record = decode_record(view, at)
                    found[topic, queue_id, record.queue_offset] = record
                    at += int.from_bytes(view[at : at + 4])
            assert result.next_offset > offset, (topic, queue_id, result)
            offset = QueueOffset(result.next_offset)
    return found


def abandon(log: MessageLog) -> None:
    """End as a killed process does: nothing is written any more, the lock is gone."""
    log._disk.unlock(log._lock)
    log._disk.close()


def file_bytes(directory: Path, *kinds: str) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for kind in kinds
        for path in sorted((directory / kind).rglob("*"))
        if path.is_file()
    }
