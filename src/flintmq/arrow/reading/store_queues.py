"""Topics of a store directory, read from its files and without a broker.

`StoreQueues` is the `QueueSource` of the driver, `StorePages` the reader of tasks.  Executors must
see the directory under the same path as the driver.

The broker's name, a column of every row, is taken from its table of topics: brokers keep a topic
of their own name there.  Without one, the name of the directory is used.

A queue exists if its topic is configured to have it or if it has files, whatever its permissions;
deleted topics are not listed, but can be read by name as long as their files exist.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from flintmq.arrow.reading.queue_source import QueueSurvey, ReadPart
from flintmq.core.reading.read_span import Page, Wanted
from flintmq.errors import NoRoute
from flintmq.filter.sql_eval import compile_sql
from flintmq.model.group import is_dead_letter_topic, is_retry_topic
from flintmq.model.queue import Extent, QueueOffset, QueueRef, Span
from flintmq.model.topic import AUTO_CREATE_TOPIC, Permission, is_system_topic, reply_topic
from flintmq.protocol.bodies.client import SQL92
from flintmq.protocol.records.properties import parse_properties
from flintmq.protocol.records.record_scan import scan_records
from flintmq.store.files.json_tables import Tables
from flintmq.store.files.layout import (
    BATCH_QUEUE_DIRECTORY,
    CONSUME_QUEUE_DIRECTORY,
    queue_directory,
)
from flintmq.store.queues.consume_queue import found_queues
from flintmq.store.readonly.store_batches import BatchQueueFiles
from flintmq.store.readonly.store_files import LogFiles, QueueFiles, StoreFiles
from flintmq.store.readonly.store_records import Gathered, gather_records

UNITS_MAX: Final = 16_384
"""Consume queue units scanned for one page, where a filter leaves few of them."""

_REPLY: Final = reply_topic("")


class StoreQueues:
    """The queues of a store directory.  Every call reads the files again."""

    def __init__(self, directory: str) -> None:
        path = Path(directory).expanduser().resolve()
        self._files = StoreFiles(path)
        self._tables = Tables(self._files.disk, path)
        self._known: dict[tuple[str, int], QueueFiles | BatchQueueFiles] = {}
        self.broker = self._own_name() or path.name

    def close(self) -> None:
        self._files.close()

    # Topics and queues

    def topics(self) -> tuple[str, ...]:
        configured = self._configured()
        names = configured.keys() if configured else {topic for topic, _ in self._found()}
        cluster = self._cluster()
        return tuple(
            sorted(
                name
                for name in names
                if not is_retry_topic(name)
                and not is_dead_letter_topic(name)
                and not is_system_topic(name)
                and name not in (self.broker, cluster)
                and not name.endswith(_REPLY)
            )
        )

    def queues(self, topics: Collection[str]) -> tuple[QueueRef, ...]:
        configured, wanted = self._configured(), set(topics)
        found = {(topic, queue_id) for topic, queue_id in self._found() if topic in wanted}
        for topic in wanted & configured.keys():
            found |= {(topic, queue_id) for queue_id in range(configured[topic][0])}
        for topic in sorted(wanted - {topic for topic, _ in found}):
            raise NoRoute(topic, f"it is not in {self._files.directory}")
        return tuple(sorted(QueueRef(topic, self.broker, queue_id) for topic, queue_id in found))

    def origin(self, queue: QueueRef) -> str:  # noqa: ARG002  # all are in one directory
        return str(self._files.directory)

    # Extents and offsets

    def extents(self, queues: Collection[QueueRef]) -> Mapping[QueueRef, Extent]:
        self._files.refresh()
        return {queue: self._files_of(queue).refresh() for queue in self._of_this_broker(queues)}

    def survey(self, queues: Collection[QueueRef]) -> QueueSurvey:
        return QueueSurvey(self.extents(queues), {})

    def offsets_at(
        self, queues: Collection[QueueRef], time_ms: int
    ) -> Mapping[QueueRef, QueueOffset]:
        self._files.refresh()
        return {
            queue: self._files_of(queue).offset_at(time_ms)
            for queue in self._of_this_broker(queues)
        }

    def group_offsets(
        self, queues: Collection[QueueRef], group: str
    ) -> Mapping[QueueRef, QueueOffset]:
        saved = self._tables.consumer_offsets.load()
        if saved is None:
            return {}
        return {
            queue: QueueOffset(offset)
            for queue in self._of_this_broker(queues)
            if (offset := saved.offset_table.get(f"{queue.topic}@{group}", {}).get(queue.queue_id))
            is not None
        }

    # Inside

    def _of_this_broker(self, queues: Collection[QueueRef]) -> list[QueueRef]:
        return [queue for queue in queues if queue.broker == self.broker]

    def _files_of(self, queue: QueueRef) -> QueueFiles | BatchQueueFiles:
        key = queue.topic, queue.queue_id
        if key not in self._known:
            self._known[key] = queue_files(self._files, *key)
        return self._known[key]

    def _found(self) -> Iterator[tuple[str, int]]:
        for name in (CONSUME_QUEUE_DIRECTORY, BATCH_QUEUE_DIRECTORY):
            yield from found_queues(self._files.disk, self._files.directory / name)

    def _configured(self) -> dict[str, tuple[int, int]]:
        """The number of readable queues and the permissions of every topic in the table."""
        saved = self._tables.topics.load()
        if saved is None:
            return {}
        return {
            name: (topic.read_queue_nums, topic.perm)
            for name, topic in saved.topic_config_table.items()
        }

    def _cluster(self) -> str | None:
        names = [name.removesuffix(_REPLY) for name in self._configured() if name.endswith(_REPLY)]
        return names[0] if len(names) == 1 else None

    def _own_name(self) -> str | None:
        """Topics with the INHERIT permission are the template, the cluster's and the broker's."""
        others = {AUTO_CREATE_TOPIC, self._cluster()}
        names = [
            name
            for name, (_, permission) in self._configured().items()
            if permission & Permission.INHERIT and name not in others and not is_system_topic(name)
        ]
        return names[0] if len(names) == 1 else None


def queue_files(files: StoreFiles, topic: str, queue_id: int) -> QueueFiles | BatchQueueFiles:
    """The files of a queue, plain or of batches; a queue without files has no messages."""
    path = queue_directory(files.directory / BATCH_QUEUE_DIRECTORY, topic, queue_id)
    if not files.disk.is_directory(path):
        return files.queue(topic, queue_id)
    file_bytes = files.batch_queue_file_bytes
    return BatchQueueFiles(files.disk, path, topic, queue_id, file_bytes, files.log)


class StorePages:
    """Reads parts of queues from files."""

    def pages(self, part: ReadPart, wanted: Wanted, count_max: int) -> Iterator[Page]:
        files = StoreFiles(Path(part.origin))
        try:
            queue = queue_files(files, part.span.queue.topic, part.span.queue.queue_id)
            yield from _Reading(files.log, queue, part.span, wanted, count_max).pages()
        finally:
            files.close()

    def all_pages(
        self, parts: Sequence[ReadPart], wanted: Wanted, count_max: int
    ) -> Iterator[Page]:
        for part in parts:
            yield from self.pages(part, wanted, count_max)


class _Reading:
    """One part: its units, chunk by chunk, and the records they point to."""

    def __init__(
        self,
        log: LogFiles,
        queue: QueueFiles | BatchQueueFiles,
        span: Span,
        wanted: Wanted,
        count_max: int,
    ) -> None:
        self._log = log
        self._queue = queue
        self._span = span
        self._codes = _tag_codes(wanted)
        self._takes = _sql_test(wanted)
        self._units_max = max(1, count_max) if self._codes is None else UNITS_MAX
        self._extent = queue.refresh()

    def pages(self) -> Iterator[Page]:
        span, extent = self._span, self._extent
        at, stop = int(span.start), int(min(span.stop, extent.stop))
        if at < extent.start:
            after = int(min(extent.start, span.stop))
            yield self._gap(at, after)
            at = after
        while at < stop:
            found = self._gather(at, stop)
            if found.unit_count:
                yield self._page(at, found)
                at += found.unit_count
            if found.lost_count:
                yield self._gap(at, at + found.lost_count)
                at += found.lost_count
        if stop < span.stop:
            yield self._gap(max(at, stop), int(span.stop))

    def _gather(self, at: int, stop: int) -> Gathered:
        queue = self._queue
        if isinstance(queue, BatchQueueFiles):
            return queue.gather(at, stop, self._codes)
        units = queue.units(at, min(self._units_max, stop - at))
        if not len(units):
            return Gathered(b"", 0, stop - at)
        topic = self._span.queue.topic
        return gather_records(self._log, units, queue.queue_id, at, topic, self._codes)

    def _page(self, at: int, found: Gathered) -> Page:
        records = found.records
        if self._takes is not None and records:
            records = _chosen(records, self._takes)
        return self._made(at, at + found.unit_count, records)

    def _gap(self, start: int, stop: int) -> Page:
        return self._made(start, stop, b"", (QueueOffset(start), QueueOffset(stop)))

    def _made(
        self,
        start: int,
        stop: int,
        records: bytes,
        gap: tuple[QueueOffset, QueueOffset] | None = None,
    ) -> Page:
        return Page(
            self._span.queue,
            QueueOffset(start),
            QueueOffset(stop),
            records,
            self._extent.start,
            self._extent.stop,
            gap=gap,
        )


def _tag_codes(wanted: Wanted) -> frozenset[int] | None:
    tags = wanted.tag_test()
    return None if tags is None else frozenset(tags.codes)


def _sql_test(wanted: Wanted) -> Callable[[Mapping[str, str]], bool] | None:
    return compile_sql(wanted.text).matches if wanted.expression_type == SQL92 else None


def _chosen(records: bytes, takes: Callable[[Mapping[str, str]], bool]) -> bytes:
    """The records whose properties pass a test.

    Bytes that are not a whole record stay: the reader of the page reports them.
    """
    columns = scan_records(records)
    stops = columns.start + columns.size_bytes
    first = columns.properties_start
    texts = zip(first.tolist(), (first + columns.properties_length).tolist(), strict=True)
    keep = np.fromiter((takes(parse_properties(records[a:b])) for a, b in texts), np.bool_)
    pieces = zip(columns.start[keep].tolist(), stops[keep].tolist(), strict=True)
    return b"".join([*(records[a:b] for a, b in pieces), records[columns.end.position :]])
