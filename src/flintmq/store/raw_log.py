"""The log as bytes: what a master ships to its slaves, and how a slave takes it.

A slave's log is that of its master, byte for byte, with the fillers at the ends of files.  Records
come with their places and queue offsets; queues and index are made from what the records say, as
`recovery` does.

Bytes are taken when they are whole records that belong where the log ends: magic, sizes, place and
checksum are right, and the queue offset is the next one of its queue.  The start of a record whose
rest has not come is left to the caller.  Everything else is `LogMismatch`, and nothing of it is
stored.  A queue offset that does not follow may be what the master has: its topic was deleted and
created again, or its own log is damaged.  Who is sure says so, and then that one record is taken.

Invariant: the log ends where a record or a file ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from zlib import crc32

from flintmq.errors import InvalidName, LogMismatch, MalformedRecord
from flintmq.kernel.layout import FIELDS
from flintmq.model.java_hash import tags_code
from flintmq.model.light_queue import light_places
from flintmq.model.properties import (
    DELAY,
    INNER_MULTI_DISPATCH,
    INNER_MULTI_QUEUE_OFFSET,
    INNER_NUM,
    TAGS,
)
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.model.sys_flag import INNER_BATCH, TRANSACTION_MASK, TransactionType
from flintmq.model.topic import SCHEDULE_TOPIC
from flintmq.protocol.records.properties import parse_properties
from flintmq.protocol.records.record import (
    CRC_MASK,
    FILLER_BYTES_MIN,
    is_filler,
    is_partial,
    measure_record,
    record_size,
)
from flintmq.protocol.records.record_checksum import has_wrong_checksum
from flintmq.store.files.layout import COMMIT_LOG_DIRECTORY, FILL_UNIT
from flintmq.store.light_queues import LightQueues
from flintmq.store.queues.consume_queue import GAP_UNITS_MAX
from flintmq.store.queues.dispatch import QUEUED_TYPES, QueueGrowth, delivery_code, keys_of
from flintmq.store.raw_columns import take_columns
from flintmq.store.recovery.log_columns import inner_count
from flintmq.store.recovery.parts import StoreParts
from flintmq.store.scrub import LogScrub

_ROLLBACK = int(TransactionType.ROLLBACK)
_STORE_MS = list(FIELDS).index("store_ms")  # among what `measure_record` gives


class QueueContradiction(LogMismatch):
    """A whole record whose queue offset is not the next one of its queue."""


class RawLog:
    """The bytes of one open store."""

    def __init__(self, parts: StoreParts, require_room: Callable[[int, int], None]) -> None:
        self._log = parts.log
        self._queues = parts.queues
        self._dispatch = parts.dispatch
        self._parts = parts
        self._require_room = require_room
        self.light = LightQueues(parts)
        self.scrub = LogScrub(parts.log, parts.queues, parts.directory / COMMIT_LOG_DIRECTORY)

    @property
    def file_bytes(self) -> int:
        """The size of a file of the log."""
        return self._log.file_bytes

    # Shipping

    def view(self, start: LogOffset, stop: LogOffset) -> memoryview:
        """Bytes from ``start`` on, up to ``stop`` or to the end of the file; not copied."""
        size_bytes = min(stop, self._log.next_file(start)) - start
        view = self._log.read_view(start, size_bytes)
        assert view is not None, (start, stop, self._log)
        return view

    def tail(self, bytes_max: int) -> bytes:
        """The last bytes of the log, which may lie in several files."""
        end = self._log.end_offset
        at = LogOffset(max(self._log.min_offset, end - bytes_max))
        parts = []
        while self._log.has_files and at < end:
            parts.append(self.view(at, end))
            at = LogOffset(at + len(parts[-1]))
        return b"".join(parts)

    # Taking

    @property
    def is_empty(self) -> bool:
        """Whether no byte was ever stored: the log may begin anywhere, whatever was said before."""
        return not (self._log.has_files or self._log.staged_bytes)

    def begin_at(self, start: LogOffset) -> None:
        """Let an empty log begin where the master's bytes begin."""
        if start % self.file_bytes:
            reason = (
                f"the master's file begins there, and no file of {self.file_bytes} bytes does: "
                "mappedFileSizeCommitLog must be the same on both sides"
            )
            raise LogMismatch(start, reason)
        self._log.begin_at(start)

    def append(
        self, octets: bytes | bytearray | memoryview, now_ms: int, *, is_sure: bool = False
    ) -> int:
        """Take whole records that continue the log; tell how many bytes these are.

        They are stored by the next `MessageLog.write`.  Raises `LogMismatch` when the first bytes
        do not belong here; whatever comes before such bytes is taken first.
        """
        view = memoryview(octets)
        taken = 0
        while taken < len(view):
            try:
                count = self._append_to_file(view[taken:], now_ms, is_sure=is_sure)
            except LogMismatch:
                if taken:
                    break
                raise
            taken += count
            if not count or is_sure:
                break
        return taken

    def _append_to_file(self, view: memoryview, now_ms: int, *, is_sure: bool) -> int:
        log = self._log
        self._require_room(0, now_ms)
        base = log.end_offset + log.staged_bytes
        room_bytes = log.room_bytes
        window = view[:room_bytes]
        at = store_ms = 0
        if not is_sure and (many := take_columns(self._parts, window, base)) is not None:
            at, store_ms = many
        try:
            while at < len(window):
                stop = _filler_stop(window, at, base, room_bytes)
                if stop is None:
                    stop, store_ms = self._take(window, at, base + at, is_sure=is_sure)
                if stop == at:
                    break
                at = stop
                if is_sure:
                    break
        except LogMismatch:
            if not at:
                raise
        if at:
            log.stage_copy(window[:at], store_ms)
        return at

    def _take(self, window: memoryview, at: int, place: int, *, is_sure: bool) -> tuple[int, int]:
        """Give a whole record to its queue and the index; tell where it stops, and its time."""
        try:
            _, fields, body_at, body_stop, topic_at, topic_stop, stop = measure_record(window, at)
        except MalformedRecord as error:
            raise LogMismatch(place, error.reason) from None
        _, _, body_crc, queue_id, _, queue_offset, own_place, sys_flag, *_ = fields
        store_ms = fields[_STORE_MS]
        topic = _text(window[topic_at:topic_stop], place)
        for is_wrong, reason in (
            (own_place != place, "it names another place as its own"),
            (queue_id < 0 or queue_offset < 0, "its queue or queue offset is negative"),
            (crc32(window[body_at:body_stop]) & CRC_MASK != body_crc, "its body is damaged"),
            (has_wrong_checksum(window[at:stop]), "its header or properties are damaged"),
        ):
            if is_wrong:
                raise LogMismatch(place, reason)
        properties = parse_properties(bytes(window[topic_stop + 2 : stop]))
        kind = sys_flag & TRANSACTION_MASK
        if kind in QUEUED_TYPES and place >= self._parts.tombstones.mark(topic):
            code = tags_code(properties.get(TAGS))
            if topic == SCHEDULE_TOPIC:
                due = delivery_code(self._parts.config, properties.get(DELAY, ""), store_ms)
                code = code if due is None else due
            count = inner_count(properties.get(INNER_NUM, "")) if sys_flag & INNER_BATCH else 1
            unit = _Unit(place, stop - at, code, store_ms, queue_offset, count)
            self._add((topic, queue_id), unit, is_sure=is_sure)
            if self.light.is_on and INNER_MULTI_DISPATCH in properties:
                names = properties[INNER_MULTI_DISPATCH]
                places = light_places(topic, names, properties.get(INNER_MULTI_QUEUE_OFFSET, ""))
                self.light.add_at(places, *unit[:4])
        if kind != _ROLLBACK and (keys := keys_of(properties)):
            self._dispatch.add_keys(topic, keys, place, store_ms)
        return stop, store_ms

    def _add(self, key: tuple[str, int], unit: _Unit, *, is_sure: bool) -> None:
        """Add a unit to its queue.  Raises before anything has changed."""
        offset = unit.queue_offset
        expected = self._expected(key, offset)
        if offset != expected and not is_sure:
            reason = f"queue offset {offset} of {key[0]}/{key[1]}, where {expected} follows"
            raise QueueContradiction(unit.place, reason)
        queues, dispatch = self._queues, self._dispatch
        try:
            if unit.messages > 1 and not self._has_queues(key[0]):
                queues.keep_batches(key[0])
            growth = dispatch.growth_of(key)
        except InvalidName as error:
            raise LogMismatch(unit.place, str(error)) from error
        if offset != growth.stop and not self._moved(growth, offset):
            return
        place, size_bytes, code, store_ms, _, count = unit
        if growth.is_batched:
            dispatch.add_batch(growth, place, size_bytes, code, store_ms, count)
        else:
            dispatch.add(growth, place, size_bytes, code, store_ms)

    def _has_queues(self, topic: str) -> bool:
        """Whether the kind of a topic's queues is decided already."""
        queues = self._queues
        return topic in queues.batch_topics or any(queue.topic == topic for queue in queues)

    def _expected(self, key: tuple[str, int], offset: int) -> int:
        """The queue offset that the next record of a queue has."""
        expected = self._dispatch.next_offset(*key)
        if not expected:
            start = self._log.min_offset if self._log.has_files else self._log.end_offset
            if start or self._parts.tombstones.mark(key[0]):
                return offset  # what was before is not in this log
        return expected

    def _moved(self, growth: QueueGrowth, first: int) -> bool:
        """Make a queue go on at another offset; not possible for one that it has already."""
        if growth.stop == 0:
            growth.start, growth.stop = QueueOffset(first), first
            if not growth.is_batched:  # its first unit does not lie at the start of a file
                growth.is_held = False
        elif first == 0:
            growth.queue.clear()
            if growth.extension is not None:
                growth.extension.clear()
            self._queues.note_changed(growth.queue.dirty)
            growth.start, growth.stop, growth.log_stop = QueueOffset(0), 0, 0
        elif growth.is_batched and first > growth.stop:
            growth.stop = first
        elif growth.stop < first <= growth.stop + GAP_UNITS_MAX:
            gap = first - growth.stop
            growth.units += FILL_UNIT * gap
            growth.tags_codes += [0] * gap
            growth.stop = first
        else:
            return False
        return True


class _Unit(NamedTuple):
    """What a queue is told of a record."""

    place: int
    size_bytes: int
    code: int
    store_ms: int
    queue_offset: int
    messages: int


def _text(topic: memoryview, place: int) -> str:
    try:
        text = str(topic, "utf-8")
    except UnicodeDecodeError:
        raise LogMismatch(place, "its topic is not UTF-8") from None
    if not text:
        raise LogMismatch(place, "it has no topic")
    return text


def _filler_stop(window: memoryview, at: int, base: int, room_bytes: int) -> int | None:
    """Where a filler stops; ``at`` when more bytes have to come; None when a whole record is there.

    The window ends with the file, or where the bytes end that have come.
    """
    left_bytes = room_bytes - at
    is_all = len(window) == room_bytes
    if is_filler(window, at):
        if record_size(window, at) != left_bytes:
            raise LogMismatch(base + at, "a filler that does not end with its file")
        return room_bytes if is_all else at
    if not is_partial(window, at):
        return None
    if is_all:
        raise LogMismatch(base + at, "the file ends without a filler")
    if len(window) - at >= FILLER_BYTES_MIN and record_size(window, at) > left_bytes:
        raise LogMismatch(base + at, "a record that does not end in its file")
    return at
