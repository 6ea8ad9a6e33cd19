"""The options of the sink, beside those of the connection.

Which columns a frame may have is in `flintmq.spark.sink.sink_rows`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from flintmq.arrow.reading.access import Access
from flintmq.client.producer.producer_settings import ProducerSettings
from flintmq.core.producer.publisher import RETRIES
from flintmq.core.producer.send_draft import BATCH_BYTES_MAX, MESSAGE_BYTES_MAX
from flintmq.errors import InvalidSetting
from flintmq.model.group import check_group_name
from flintmq.model.message import BODY_BYTES_MAX
from flintmq.model.topic import check_sendable_topic
from flintmq.spark.options.connection_options import ACCESS, access_of
from flintmq.spark.options.option_table import (
    NotAllowed,
    Option,
    OptionTable,
    duration_ms,
    one_of,
    read_options,
    text,
    true_or_false,
    whole,
)

PRODUCER_GROUP: Final = "FLINTMQ_SPARK_SINK"
"""Groups of producers matter for transactions only, and the sink has none."""

SEND_MS: Final = 10_000
"""How long a request may take, retries included: one that carries a full batch to a busy broker
takes longer than a single message."""

IN_FLIGHT: Final = 4
"""Requests that a task has in flight: enough to keep a broker busy while rows are packed."""

IN_FLIGHT_MAX: Final = 64
"""Every request is waited for by a thread."""

BATCH_BYTES_LEAST: Final = 4_096
BATCH_BYTES_MOST: Final = 4 * 1024 * 1024
"""More than a broker accepts with its default settings."""

SINGLES_IN_FLIGHT: Final = 1_000
"""Messages in flight that cannot be in a batch."""

TOPIC_PREFIX: Final = "topic:"
"""What a place for bad rows begins with where it is a topic and no directory."""

_RUN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


class OnBadRow(StrEnum):
    """What happens to a row that makes no message, as one whose body is null."""

    FAIL = "fail"
    SKIP = "skip"
    QUARANTINE = "quarantine"


def _topic(given: str) -> str:
    check_sendable_topic(text(given))
    return text(given)


def _group(given: str) -> str:
    check_group_name(text(given))
    return text(given)


def _quarantine(given: str) -> str:
    if given.startswith(TOPIC_PREFIX):
        return TOPIC_PREFIX + _topic(given.removeprefix(TOPIC_PREFIX))
    return text(given)


def _run_id(given: str) -> str:
    if not _RUN_ID.fullmatch(given):
        raise NotAllowed("give 1 to 64 letters, digits, _ and -")
    return given


def _timeout_ms(given: str) -> int:
    found = duration_ms(given)
    if not found:
        raise NotAllowed("give a time above 0")
    return found


TOPIC: Final = Option[str | None](
    "topic", _topic, None, "a topic", "Where all rows go; without it the column topic says it."
)
SHARDING_KEY: Final = Option[str | None](
    "shardingKey",
    text,
    None,
    "a column",
    "Rows with the same text in this column go to one queue, in the order of their partition.",
)
RUN_ID: Final = Option[str | None](
    "runId",
    _run_id,
    None,
    "a name",
    "Of a batch: the same name when the same rows are written again, so that consumers can drop "
    "repeats; without it every write has a new one.",
)
GROUP: Final = Option[str](
    "producerGroup", _group, PRODUCER_GROUP, "a group", "The group of the producers in the tasks."
)
BATCH_BYTES: Final = Option[int](
    "batchBytes",
    whole(BATCH_BYTES_LEAST, BATCH_BYTES_MOST),
    BATCH_BYTES_MAX,
    "bytes",
    "How much one request carries.",
)
IN_FLIGHT_REQUESTS: Final = Option[int](
    "inFlight",
    whole(1, IN_FLIGHT_MAX),
    IN_FLIGHT,
    "a number",
    "How many requests a task has under way.",
)
TIMEOUT: Final = Option[int](
    "sendTimeout",
    _timeout_ms,
    SEND_MS,
    "a time, such as 10s",
    "How long a request may take, its retries at other brokers included; requests that fail are "
    "repeated until the time of retryTimeout is up.",
)
TRIES_MORE: Final = Option[int](
    "retries",
    whole(0, 100),
    RETRIES,
    "a number",
    "Further tries of a request that failed, at once; 0 repeats no request, whatever retryTimeout "
    "says.",
)
DROP_SYSTEM: Final = Option[bool](
    "dropSystemProperties",
    true_or_false,
    False,
    "true or false",
    "Leave out properties whose names belong to RocketMQ, as those of messages that were read; "
    "else they are an error.",
)
BAD_ROWS: Final = Option[OnBadRow](
    "badRows",
    one_of(OnBadRow),
    OnBadRow.FAIL,
    "fail, skip or quarantine",
    "A row that makes no message, as one whose body is null or too large: fail the write, leave "
    "the row out, or put it where quarantine says; how many there were is a warning at the end of "
    "the batch.",
)
QUARANTINE: Final = Option[str | None](
    "quarantine",
    _quarantine,
    None,
    "a directory, or topic:NAME",
    "Where rows go with badRows=quarantine, as JSON with their reason: files of a directory that "
    "all executors have, or messages of a topic.",
)
MESSAGE_BYTES: Final = Option[int](
    "maxMessageBytes",
    whole(1, BODY_BYTES_MAX),
    MESSAGE_BYTES_MAX,
    "bytes",
    "A row whose body is larger makes no message; maxMessageSize is what a broker allows.",
)

SINK_OPTIONS: Final = OptionTable(
    (
        *ACCESS,
        TOPIC,
        SHARDING_KEY,
        RUN_ID,
        GROUP,
        BATCH_BYTES,
        IN_FLIGHT_REQUESTS,
        TIMEOUT,
        TRIES_MORE,
        DROP_SYSTEM,
        BAD_ROWS,
        QUARANTINE,
        MESSAGE_BYTES,
    ),
    {
        "kafka.bootstrap.servers": "give namesrv, the name servers of the cluster",
        "kafka.": "settings of Kafka's producer have no meaning here",
        "tags": "tags are a column of the frame",
        "keys": "keys are a column of the frame",
    },
)


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Options of one write; they travel with every task."""

    access: Access
    topic: str | None = None
    sharding_column: str | None = None
    run_id: str | None = None
    group: str = PRODUCER_GROUP
    batch_bytes: int = BATCH_BYTES_MAX
    in_flight: int = IN_FLIGHT
    timeout_ms: int = SEND_MS
    retries: int = RETRIES
    drop_system: bool = False
    bad_rows: OnBadRow = OnBadRow.FAIL
    quarantine: str | None = None
    message_bytes: int = MESSAGE_BYTES_MAX

    def producer_settings(self) -> ProducerSettings:
        """What the producer of a task is made with."""
        access, account = self.access, self.access.account
        return ProducerSettings(
            namesrv=";".join(access.name_servers),
            namespace=access.namespace,
            access_key=None if account is None else account.access_key,
            secret_key=None if account is None else account.secret_key,
            security_token=None if account is None else account.security_token,
            tls=access.tls or False,
            retries=self.retries,
            batch_bytes_max=self.batch_bytes,
            message_bytes_max=max(self.message_bytes, MESSAGE_BYTES_MAX),
            in_flight_max=SINGLES_IN_FLIGHT,
        )


def sink_options(given: Mapping[str, str], *, streaming: bool = False) -> SinkOptions:
    """Read what a user gave; `InvalidSetting` says what is wrong with it."""
    values = read_options(given, SINK_OPTIONS, what="the sink")
    if streaming and RUN_ID in values:
        raise InvalidSetting(RUN_ID.name, str(values[RUN_ID]), "a stream has its query id instead")
    if (values[BAD_ROWS] is OnBadRow.QUARANTINE) != (QUARANTINE in values):
        reason = f"{QUARANTINE.name} and {BAD_ROWS.name}={OnBadRow.QUARANTINE} need each other"
        raise InvalidSetting(BAD_ROWS.name, values[BAD_ROWS], reason)
    return SinkOptions(
        access=access_of(values),
        topic=values[TOPIC],
        sharding_column=values[SHARDING_KEY],
        run_id=values[RUN_ID],
        group=values[GROUP],
        batch_bytes=values[BATCH_BYTES],
        in_flight=values[IN_FLIGHT_REQUESTS],
        timeout_ms=values[TIMEOUT],
        retries=values[TRIES_MORE],
        drop_system=values[DROP_SYSTEM],
        bad_rows=values[BAD_ROWS],
        quarantine=values[QUARANTINE],
        message_bytes=values[MESSAGE_BYTES],
    )
