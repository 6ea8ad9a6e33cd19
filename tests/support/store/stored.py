"""A small store to try things on: records of known size, and short ways to append and read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from flintmq.kernel.layout import RECORD_BYTES_MIN
from flintmq.model.host import Host
from flintmq.model.java_hash import tags_code
from flintmq.model.queue import QueueOffset
from flintmq.model.topic import SCHEDULE_TOPIC
from flintmq.protocol.records.properties import encode_properties
from flintmq.protocol.records.record import Record, decode_record
from flintmq.protocol.records.record_pattern import RecordPattern, packed_host
from flintmq.store.files.disk import Disk
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.message_log import Appended, MessageLog
from flintmq.store.queues.dispatch import delivery_code
from flintmq.store.queues.queue_reader import ReadResult

BORN = Host.parse("10.0.0.2:40000")
STORED = Host.parse("10.0.0.1:10911")
START_MS = 1_700_000_000_000

SMALL = StoreConfig(
    commit_log_file_bytes=4096,
    queue_file_bytes=200,
    extension_file_bytes=1024,
    index_slots=16,
    index_entries=64,
)
"""About twenty records to a file of the log, ten units to one of a queue."""


class Draft(NamedTuple):
    """A record without its place: what `MessageLog.append` takes first."""

    pattern: RecordPattern
    body: bytes
    properties: bytes
    born_ms: int
    born_host: bytes

    def octets(self, queue_offset: int = 0, log_offset: int = 0, store_ms: int = 0) -> bytes:
        """The record, at a place."""
        return self.pattern.record(*self[1:], queue_offset, log_offset, store_ms)


def draft(
    body: bytes = b"",
    topic: str = "T",
    queue_id: int = 0,
    sys_flag: int = 0,
    /,
    **properties: str,
) -> Draft:
    pattern = RecordPattern(topic, queue_id, store_host=STORED, sys_flag=sys_flag)
    return Draft(pattern, body, encode_properties(properties), START_MS, packed_host(BORN))


def draft_of(size_bytes: int, topic: str = "T", queue_id: int = 0) -> Draft:
    """A record of exactly this size."""
    return draft(bytes(size_bytes - RECORD_BYTES_MIN - len(topic)), topic, queue_id)


def code_of(config: StoreConfig, topic: str, properties: Mapping[str, str], store_ms: int) -> int:
    """The third field of a record's unit: the hash of its tag, or when it is to be delivered."""
    if topic == SCHEDULE_TOPIC:
        code = delivery_code(config, properties.get("DELAY", ""), store_ms)
        if code is not None:
            return code
    return tags_code(properties.get("TAGS"))


def open_store(
    directory: Path, config: StoreConfig = SMALL, disk: Disk | None = None
) -> MessageLog:
    return MessageLog.open(directory, config, process_id=4711, disk=disk)


def store(
    log: MessageLog,
    body: bytes = b"",
    topic: str = "T",
    queue_id: int = 0,
    *,
    now_ms: int = START_MS,
    keys: tuple[str, ...] = (),
    **properties: str,
) -> Appended:
    """Append one message in a turn of its own."""
    if keys:
        properties["KEYS"] = " ".join(keys)
    appended = log.append(
        *draft(body, topic, queue_id, 0, **properties),
        tags_code=tags_code(properties.get("TAGS")),
        keys=keys,
        now_ms=now_ms,
    )
    log.write()
    return appended


def read(
    log: MessageLog, offset: int = 0, count_max: int = 32, topic: str = "T", queue_id: int = 0
) -> ReadResult:
    return log.read(topic, queue_id, QueueOffset(offset), count_max)


def records(found: ReadResult) -> list[Record]:
    """What a consumer makes of an answer."""
    octets = b"".join(found.views)
    assert len(octets) == found.size_bytes
    taken = []
    at = 0
    while at < len(octets):
        taken.append(decode_record(octets, at))
        at += int.from_bytes(octets[at : at + 4])
    assert len(taken) == found.record_count
    return taken


def bodies(log: MessageLog, topic: str = "T", queue_id: int = 0) -> list[bytes]:
    """Every message of a queue, read from its start to its end."""
    taken: list[bytes] = []
    offset = log.min_offset(topic, queue_id)
    while offset < log.max_offset(topic, queue_id):
        found = read(log, offset, topic=topic, queue_id=queue_id)
        taken += [record.body for record in records(found)]
        assert found.next_offset > offset
        offset = found.next_offset
    return taken
