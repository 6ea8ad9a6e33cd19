"""Every option of the source: its name, its form, its default and what it is for."""

from __future__ import annotations

from typing import Any, Final

from flintmq.spark.arrow.schema import Form, OnBadRecord, Properties
from flintmq.spark.options import offset_specs as places
from flintmq.spark.options.connection_options import ACCESS
from flintmq.spark.options.offset_specs import Word
from flintmq.spark.options.option_table import (
    Option,
    OptionTable,
    duration_ms,
    names,
    one_of,
    text,
    true_or_false,
    whole,
)

MIN_PARTITIONS_MAX: Final = 100_000
"""More tasks than that, and Spark's scheduler is what one waits for."""

_OFFSETS: Final = "earliest, latest, group or JSON"
_TIME: Final = "milliseconds since 1970, or ISO 8601 with an offset"

SUBSCRIBE: Final = Option[str | None](
    "subscribe", text, None, "topic,topic", "The topics to read, all their queues."
)
SUBSCRIBE_PATTERN: Final = Option[str | None](
    "subscribePattern",
    places.pattern,
    None,
    "a regular expression",
    "Read every topic whose whole name matches; for a stream also topics that come later.",
)
ASSIGN: Final = Option[dict[str, Any] | None](
    "assign",
    places.json_object,
    None,
    '{"topic": {"broker": [0, 1]}}',
    'Read these queues only; {"topic": [0, 1]} means those of every broker.',
)
TAGS: Final = Option[str | None](
    "tags", text, None, "tag || tag", "Only messages with one of these tags; the broker filters."
)
SQL: Final = Option[str | None](
    "sql", text, None, "SQL92", "Only messages whose properties match; the broker filters."
)
STARTING_OFFSETS: Final = Option[Word | dict[str, Any] | None](
    "startingOffsets",
    places.words_or_offsets,
    None,
    _OFFSETS,
    "Where to start: a stream where the group stands, without one at latest; a batch at earliest.",
)
ENDING_OFFSETS: Final = Option[Word | dict[str, Any] | None](
    "endingOffsets", places.words_or_offsets, None, _OFFSETS, "Where a batch ends: latest."
)
STARTING_TIMESTAMP: Final = Option[int | None](
    "startingTimestamp",
    places.time_ms,
    None,
    _TIME,
    "Start with the first message that was stored at this time or later.",
)
ENDING_TIMESTAMP: Final = Option[int | None](
    "endingTimestamp",
    places.time_ms,
    None,
    _TIME,
    "End a batch before the first message that was stored at this time or later.",
)
MAX_OFFSETS: Final = Option[int | None](
    "maxOffsetsPerTrigger",
    whole(1),
    None,
    "a number",
    "So many messages in one batch of a stream at most, shared by its queues as they lag.",
)
MAX_BYTES: Final = Option[int | None](
    "maxBytesPerTrigger",
    whole(1),
    None,
    "a number",
    "About so many bytes in one batch of a stream at most, by the sizes seen so far.",
)
MIN_OFFSETS: Final = Option[int | None](
    "minOffsetsPerTrigger",
    whole(1),
    None,
    "a number",
    "Wait until so many messages are there, or maxTriggerDelay has passed.",
)
MAX_DELAY: Final = Option[int](
    "maxTriggerDelay",
    duration_ms,
    15 * 60_000,
    "15m, 10s, 500ms",
    "How long minOffsetsPerTrigger may hold messages back.",
)
MIN_PARTITIONS: Final = Option[int | None](
    "minPartitions",
    whole(1, MIN_PARTITIONS_MAX),
    None,
    "a number",
    "Have at least so many tasks, by cutting queues into pieces; small queues share tasks else.",
)
MAX_RECORDS: Final = Option[int | None](
    "maxRecordsPerPartition",
    whole(1),
    None,
    "a number",
    "Cut queues into pieces of at most so many messages.",
)
FAIL_ON_DATA_LOSS: Final = Option[bool](
    "failOnDataLoss",
    true_or_false,
    True,
    "true or false",
    "Fail when messages to be read are gone; else log a warning and go on with what is there.",
)
CONSUMER_GROUP: Final = Option[str | None](
    "consumerGroup",
    text,
    None,
    "a name",
    "The group whose offsets are started from and, by a stream, moved on with each batch.",
)
COLUMNS_WANTED: Final = Option[tuple[str, ...] | None](
    "columns", names, None, "name,name", "The columns to produce; the fewer, the faster."
)
SCHEMA: Final = Option[Form](
    "schema", one_of(Form), Form.ROCKETMQ, "rocketmq or kafka", "Whose columns to produce."
)
PROPERTIES_AS: Final = Option[Properties](
    "properties",
    one_of(Properties),
    Properties.OFF,
    "off, raw or map",
    "Add the properties as a column: as stored, or as a map, which costs as much as all the rest.",
)
INCLUDE_HEADERS: Final = Option[bool](
    "includeHeaders",
    true_or_false,
    True,
    "true or false",
    "With schema=kafka: false leaves the column headers out.",
)
ON_BAD_RECORD: Final = Option[OnBadRecord](
    "onBadRecord",
    one_of(OnBadRecord),
    OnBadRecord.QUARANTINE,
    "quarantine, skip, stop or dead_letter",
    "What becomes of a record that cannot be decoded: a row with a null body, no row, an error, "
    "or, by a stream with consumerGroup, a dead letter of the group.",
)
INCLUDE_BAD_RECORD: Final = Option[bool](
    "includeBadRecord",
    true_or_false,
    False,
    "true or false",
    "Add the column bad_record: for a record that cannot be decoded, the reason and its bytes.",
)
STORE: Final = Option[str | None](
    "store", text, None, "a directory", "Read a store directory and no cluster."
)

SOURCE: Final = OptionTable(
    (
        *ACCESS,
        SUBSCRIBE,
        SUBSCRIBE_PATTERN,
        ASSIGN,
        TAGS,
        SQL,
        STARTING_OFFSETS,
        STARTING_TIMESTAMP,
        ENDING_OFFSETS,
        ENDING_TIMESTAMP,
        MAX_OFFSETS,
        MAX_BYTES,
        MIN_OFFSETS,
        MAX_DELAY,
        MIN_PARTITIONS,
        MAX_RECORDS,
        FAIL_ON_DATA_LOSS,
        CONSUMER_GROUP,
        COLUMNS_WANTED,
        SCHEMA,
        PROPERTIES_AS,
        INCLUDE_HEADERS,
        ON_BAD_RECORD,
        INCLUDE_BAD_RECORD,
        STORE,
    ),
    instead={
        "topic": "subscribe names the topics to read",
        "topics": "subscribe names the topics to read",
        "kafka.bootstrap.servers": "namesrv says where the cluster is",
        "kafka.group.id": "consumerGroup names the group",
        "group.id": "consumerGroup names the group",
        "groupidprefix": "consumerGroup names the group",
        "startingoffsetsbytimestamp": "startingTimestamp is one time for all queues",
        "endingoffsetsbytimestamp": "endingTimestamp is one time for all queues",
        "kafka.": "options of Kafka's client have no meaning here",
    },
)
