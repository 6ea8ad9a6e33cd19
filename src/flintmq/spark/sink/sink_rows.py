"""Rows of a frame as messages: which columns there may be, and what becomes of each.

    topic          string                  where to, unless the option topic says it
    body           binary or string        what is sent; value is another name for it
    tags           string
    keys           array<string> or string
    properties     map<string,string>      an entry without a value is left out
    queue_id       a whole number          in this queue, of the broker in the column broker, or
                                           of the first broker that has it
    sharding_key   string or number        rows with one key go to one queue
    delay_level    a whole number
    flag           a whole number

and those of a frame for Kafka: ``value``; ``key`` (binary or string), which is the message's key
and its sharding key; ``headers`` (array<struct<key:string,value:binary>>), which are properties;
``partition``, the place of a queue in the order of broker and id.  A row is sent to its
``queue_id``; else to its ``partition``; else by its ``sharding_key``; else by its ``key``; else
anywhere.

Other columns that the source gives are passed over, so that what was read can be written as it
is.  Any other column, and one of another type, is `InvalidSetting` on the driver.

A row that makes no message, as one whose body is null or too large, is one of `BadRows`.

Invariant: a row becomes one message that says which row it was, or one of the bad rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import repeat
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    CharType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    VarcharType,
)

from flintmq.core.producer.send_draft import MESSAGE_BYTES_MAX
from flintmq.errors import BodyTooLarge, FlintError, InvalidSetting, LocalProtocolError
from flintmq.model import properties as names
from flintmq.model.message import Message
from flintmq.protocol.records.properties import PROPERTIES_BYTES_MAX
from flintmq.spark.options.sink_options import SinkOptions
from flintmq.spark.sink.bad_rows import BadRows
from flintmq.spark.sink.plain_rows import PackedRows, Packer, pack_rows
from flintmq.spark.sink.row_identity import ROW_PROPERTY

TEXTS: Final = (StringType, CharType, VarcharType)
NUMBERS: Final = (ByteType, ShortType, IntegerType, LongType)


UTF8_BYTES_MAX: Final = 4
PROPERTIES_ROOM_BYTES: Final = PROPERTIES_BYTES_MAX - 1_024
"""What a row may have; the rest is for what producers and brokers add."""


class Form(NamedTuple):
    """The types a column may have.  ``allowed`` says it in words."""

    takes: Callable[[DataType], bool]
    allowed: str


def _is_text(kind: DataType) -> bool:
    return isinstance(kind, TEXTS)


def _is_octets(kind: DataType) -> bool:
    return isinstance(kind, BinaryType | StringType | CharType | VarcharType)


def _is_number(kind: DataType) -> bool:
    return isinstance(kind, NUMBERS)


def _is_keys(kind: DataType) -> bool:
    return _is_text(kind) or (isinstance(kind, ArrayType) and _is_text(kind.elementType))


def _is_map(kind: DataType) -> bool:
    return isinstance(kind, MapType) and _is_text(kind.keyType) and _is_text(kind.valueType)


def _is_headers(kind: DataType) -> bool:
    entry = kind.elementType if isinstance(kind, ArrayType) else None
    if not isinstance(entry, StructType) or entry.names != ["key", "value"]:
        return False
    return _is_text(entry["key"].dataType) and _is_octets(entry["value"].dataType)


TEXT: Final = Form(_is_text, "string")
OCTETS: Final = Form(_is_octets, "binary or string")
NUMBER: Final = Form(_is_number, "a whole number")
SHARDING: Final = Form(lambda kind: _is_text(kind) or _is_number(kind), "string or a whole number")

BODY: Final = "body"
VALUE: Final = "value"

COLUMNS: Final[Mapping[str, Form]] = {
    "topic": TEXT,
    BODY: OCTETS,
    VALUE: OCTETS,
    "tags": TEXT,
    "keys": Form(_is_keys, "array<string> or string"),
    "key": OCTETS,
    "properties": Form(_is_map, "map<string,string>"),
    "headers": Form(_is_headers, "array<struct<key:string,value:binary>>"),
    "queue_id": NUMBER,
    "broker": TEXT,
    "partition": NUMBER,
    "sharding_key": SHARDING,
    "delay_level": NUMBER,
    "flag": NUMBER,
}
"""What a column is for, by its name; names are matched whatever their case."""

OTHER_NAMES: Final = {"shardingkey": "sharding_key"}

PASSED_OVER: Final = frozenset(
    {
        "queue_offset",
        "message_id",
        "sys_flag",
        "born_time",
        "store_time",
        "reconsume_times",
        "offset",
        "timestamp",
        "timestamptype",
        "bad_record",
    }
)
"""What the source tells about a message and a sender cannot choose."""


class Target(NamedTuple):
    """The queue or the sharding key that a row names."""

    broker: str | None = None
    queue_id: int | None = None
    place: int | None = None
    sharding_key: str | None = None


ANYWHERE: Final = Target()


class OutRow(NamedTuple):
    """The message of a row and the queue or key it goes to."""

    message: Message
    target: Target


@dataclass(frozen=True, slots=True)
class RowPlan:
    """How rows of one schema become messages.  ``places`` are the columns by their roles."""

    places: Mapping[str, int]
    topic: str | None
    drop_system: bool
    body_bytes_max: int = MESSAGE_BYTES_MAX

    def packed(
        self, batch: pa.RecordBatch, packer: Packer, prefix: str, first: int, entry_bytes_max: int
    ) -> PackedRows | None:
        """The entries of a batch of plain rows, which may go anywhere; None for other batches."""
        if self.topic is None or self.places.keys() != {BODY}:
            return None
        return pack_rows(
            batch.column(self.places[BODY]),
            packer,
            self.topic,
            prefix,
            first,
            body_bytes_max=self.body_bytes_max,
            entry_bytes_max=entry_bytes_max,
        )

    def rows(
        self, batch: pa.RecordBatch, prefix: str, first: int, bad: BadRows
    ) -> Iterator[OutRow]:
        """The messages of a batch whose first row is the ``first`` of its partition."""
        columns = zip(
            repeat(self.topic, batch.num_rows) if self.topic else self._values(batch, "topic"),
            self._octets(batch, "body"),
            self._values(batch, "tags"),
            self._values(batch, "keys"),
            self._octets(batch, "key"),
            self._values(batch, "properties"),
            self._values(batch, "headers"),
            self._values(batch, "delay_level"),
            self._values(batch, "flag"),
            self._targets(batch),
            strict=True,
        )
        for row, values in enumerate(columns, first):
            try:
                out = self._out(f"{prefix}{row}", *values)
            except (FlintError, ValueError) as error:
                bad.add(f"{prefix}{row}", error, batch, row - first)
            else:
                yield out

    def _out(
        self,
        identity: str,
        topic: str | None,
        body: bytes | None,
        tags: str | None,
        keys: list[str | None] | str | None,
        key: bytes | None,
        properties: Iterable[tuple[str, str | None]] | None,
        headers: Iterable[Mapping[str, Any] | None] | None,
        delay_level: int | None,
        flag: int | None,
        target: Target,
    ) -> OutRow:
        if topic is None:
            raise LocalProtocolError("its topic is null")
        if not body:
            raise LocalProtocolError("its body is null or empty, which RocketMQ does not store")
        if len(body) > self.body_bytes_max:
            raise BodyTooLarge(self.body_bytes_max, f"its body has {len(body)} bytes")
        extra: dict[str, str] = {}
        if properties is not None:
            extra = {name: value for name, value in properties if value is not None}
        if headers is not None:
            extra.update(_header_properties(headers))
        if self.drop_system and extra:
            extra = {n: value for n, value in extra.items() if n not in names.SYSTEM_NAMES}
        if key is not None:
            text = _text(key, "key")
            if keys is None:
                keys = text
            if text and target is ANYWHERE:
                target = Target(sharding_key=text)
        if target.sharding_key and not target.sharding_key.isspace():
            extra[names.SHARDING_KEY] = target.sharding_key
        extra[ROW_PROPERTY] = identity
        _check_size(extra)
        message = Message(
            topic,
            body,
            tags=tags,
            keys=keys if isinstance(keys, str) else filter(None, keys) if keys else (),
            properties=extra,
            delay_level=delay_level or 0,
            flag=flag or 0,
        )
        return OutRow(message, target)

    def _values(self, batch: pa.RecordBatch, role: str) -> Iterable[Any]:
        place = self.places.get(role)
        return repeat(None, batch.num_rows) if place is None else batch.column(place).to_pylist()

    def _octets(self, batch: pa.RecordBatch, role: str) -> Iterable[bytes | None]:
        place = self.places.get(role)
        if place is None:
            return repeat(None, batch.num_rows)
        column = batch.column(place)
        if not pa.types.is_binary(column.type):
            column = column.cast(pa.large_binary())
        values: list[bytes | None] = column.to_pylist()
        return values

    def _texts(self, batch: pa.RecordBatch, role: str) -> Iterable[str | None]:
        place = self.places.get(role)
        if place is None:
            return repeat(None, batch.num_rows)
        values: list[str | None] = batch.column(place).cast(pa.string()).to_pylist()
        return values

    def _targets(self, batch: pa.RecordBatch) -> Iterable[Target]:
        if not self.places.keys() & {"queue_id", "partition", "sharding_key"}:
            return repeat(ANYWHERE, batch.num_rows)
        wishes = zip(
            self._values(batch, "broker"),
            self._values(batch, "queue_id"),
            self._values(batch, "partition"),
            self._texts(batch, "sharding_key"),
            strict=True,
        )
        return [_target(*wish) for wish in wishes]


def _target(
    broker: str | None, queue_id: int | None, place: int | None, sharding_key: str | None
) -> Target:
    """The first wish counts."""
    if queue_id is not None:
        return Target(broker=broker, queue_id=queue_id)
    if place is not None:
        return Target(place=place)
    if sharding_key:
        return Target(sharding_key=sharding_key)
    return ANYWHERE


def plan_rows(schema: StructType, options: SinkOptions) -> RowPlan:
    """Check that a frame can be sent; `InvalidSetting` names the column that cannot."""
    places: dict[str, int] = {}
    chosen = options.sharding_column
    found = schema.names
    for place, column in enumerate(schema.fields):
        for role in dict.fromkeys(_roles(column.name, column.dataType, chosen)):
            if role in places:
                raise _wrong(column.name, column.dataType, f"is the second column for the {role}")
            places[role] = place
    if chosen is not None and "sharding_key" not in places:
        raise InvalidSetting("shardingKey", chosen, f"there is no such column in {_shown(found)}")
    if "body" not in places:
        raise InvalidSetting(
            "column body", "", f"is missing: binary or string, or value, not only {_shown(found)}"
        )
    if options.topic is None and "topic" not in places:
        raise InvalidSetting("topic", "", "give the option topic, or a column topic")
    return RowPlan(places, options.topic, options.drop_system, options.message_bytes)


def _roles(name: str, kind: DataType, sharding_column: str | None) -> Iterator[str]:
    """The roles of a column: none, one, or two when it also chooses the queue."""
    key = OTHER_NAMES.get(name.lower(), name.lower())
    form = COLUMNS.get(key)
    if sharding_column is not None and name.lower() == sharding_column.lower():
        if not SHARDING.takes(kind):
            raise _wrong(name, kind, f"a sharding key must be {SHARDING.allowed}")
        yield "sharding_key"
    elif form is None and key not in PASSED_OVER:
        near = get_close_matches(key, COLUMNS, 1)
        hint = f"did you mean {near[0]}?" if near else "drop it or put it into the body"
        raise _wrong(name, kind, f"the sink has no use for it: {hint}")
    if form is not None:
        if not form.takes(kind):
            raise _wrong(name, kind, f"must be {form.allowed}")
        yield BODY if key == VALUE else key


def _wrong(name: str, kind: DataType, reason: str) -> InvalidSetting:
    return InvalidSetting(f"column {name}", kind.simpleString(), reason)


def _shown(columns: Iterable[str]) -> str:
    return ", ".join(columns)


def _header_properties(headers: Iterable[Mapping[str, Any] | None]) -> Iterator[tuple[str, str]]:
    for header in headers:
        if header is None or header["key"] is None or header["value"] is None:
            continue
        value = header["value"]
        yield header["key"], value if isinstance(value, str) else _text(value, header["key"])


def _check_size(properties: Mapping[str, str]) -> None:
    """`BodyTooLarge` for properties that no record holds; a batch would fail with them."""
    characters = sum(len(name) + len(value) for name, value in properties.items())
    if characters * UTF8_BYTES_MAX < PROPERTIES_ROOM_BYTES:
        return
    size = sum(len(n.encode()) + len(value.encode()) for n, value in properties.items())
    if size > PROPERTIES_ROOM_BYTES:
        raise BodyTooLarge(PROPERTIES_ROOM_BYTES, f"its properties have {size} bytes")


def _text(octets: bytes, what: str) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        raise LocalProtocolError(f"its {what} is no UTF-8 text, as RocketMQ needs it") from None
