"""Protobuf: messages of a descriptor set as columns.

Field names are column names.  A field that was not sent is null where the language knows that
(messages, ``optional``, ``oneof``), else its default.  Enumerations are their names, or their
numbers as text where a number has no name; ``google.protobuf.Timestamp`` is a TIMESTAMP, the
wrapper types are their values, uint64 is DECIMAL(20,0).  A message that contains itself is
`InvalidSetting`.

Bodies are decoded by Google's own package (``flintmq[decode]``).  Protobuf has no mark of its
own: bytes that are another message may well be read as this one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC
from decimal import Decimal
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from flintmq.errors import InvalidSetting, MissingExtra
from flintmq.spark.bodies.avro_schema import EXTRA

TIMESTAMP: Final = "google.protobuf.Timestamp"
WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
UINT64: Final = DecimalType(20, 0)

# By the numbers of the types in a field descriptor.
PLAIN: Final[Mapping[int, DataType]] = {
    1: DoubleType(),
    2: FloatType(),
    3: LongType(),
    4: UINT64,
    5: IntegerType(),
    6: UINT64,
    7: LongType(),
    8: BooleanType(),
    9: StringType(),
    12: BinaryType(),
    13: LongType(),
    14: StringType(),
    15: IntegerType(),
    16: LongType(),
    17: IntegerType(),
    18: LongType(),
}
MESSAGE, ENUM, GROUP = 11, 14, 10

Decode = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class ProtobufBodies:
    """Bodies that are messages of one type."""

    columns: StructType
    descriptors: bytes
    message: str

    def reader(self) -> Callable[[bytes], Mapping[str, Any]]:
        """A function that decodes one body, or raises what is wrong with it."""
        from google.protobuf.message_factory import GetMessageClass

        descriptor = _descriptor(self.descriptors, self.message)
        kind: Any = GetMessageClass(descriptor)
        fields = _decode_message(descriptor)

        def decode(body: bytes) -> Mapping[str, Any]:
            message = kind()
            message.ParseFromString(body)
            found: Mapping[str, Any] = fields(message)
            return found

        return decode


def protobuf_bodies(descriptors: bytes, message: str) -> ProtobufBodies:
    """Of the bytes of a descriptor set and the full name of a message in it."""
    columns = _struct(_descriptor(descriptors, message), ())
    if not columns.fields:
        raise InvalidSetting("schema", message, "has no fields")
    return ProtobufBodies(columns, descriptors, message)


def _descriptor(descriptors: bytes, message: str) -> Any:
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool
        from google.protobuf.message import DecodeError
    except ImportError:
        raise MissingExtra("protobuf", EXTRA) from None
    files: Any = descriptor_pb2.FileDescriptorSet()
    pool = descriptor_pool.DescriptorPool()
    try:
        files.ParseFromString(descriptors)
        for file in files.file:
            pool.Add(file)
        return pool.FindMessageTypeByName(message)
    except DecodeError:
        reason = "the file is no descriptor set: protoc --include_imports --descriptor_set_out"
    except KeyError:
        known = [f"{file.package}.{each.name}" for file in files.file for each in file.message_type]
        reason = f"is not among the messages of the descriptor set: {', '.join(known[:8])}"
    except TypeError as error:
        reason = f"the descriptor set lacks a file, make it with --include_imports: {error}"
    raise InvalidSetting("schema", message, reason)


# Types


def _struct(descriptor: Any, above: tuple[str, ...]) -> StructType:
    if descriptor.full_name in above:
        raise InvalidSetting("schema", descriptor.full_name, "contains itself")
    inside = (*above, descriptor.full_name)
    return StructType([StructField(each.name, _column(each, inside)) for each in descriptor.fields])


def _column(field: Any, above: tuple[str, ...]) -> DataType:
    if _is_map(field):
        key, value = field.message_type.fields
        return MapType(_single(key, above), _single(value, above))
    single = _single(field, above)
    return ArrayType(single) if _is_repeated(field) else single


def _single(field: Any, above: tuple[str, ...]) -> DataType:
    if field.type == GROUP:
        raise InvalidSetting("schema", field.full_name, "a group cannot be a column")
    if field.type != MESSAGE:
        return PLAIN[field.type]
    name = field.message_type.full_name
    if name == TIMESTAMP:
        return TimestampType()
    if name in WRAPPERS:
        return PLAIN[field.message_type.fields[0].type]
    return _struct(field.message_type, above)


def _is_repeated(field: Any) -> bool:
    return bool(field.is_repeated)


def _is_map(field: Any) -> bool:
    message = field.message_type
    return bool(message is not None and message.GetOptions().map_entry and _is_repeated(field))


# Values


def _decode_message(descriptor: Any) -> Decode:
    fields = [(each.name, _decode_field(each), each.has_presence) for each in descriptor.fields]

    def decode(message: Any) -> dict[str, Any]:
        has = message.HasField
        return {
            name: None if presence and not has(name) else value(getattr(message, name))
            for name, value, presence in fields
        }

    return decode


def _decode_field(field: Any) -> Decode:
    if _is_map(field):
        value = _decode_single(field.message_type.fields[1])
        key = _decode_single(field.message_type.fields[0])
        return lambda entries: [(key(name), value(entries[name])) for name in entries]
    single = _decode_single(field)
    return (lambda values: [single(each) for each in values]) if _is_repeated(field) else single


def _decode_single(field: Any) -> Decode:
    if field.type == ENUM:
        names = {number: each.name for number, each in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, str(number))
    if field.type != MESSAGE:
        return Decimal if PLAIN[field.type] is UINT64 else _same
    if field.message_type.full_name == TIMESTAMP:
        return lambda message: message.ToDatetime(tzinfo=UTC)
    if field.message_type.full_name in WRAPPERS:
        inner = _decode_single(field.message_type.fields[0])
        return lambda message: inner(message.value)
    return _decode_message(field.message_type)


def _same(value: Any) -> Any:
    return value
