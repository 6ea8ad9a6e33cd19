"""`read_topic`, `read_topic_batches` and `read_store`: messages as Arrow tables and batches.

    topics ► queues ► offsets of start and end, taken once ► pages ► columns ► batches ► table

The end is fixed when the read begins, so a topic that grows meanwhile is no endless read.  Rows
come queue by queue, in the order of topic, broker and queue id; in a queue by offset.  Nothing is
committed, no group is involved.

Refused, with `InvalidSetting`: unknown columns, times without a time zone, a cluster together with
a store directory.  `ResultTooLarge` is raised in place of a table over its limits.

Invariant: a row is a message whose queue offset lies between start and end, each exactly once.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import Final, Literal, TypeAlias, TypedDict, Unpack

import pyarrow as pa

from flintmq.arrow.bad_records import BadRecords
from flintmq.arrow.columns import Columns
from flintmq.arrow.reading.access import Access
from flintmq.arrow.reading.cluster_pages import check_gap
from flintmq.arrow.reading.open_queues import open_queues, page_reader
from flintmq.arrow.reading.place_offsets import place_offsets
from flintmq.arrow.reading.queue_source import QueueSource, ReadPart
from flintmq.arrow.schema import (
    BAD_RECORD,
    COLUMNS,
    PROPERTIES,
    OnBadRecord,
    Properties,
    Shape,
    arrow_schema,
)
from flintmq.core.account import account_of
from flintmq.core.admin.spans import END, START, ToEnd, ToStart, ToTime
from flintmq.core.reading.read_span import Page, Wanted
from flintmq.errors import InvalidSetting, ResultTooLarge
from flintmq.model.group import with_namespace
from flintmq.model.queue import Span
from flintmq.model.topic import check_namespace, check_topic_name
from flintmq.net.address import name_servers
from flintmq.net.tls import ClientTls

ALL_COLUMNS: Final = (*COLUMNS, PROPERTIES)
"""The columns of a table where none are named."""

TABLE_BYTES_MAX: Final = 1024**3
"""The size of a table in memory where no other is allowed: few programs want more by accident."""

PULL_COUNT: Final = 4_096
"""Messages asked for by one pull.  Brokers return fewer where these are large."""

TIME_MS_MIN: Final = 10**11
"""Smaller numbers, of times before 1973, are seconds or offsets that somebody took for a time."""

Moment: TypeAlias = str | int | datetime
"""``"earliest"``, ``"latest"``, ISO 8601, milliseconds since 1970, or a `datetime`.

Texts and `datetime` need a time zone.
"""

BadRecordRule: TypeAlias = Literal["quarantine", "skip", "stop"]
"""What becomes of a record that cannot be decoded: a row without a body, no row, or an error."""


class ClusterSettings(TypedDict, total=False):
    """How to reach a cluster; the names and meanings are those of every client."""

    namesrv: str | None
    namespace: str
    access_key: str | None
    secret_key: str | None
    security_token: str | None
    tls: ClientTls | bool


def read_topic(
    topic: str | Sequence[str],
    *,
    store: str | os.PathLike[str] | None = None,
    start: Moment = "earliest",
    end: Moment = "latest",
    columns: Sequence[str] | None = None,
    tags: str | None = None,
    sql: str | None = None,
    limit: int | None = None,
    max_rows: int | None = None,
    max_bytes: int = TABLE_BYTES_MAX,
    on_bad_record: BadRecordRule = "quarantine",
    fail_on_data_loss: bool = True,
    **cluster: Unpack[ClusterSettings],
) -> pa.Table:
    """The messages of a topic, or of several, as one table.

    Args:
        topic: A name, or several.  Dead letters are in ``%DLQ%group``.
        store: A store directory to read in place of a cluster; its broker may run or not.
        start: The first message that is read: ``"earliest"``, or a time.  A time means the time
            at which the broker stored a message; the message at that time is read.
        end: Where the read ends: ``"latest"`` is the end of each queue now.  A message stored at
            the time ``end`` or later is not read.
        columns: The columns, in this order; fewer columns are read faster.  Without it all, with
            the properties as a map.  ``bad_record`` is made only where it is named.
        tags: Only messages with these tags: ``"paid || refunded"``.
        sql: Only messages whose properties match this SQL92 condition.
        limit: Read only so many rows.
        max_rows: Refuse a table with more rows, with `ResultTooLarge`.
        max_bytes: Refuse a table that takes more memory, with `ResultTooLarge`.
        on_bad_record: What becomes of a record that cannot be decoded.
        fail_on_data_loss: Whether messages that are deleted during the read are an error,
            `MessagesLost`, or a warning in the log.
        cluster: ``namesrv`` and the other connection settings of every client.
    """
    read = _planned(
        topic, store, start, end, columns, tags, sql, on_bad_record, cluster, fail_on_data_loss
    )
    return read.table(limit, max_rows, max_bytes)


def read_topic_batches(
    topic: str | Sequence[str],
    *,
    store: str | os.PathLike[str] | None = None,
    start: Moment = "earliest",
    end: Moment = "latest",
    columns: Sequence[str] | None = None,
    tags: str | None = None,
    sql: str | None = None,
    limit: int | None = None,
    on_bad_record: BadRecordRule = "quarantine",
    fail_on_data_loss: bool = True,
    **cluster: Unpack[ClusterSettings],
) -> pa.RecordBatchReader:
    """The same rows as `read_topic`, as a stream of record batches of at most 4,096 rows.

    Memory holds a few batches only, however large the topic is.  DuckDB, Polars and
    ``pyarrow.parquet`` read it as it is; ``for batch in reader`` gives a `RecordBatch` each.
    It can be read once.
    """
    read = _planned(
        topic, store, start, end, columns, tags, sql, on_bad_record, cluster, fail_on_data_loss
    )
    return pa.RecordBatchReader.from_batches(read.schema, read.batches(limit))


def read_store(
    directory: str | os.PathLike[str],
    *,
    topics: Sequence[str] | None = None,
    start: Moment = "earliest",
    end: Moment = "latest",
    columns: Sequence[str] | None = None,
    limit: int | None = None,
    max_rows: int | None = None,
    max_bytes: int = TABLE_BYTES_MAX,
    on_bad_record: BadRecordRule = "quarantine",
) -> pa.Table:
    """All messages of a store directory as one table: of its topics, or of those that are named.

    Without ``topics``, retry, dead-letter and system topics are left out.  The other arguments
    are those of `read_topic`.
    """
    if topics is None:
        with closing(open_queues(Access(()), str(directory))) as queues:
            topics = queues.topics()
    read = _planned(topics, directory, start, end, columns, None, None, on_bad_record, {})
    return read.table(limit, max_rows, max_bytes)


@dataclass(frozen=True, slots=True)
class _TopicRead:
    """What to read, checked."""

    topics: tuple[str, ...]
    access: Access
    store: str | None
    start: ToStart | ToEnd | ToTime
    end: ToStart | ToEnd | ToTime
    columns: tuple[str, ...]
    wanted: Wanted
    rule: OnBadRecord
    fail_on_data_loss: bool

    @property
    def shape(self) -> Shape:
        own = tuple(name for name in self.columns if name in COLUMNS)
        properties = Properties.MAP if PROPERTIES in self.columns else Properties.OFF
        return Shape(own, properties=properties, bad_record=BAD_RECORD in self.columns)

    @property
    def schema(self) -> pa.Schema:
        made = arrow_schema(self.shape)
        return pa.schema([made.field(name) for name in self.columns])

    def table(self, limit: int | None, max_rows: int | None, max_bytes: int) -> pa.Table:
        rows = size_bytes = 0
        kept = []
        for batch in self.batches(limit):
            rows += batch.num_rows
            size_bytes += batch.nbytes
            if max_rows is not None and rows > max_rows:
                raise self._too_large("rows", max_rows, "max_rows")
            if size_bytes > max_bytes:
                raise self._too_large("bytes", max_bytes, "max_bytes")
            kept.append(batch)
        return pa.Table.from_batches(kept, self.schema)

    def batches(self, limit: int | None) -> Iterator[pa.RecordBatch]:
        if limit is not None and limit < 0:
            raise InvalidSetting("limit", str(limit), "give the number of rows to read")
        left = limit
        parts = self._parts()
        bad_records = BadRecords(self.rule)
        columns = Columns(
            self.shape,
            parts,
            wanted=self.wanted,
            namespace=self.access.namespace,
            bad_records=bad_records,
        )
        with bad_records, closing(self._pages(parts)) as pages:
            for batch in columns.read(pages):
                if left is not None:
                    batch = batch.slice(0, left)
                    left -= batch.num_rows
                if batch.num_rows:
                    yield batch.select(list(self.columns))
                if left == 0:
                    return

    def _parts(self) -> list[ReadPart]:
        if not self.topics:
            return []
        with closing(open_queues(self.access, self.store)) as queues:
            return [
                ReadPart(span, queues.origin(span.queue))
                for span in _spans(queues, self.topics, self.start, self.end)
                if span.start < span.stop
            ]

    def _pages(self, parts: Sequence[ReadPart]) -> Generator[Page]:
        reader = page_reader(self.access, self.store)
        for page in reader.all_pages(parts, self.wanted, PULL_COUNT):
            check_gap(
                page, fail_on_data_loss=self.fail_on_data_loss, setting="fail_on_data_loss=False"
            )
            yield page

    def _too_large(self, unit: str, limit: int, knob: str) -> ResultTooLarge:
        named = ", ".join(self.topics)
        advice = "raise it, read fewer columns or a shorter span, or use read_topic_batches"
        return ResultTooLarge(f"the table of {named}, in {unit},", limit, f"{knob}: {advice}")


def _planned(
    topic: str | Sequence[str],
    store: str | os.PathLike[str] | None,
    start: Moment,
    end: Moment,
    columns: Sequence[str] | None,
    tags: str | None,
    sql: str | None,
    on_bad_record: str,
    cluster: ClusterSettings,
    fail_on_data_loss: bool = True,
) -> _TopicRead:
    access = _access(cluster, store)
    topics = [topic] if isinstance(topic, str) else list(topic)
    for name in topics:
        if not name.startswith("%"):  # retry and dead-letter topics are named by the broker
            check_topic_name(name)
    rules = [OnBadRecord.QUARANTINE, OnBadRecord.SKIP, OnBadRecord.STOP]
    if on_bad_record not in rules:
        raise InvalidSetting("on_bad_record", on_bad_record, f"is one of {', '.join(rules)}")
    return _TopicRead(
        tuple(dict.fromkeys(with_namespace(access.namespace, name) for name in topics)),
        access,
        None if store is None else os.fspath(store),
        _place("start", start),
        _place("end", end),
        _columns(columns),
        Wanted.by(tags=tags, sql=sql),
        OnBadRecord(on_bad_record),
        fail_on_data_loss,
    )


def _access(cluster: ClusterSettings, store: object) -> Access:
    known = set(ClusterSettings.__annotations__)
    for name in cluster.keys() - known:
        near = get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}?" if near else "there is no such setting"
        raise InvalidSetting(name, "", hint)
    namespace = cluster.get("namespace", "")
    check_namespace(namespace)
    if store is not None:
        for name in cluster.keys() - {"namespace"}:
            raise InvalidSetting(name, "", "a store directory is read without a cluster")
        return Access((), namespace)
    tls = cluster.get("tls", False)
    return Access(
        name_servers(cluster.get("namesrv"), os.environ),
        namespace,
        account_of(
            cluster.get("access_key"), cluster.get("secret_key"), cluster.get("security_token")
        ),
        (tls if isinstance(tls, ClientTls) else ClientTls()) if tls else None,
    )


def _place(setting: str, moment: Moment) -> ToStart | ToEnd | ToTime:
    match moment:
        case "earliest":
            return START
        case "latest":
            return END
        case int() if not isinstance(moment, bool):
            if moment < TIME_MS_MIN:
                reason = "a number is a time in milliseconds since 1970; offsets are not taken here"
                raise InvalidSetting(setting, str(moment), reason)
            return ToTime(moment)
        case str():
            try:
                moment = datetime.fromisoformat(moment)
            except ValueError:
                example = '"earliest", "latest" or a time such as "2026-11-17T08:30:00+01:00"'
                raise InvalidSetting(setting, str(moment), f"give {example}") from None
    if not isinstance(moment, datetime):
        raise InvalidSetting(setting, repr(moment)[:80], "give a word, a datetime, or milliseconds")
    if moment.tzinfo is None:
        reason = "has no time zone; .astimezone() adds the one of this machine"
        raise InvalidSetting(setting, str(moment), reason)
    return ToTime(round(moment.timestamp() * 1000))


def _columns(names: Sequence[str] | None) -> tuple[str, ...]:
    if names is None:
        return ALL_COLUMNS
    if isinstance(names, str) or not names:
        raise InvalidSetting("columns", repr(names), f"give a list of: {', '.join(ALL_COLUMNS)}")
    known = {*ALL_COLUMNS, BAD_RECORD}
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"they are {', '.join(ALL_COLUMNS)}"
            raise InvalidSetting("columns", name, f"there is no such column; {hint}")
    return tuple(dict.fromkeys(names))


def _spans(
    queues: QueueSource,
    topics: Sequence[str],
    start: ToStart | ToEnd | ToTime,
    end: ToStart | ToEnd | ToTime,
) -> list[Span]:
    """The span of each queue, sorted by queue."""
    extents = queues.extents(queues.queues(topics))
    starts, stops = (place_offsets(queues, place, extents) for place in (start, end))
    return [
        Span(queue, starts[queue], max(starts[queue], stops[queue])) for queue in sorted(extents)
    ]
