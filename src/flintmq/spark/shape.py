"""Which columns a source gives, and in which form; it travels with every task."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Form(StrEnum):
    """Whose columns: our own, or those of Spark's Kafka source."""

    ROCKETMQ = "rocketmq"
    KAFKA = "kafka"


class Properties(StrEnum):
    """What becomes of the properties of a message.  A map costs as much as all other columns."""

    OFF = "off"
    RAW = "raw"
    MAP = "map"


class OnBadRecord(StrEnum):
    """What becomes of a record that cannot be decoded; see `flintmq.model.bad_record`.

    The last three words mean what they mean to a consumer.
    """

    QUARANTINE = "quarantine"
    DEAD_LETTER = "dead_letter"
    SKIP = "skip"
    STOP = "stop"


COLUMNS: Final = (
    "topic",
    "broker",
    "queue_id",
    "queue_offset",
    "message_id",
    "tags",
    "keys",
    "body",
    "flag",
    "sys_flag",
    "born_time",
    "store_time",
    "reconsume_times",
)
"""Ours, in their order.  ``properties`` follows where it is asked for."""

PROPERTIES: Final = "properties"

BAD_RECORD: Final = "bad_record"
"""The last column, where it is asked for: why a record has no body, and its bytes."""

KAFKA_COLUMNS: Final = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
)


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of a row, in this order."""

    columns: tuple[str, ...] = COLUMNS
    form: Form = Form.ROCKETMQ
    properties: Properties = Properties.OFF
    bad_record: bool = False
