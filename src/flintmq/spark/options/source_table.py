"""Every option of the source: its name, its form, its default and what it is for."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from flintmq.arrow.schema import Form, OnBadRecord, Properties
from flintmq.spark.options import offset_specs as places
from flintmq.spark.options.connection_options import ACCESS
from flintmq.spark.options.offset_specs import GivenPlace
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


class TriggerKind(StrEnum):
    """What a user says of the trigger of a query, where Spark does not tell the source."""

    INTERVAL = "interval"
    ONCE = "once"


MIN_PARTITIONS_MAX: Final = 100_000
"""With more tasks than that, Spark's scheduler takes longer than the tasks."""

_OFFSETS: Final = "earliest, latest, group, a time, an offset or JSON"
_TIME: Final = "milliseconds since 1970, or ISO 8601 with an offset"

SUBSCRIBE: Final = Option[str | None](
    "subscribe", text, None, "topic,topic", "The topics to read, with all their queues."
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
    'Read only these queues; {"topic": [0, 1]} means these queues of every broker.',
)
TAGS: Final = Option[str | None](
    "tags", text, None, "tag || tag", "Only messages with one of these tags; the broker filters."
)
SQL: Final = Option[str | None](
    "sql", text, None, "SQL92", "Only messages whose properties match; the broker filters."
)
STARTING_OFFSETS: Final = Option[GivenPlace | None](
    "startingOffsets",
    places.words_or_offsets,
    None,
    _OFFSETS,
    "Where to start. Default of a stream: the group's offsets, latest without a group; of a batch: "
    "earliest.",
)
ENDING_OFFSETS: Final = Option[GivenPlace | None](
    "endingOffsets",
    places.words_or_offsets,
    None,
    _OFFSETS,
    "Where a batch ends; latest by default.",
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
    "The most messages of one micro-batch, divided among the queues by their lag.",
)
MAX_BYTES: Final = Option[int | None](
    "maxBytesPerTrigger",
    whole(1),
    None,
    "a number",
    "About the most bytes of one micro-batch, estimated from the sizes seen so far.",
)
MIN_OFFSETS: Final = Option[int | None](
    "minOffsetsPerTrigger",
    whole(1),
    None,
    "a number",
    "Wait until there are this many new messages, or maxTriggerDelay has passed.",
)
MAX_DELAY: Final = Option[int](
    "maxTriggerDelay",
    duration_ms,
    15 * 60_000,
    "15m, 10s, 500ms",
    "The longest wait for minOffsetsPerTrigger.",
)
TRIGGER: Final = Option[TriggerKind | None](
    "trigger",
    one_of(TriggerKind),
    None,
    "interval or once",
    "Which trigger the query has. Needed with limits on pyspark 4.0 and 4.1, which do not tell the "
    "source; newer ones do.",
)
MIN_PARTITIONS: Final = Option[int | None](
    "minPartitions",
    whole(1, MIN_PARTITIONS_MAX),
    None,
    "a number",
    "At least this many tasks: long queues are split. Without it small queues share tasks.",
)
MAX_RECORDS: Final = Option[int | None](
    "maxRecordsPerPartition",
    whole(1),
    None,
    "a number",
    "Split queues into tasks of at most this many messages.",
)
FAIL_ON_DATA_LOSS: Final = Option[bool](
    "failOnDataLoss",
    true_or_false,
    True,
    "true or false",
    "Fail when messages to be read were deleted; false logs a warning and continues with the rest.",
)
CONSUMER_GROUP: Final = Option[str | None](
    "consumerGroup",
    text,
    None,
    "a name",
    "The consumer group whose committed offsets a stream starts at, and for which it commits each "
    "micro-batch.",
)
COLUMNS_WANTED: Final = Option[tuple[str, ...] | None](
    "columns", names, None, "name,name", "The columns to produce; the fewer, the faster."
)
SCHEMA: Final = Option[Form](
    "schema",
    one_of(Form),
    Form.ROCKETMQ,
    "rocketmq or kafka",
    "Produce the columns of RocketMQ, or those of Spark's Kafka source.",
)
PROPERTIES_AS: Final = Option[Properties](
    "properties",
    one_of(Properties),
    Properties.OFF,
    "off, raw or map",
    "Add the properties as a column: as stored, or as a map, which costs as much as all others.",
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
    "What happens to a record that cannot be decoded: a row with a null body, no row, an error, "
    "or, in a stream with consumerGroup, a dead letter of the group.",
)
INCLUDE_BAD_RECORD: Final = Option[bool](
    "includeBadRecord",
    true_or_false,
    False,
    "true or false",
    "Add the column bad_record: for a record that cannot be decoded, the reason and its bytes.",
)
STORE: Final = Option[str | None](
    "store", text, None, "a directory", "Read a store directory instead of a cluster."
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
        TRIGGER,
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
