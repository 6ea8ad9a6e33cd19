"""Appends plain records and batches in fewer steps than `MessageLog.append` does one of any kind.

All of them are written by a `RecordPattern`.  A plain record has keys, is neither delayed nor part
of a transaction, and is in a queue whose units hold the hash of the tag.  Its caller has checked
what `MessageLog.append` checks, once for many; of a record that is too large, `append` says why.
Properties end with the broker's own marks, so they never look like a checksum of the record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

from flintmq.errors import BodyTooLarge
from flintmq.kernel.face import loops
from flintmq.kernel.layout import RECORD_BYTES_MAX
from flintmq.kernel.python.send_forms import Keyed, LaidOut, RawFrame, SendForm, SendRoom
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.protocol.records.batch import BatchColumns
from flintmq.protocol.records.properties import PROPERTIES_BYTES_MAX
from flintmq.protocol.records.record_checksum import (
    checksummed,
    checksummed_all,
    unlike_checksummed,
    with_room,
)
from flintmq.protocol.records.record_pattern import RecordPattern
from flintmq.store.files.layout import UNIT_STRUCT
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.log.commit_log import CommitLog
from flintmq.store.queues.dispatch import Dispatch


class AppendedBatch(NamedTuple):
    """Where the records of a batch will be, once their turn is written."""

    log_offsets: list[int]
    queue_offset: QueueOffset
    """Of the first one; the others follow."""
    stop: LogOffset


class PlainAppend:
    """The short way into one store."""

    def __init__(
        self,
        log: CommitLog,
        dispatch: Dispatch,
        config: StoreConfig,
        turn_bytes_max: int,
        require_room: Callable[[int, int], None],
    ) -> None:
        self._log = log
        self._dispatch = dispatch
        self._is_checked = config.record_checksums
        self._record_bytes_max = config.record_bytes_max
        self._batch_bytes_max = config.batch_bytes_max
        self._turn_bytes_max = turn_bytes_max
        self._require_room = require_room

    @property
    def has_room(self) -> bool:
        """Whether the turn under way may take as much as a read of a connection brings."""
        return self._log.staged_bytes <= self._turn_bytes_max

    def append(
        self,
        pattern: RecordPattern,
        body: bytes,
        properties: bytes,
        born_ms: int,
        born_host: bytes,
        tags_code: int,
        keys: Sequence[str],
        now_ms: int,
    ) -> tuple[int, int, int] | None:
        """Write a record; tell its place in the log, that in its queue, and how much it takes.

        The caller has seen that the store takes records now, and that the turn `has_room`.
        """
        log, dispatch = self._log, self._dispatch
        is_checked = self._is_checked
        if is_checked:
            properties = with_room(properties)
            if len(properties) > PROPERTIES_BYTES_MAX:
                return None
        size_bytes = pattern.fixed_bytes + len(body) + len(properties)
        if size_bytes > self._record_bytes_max:
            return None
        growth = dispatch.growth_of(pattern.queue)
        queue_offset = growth.stop
        log_offset = log.reserve(size_bytes)
        record = pattern.record(
            body, properties, born_ms, born_host, queue_offset, log_offset, now_ms
        )
        log.stage(checksummed(record) if is_checked else record, now_ms)
        dispatch.add(growth, log_offset, size_bytes, tags_code, now_ms)
        dispatch.add_keys(pattern.topic, keys, log_offset, now_ms)
        return log_offset, queue_offset, size_bytes

    @property
    def staged_to(self) -> int:
        """Where the last record ends."""
        return self._log.end_offset + self._log.staged_bytes

    @property
    def takes_forms(self) -> bool:
        """Whether records need nothing that depends on their bytes or their queue."""
        return not self._is_checked and not self._dispatch.is_extended

    def append_sends(
        self,
        frames: list[RawFrame],
        start: int,
        forms: dict[bytes, tuple[SendForm, ...]],
        head_bytes: int,
        body_bytes_max: int,
        now_ms: int,
    ) -> LaidOut:
        """Write the records of sends that have a form; see `kernel.python.sends`."""
        log, dispatch = self._log, self._dispatch
        room = SendRoom(
            head_bytes,
            log.reserve(0),
            log.records_stop,
            self._record_bytes_max,
            body_bytes_max,
            min(RECORD_BYTES_MAX, self._batch_bytes_max),
            log.end_offset + self._turn_bytes_max,
            now_ms,
        )
        found = loops.lay_out_sends(frames, start, forms, dispatch.growth_of, room)
        if found.taken:
            log.stage(found.records, now_ms)
            for growth, units, codes in found.grown:
                dispatch.add_units(growth, units, codes)
            shared = _shared_keys(found.keyed) if found.batches else 0
            dispatch.add_keyed(found.keys, found.keyed, shared)
        return found

    def append_batch(
        self,
        pattern: RecordPattern,
        parts: BatchColumns,
        common: bytes,
        born_ms: int,
        born_host: bytes,
        *,
        tags_codes: Sequence[int],
        keys: Sequence[Sequence[str]],
        now_ms: int,
    ) -> AppendedBatch:
        """Write records of one queue, one after the other in the same file.

        ``common`` stands behind the properties of all.  Raises what `append` of the store does.
        """
        common = (with_room if self._is_checked else unlike_checksummed)(common)
        fixed_bytes = pattern.fixed_bytes + len(common)
        pairs = zip(parts.bodies, parts.properties, strict=True)
        sizes = [fixed_bytes + len(body) + len(properties) for body, properties in pairs]
        self._require_room(max(sizes), now_ms)
        total_bytes = sum(sizes)
        if total_bytes > self._batch_bytes_max:
            raise BodyTooLarge(self._batch_bytes_max, f"a batch of {total_bytes} bytes")
        dispatch = self._dispatch
        growth = dispatch.growth_of(pattern.queue)
        queue_offset = growth.stop
        log_offset = self._log.reserve(total_bytes)
        log_offsets = list(accumulate(sizes, initial=log_offset))
        stop = log_offsets.pop()
        records = pattern.records(
            parts, common, born_ms, born_host, queue_offset, log_offsets, now_ms
        )
        if self._is_checked:
            records = checksummed_all(records, sizes)
        self._log.stage(records, now_ms)
        dispatch.add_all(growth, log_offsets, sizes, tags_codes, now_ms)
        dispatch.add_all_keys(pattern.topic, keys, log_offsets, now_ms)
        return AppendedBatch(log_offsets, QueueOffset(queue_offset), LogOffset(stop))


def _shared_keys(keyed: list[Keyed]) -> int:
    """How many more keys there would be if no records shared theirs."""
    return sum(
        count * (len(place) // UNIT_STRUCT.size - 1)
        for _, count, place, _ in keyed
        if isinstance(place, bytes)
    )
