"""How often messages of topics were delivered again, and how many died, by group.

Both are stored in topics of the group, ``%RETRY%group`` and ``%DLQ%group``, where each message
says which topic it came from.  In a cluster those of the groups are read that are known to read
the topics; in a store directory all there are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from flintmq.arrow.reading.open_queues import open_queues
from flintmq.core.admin.topics import TopicKind, describe_topic, list_topics
from flintmq.model import properties as names
from flintmq.model.group import (
    DEAD_LETTER_PREFIX,
    RETRY_PREFIX,
    dead_letter_topic,
    is_dead_letter_topic,
    is_retry_topic,
    retry_topic,
    with_namespace,
    without_namespace,
)
from flintmq.reports.topic_figures import DEAD, RETRY, RetryCount
from flintmq.spark.options import source_table as table
from flintmq.spark.options.source_options import SourceOptions
from flintmq.store.files.layout import CONSUME_QUEUE_DIRECTORY
from flintmq.store.queues.consume_queue import found_queues
from flintmq.store.readonly.store_files import StoreFiles


def retry_frame(
    spark: SparkSession,
    given: Mapping[str, str],
    parsed: SourceOptions,
    topics: Collection[str],
    first_ms: int | None,
) -> DataFrame | None:
    """Retries and dead letters of these topics, stored at ``first_ms`` or later; None for none."""
    kept = _topics_of_groups(parsed, topics)
    if not kept or first_ms is None:
        return None
    options = {name: text for name, text in given.items() if name.lower() not in _REPLACED}
    options[table.SUBSCRIBE.name] = ",".join(kept)
    options[table.COLUMNS_WANTED.name] = "topic,store_time,properties"
    read = spark.read.format("rocketmq").options(**options).load()
    carried = f.col("properties")
    origin = f.coalesce(carried[names.DLQ_ORIGIN_TOPIC], carried[names.RETRY_TOPIC])
    full = [with_namespace(parsed.access.namespace, topic) for topic in topics]
    return read.select(
        "topic", origin.alias("origin"), f.unix_millis("store_time").alias("stored_ms")
    ).where((f.col("stored_ms") >= first_ms) & f.col("origin").isin(full))


def count_retries(frame: DataFrame, namespace: str, step_ms: int) -> tuple[RetryCount, ...]:
    """How many there are in each step of time."""
    start = f.col("stored_ms") - f.pmod(f.col("stored_ms"), f.lit(step_ms))
    rows = (
        frame.groupBy(start.alias("start_ms"), "origin", "topic")
        .agg(f.count("*").alias("messages"))
        .orderBy("start_ms", "origin", "topic")
        .collect()
    )
    return tuple(
        RetryCount(
            row.start_ms,
            without_namespace(namespace, row.origin),
            row.topic.removeprefix(RETRY_PREFIX).removeprefix(DEAD_LETTER_PREFIX),
            DEAD if is_dead_letter_topic(row.topic) else RETRY,
            row.messages,
        )
        for row in rows
    )


_REPLACED: Final = frozenset(
    option.name.lower()
    for option in (
        table.SUBSCRIBE,
        table.SUBSCRIBE_PATTERN,
        table.ASSIGN,
        table.STARTING_OFFSETS,
        table.ENDING_OFFSETS,
        table.COLUMNS_WANTED,
    )
)
"""What is said of the topics themselves.  Times and filters hold for retries too."""


def _topics_of_groups(parsed: SourceOptions, topics: Collection[str]) -> list[str]:
    """Retry and dead letter topics that can be read, of the groups of these topics."""
    found = _in_store(parsed.store) if parsed.store is not None else _in_cluster(parsed, topics)
    if not found:
        return []
    with closing(open_queues(parsed.access, parsed.store)) as queues:
        return sorted({queue.topic for queue in queues.queues(found)})


def _in_store(store: str) -> set[str]:
    path = Path(store).expanduser().resolve()
    with closing(StoreFiles(path)) as files:
        queues = found_queues(files.disk, path / CONSUME_QUEUE_DIRECTORY)
        return {
            topic for topic, _ in queues if is_retry_topic(topic) or is_dead_letter_topic(topic)
        }


def _in_cluster(parsed: SourceOptions, topics: Collection[str]) -> set[str]:
    with parsed.access.open() as line:
        listed = line.hold(list_topics(line.namesrv))
        there = {
            topic.name for topic in listed if topic.kind in (TopicKind.RETRY, TopicKind.DEAD_LETTER)
        }
        wanted: set[str] = set()
        for topic in topics:
            name = with_namespace(parsed.access.namespace, topic)
            for group in line.hold(describe_topic(line.namesrv, name)).groups:
                wanted |= {retry_topic(group), dead_letter_topic(group)}
    return there & wanted
