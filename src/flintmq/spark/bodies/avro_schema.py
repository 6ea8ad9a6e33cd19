"""Avro: records in their binary encoding as columns.

A body is one record without a file around it, or in Avro's single-object encoding, whose marker
and fingerprint are passed over.  A union is null and one other type; times of a day, and records
that contain themselves, are `InvalidSetting`.

Bodies are decoded by fastavro (``flintmq[decode]``).  Spark's from_avro is a jar that does not
exist for every release, and says of a body that does not fit no more than null.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from flintmq.errors import InvalidSetting, MissingExtra

EXTRA: Final = "decode"

SINGLE_OBJECT: Final = b"\xc3\x01"
SINGLE_OBJECT_BYTES: Final = 10
"""The marker and the fingerprint of the schema."""

PLAIN: Final[Mapping[str, DataType]] = {
    "boolean": BooleanType(),
    "bytes": BinaryType(),
    "double": DoubleType(),
    "enum": StringType(),
    "fixed": BinaryType(),
    "float": FloatType(),
    "int": IntegerType(),
    "long": LongType(),
    "string": StringType(),
}
LOGICAL: Final[Mapping[str, DataType]] = {
    "date": DateType(),
    "local-timestamp-micros": TimestampNTZType(),
    "local-timestamp-millis": TimestampNTZType(),
    "timestamp-micros": TimestampType(),
    "timestamp-millis": TimestampType(),
    "uuid": StringType(),
}
DECIMAL_DIGITS_MAX: Final = 38
"""Spark has no more."""


@dataclass(frozen=True, slots=True)
class AvroBodies:
    """Bodies that are records of Avro."""

    columns: StructType
    text: str
    """The schema, in JSON."""

    def reader(self) -> Callable[[bytes], Mapping[str, Any]]:
        """A function that decodes one body, or raises what is wrong with it."""
        fastavro = _fastavro()
        parsed = fastavro.parse_schema(json.loads(self.text))
        read: Any = fastavro.schemaless_reader

        def decode(body: bytes) -> Mapping[str, Any]:
            source = io.BytesIO(body)
            if body.startswith(SINGLE_OBJECT):
                source.seek(SINGLE_OBJECT_BYTES)
            found: Mapping[str, Any] = read(source, parsed, None)
            if left := len(body) - source.tell():
                raise ValueError(f"{left} bytes are left behind the record")
            return found

        return decode


def avro_bodies(tree: Mapping[str, Any]) -> AvroBodies:
    """Of a schema whose outermost type is a record."""
    fastavro = _fastavro()
    try:
        fastavro.parse_schema(dict(tree))
    except Exception as error:  # whatever fastavro says of a wrong schema
        raise InvalidSetting("schema", str(tree.get("name", "")), f"Avro: {error}") from None
    columns = _Types().of(tree, "the record")
    assert isinstance(columns, StructType), "read_schema looks for a record"
    if not columns.fields:
        raise InvalidSetting("schema", str(tree["name"]), "has no fields")
    return AvroBodies(columns, json.dumps(tree))


class _Types:
    """Columns of types; named types may be used again by their names."""

    def __init__(self) -> None:
        self._named: dict[str, DataType] = {}
        self._open: set[str] = set()

    def of(self, given: Any, where: str) -> DataType:
        if isinstance(given, list):
            others = [each for each in given if each != "null"]
            if len(others) != 1:
                raise InvalidSetting("schema", where, "a union has to be null and one other type")
            return self.of(others[0], where)
        if isinstance(given, str):
            return self._by_name(given, where)
        kind = given["type"]
        if not isinstance(kind, str):
            return self.of(kind, where)
        if logical := given.get("logicalType"):
            return self._logical(logical, given, where)
        if kind == "array":
            return ArrayType(self.of(given["items"], where))
        if kind == "map":
            return MapType(StringType(), self.of(given["values"], where))
        if kind == "record":
            return self._record(given)
        found = self._by_name(kind, where)
        if "name" in given:
            self._named[given["name"]] = found
        return found

    def _record(self, given: Mapping[str, Any]) -> StructType:
        name = str(given["name"])
        self._open.add(name)
        fields = [
            StructField(each["name"], self.of(each["type"], each["name"]))
            for each in given["fields"]
        ]
        self._open.discard(name)
        self._named[name] = StructType(fields)
        return StructType(fields)

    def _by_name(self, name: str, where: str) -> DataType:
        short = name.rpartition(".")[2]
        for known in (name, short):
            if known in self._open:
                raise InvalidSetting("schema", where, f"{name} contains itself")
            if known in self._named:
                return self._named[known]
        if name not in PLAIN:
            raise InvalidSetting("schema", where, f"{name} is no type that can be a column")
        return PLAIN[name]

    def _logical(self, logical: str, given: Mapping[str, Any], where: str) -> DataType:
        if logical == "decimal" and given.get("precision", 0) <= DECIMAL_DIGITS_MAX:
            return DecimalType(given["precision"], given.get("scale", 0))
        if logical not in LOGICAL:
            raise InvalidSetting("schema", where, f"{logical} cannot be a column")
        return LOGICAL[logical]


def _fastavro() -> Any:
    try:
        import fastavro
    except ImportError:
        raise MissingExtra("fastavro", EXTRA) from None
    return fastavro
