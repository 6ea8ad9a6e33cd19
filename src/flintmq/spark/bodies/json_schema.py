"""JSON Schema as columns of Spark, with the conditions on values that SQL can check.

    type                 object, array, string, integer, number, boolean; null beside one of them
    properties, items    columns, elements
    required             not null; other columns may be
    additionalProperties a schema: a map; false: no other names (of the outermost object)
    format               date and date-time: DATE and TIMESTAMP
    enum, const, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf,
    minLength, maxLength, pattern, minItems, maxItems
    $ref, $defs          to a definition of the same document

Titles, descriptions and the like are passed over.  Every other keyword, such as ``oneOf`` or
``if``, is `InvalidSetting`: half a check would let through what the schema forbids.  So is a
condition within an array, where no SQL expression reaches it.

Invariant: a body that passes `JsonBodies` has the types, the required fields and the values that
the schema asks for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from flintmq.errors import InvalidSetting

DEPTH_MAX: Final = 32
"""Of objects within objects: a definition that names itself has no end."""

PASSED_OVER: Final = frozenset(
    [
        "$schema",
        "$id",
        "$anchor",
        "$comment",
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$defs",
        "definitions",
        "contentMediaType",
    ]
)
PLAIN: Final[Mapping[str, DataType]] = {
    "string": StringType(),
    "integer": LongType(),
    "number": DoubleType(),
    "boolean": BooleanType(),
}
FORMATS: Final[Mapping[str, DataType]] = {"date": DateType(), "date-time": TimestampType()}

CONDITIONS: Final[Mapping[str, str]] = {
    "minimum": "{} >= {}",
    "maximum": "{} <= {}",
    "exclusiveMinimum": "{} > {}",
    "exclusiveMaximum": "{} < {}",
    "multipleOf": "{} % {} = 0",
    "minLength": "char_length({}) >= {}",
    "maxLength": "char_length({}) <= {}",
    "minItems": "size({}) >= {}",
    "maxItems": "size({}) <= {}",
    "pattern": "{} RLIKE {}",
    "enum": "{} IN ({})",
    "const": "{} = {}",
}
VALUE: Final = "{value}"
"""Where the path of the value belongs in the SQL of a condition."""

STRUCTURE: Final = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "format", "$ref"}
)


@dataclass(frozen=True, slots=True)
class Condition:
    """What a value has to satisfy, in SQL over its path in the struct; null satisfies it."""

    path: tuple[str, ...]
    sql: str
    said: str


@dataclass(frozen=True, slots=True)
class JsonBodies:
    """Bodies that are JSON objects."""

    columns: StructType
    required: tuple[tuple[str, ...], ...] = ()
    conditions: tuple[Condition, ...] = ()
    is_closed: bool = False
    """No other names than those of the columns."""

    @classmethod
    def of(cls, columns: StructType) -> JsonBodies:
        """Of a schema of Spark: NOT NULL says what is required."""
        if not columns.fields:
            raise InvalidSetting("schema", "", "has no columns")
        return cls(_nullable(columns), tuple(_required(columns, ())))


def json_bodies(tree: Mapping[str, Any]) -> JsonBodies:
    """Of a JSON Schema."""
    reading = _Reading(tree)
    columns = reading.type_of(tree, (), 0)
    if not isinstance(columns, StructType) or not columns.fields:
        raise InvalidSetting("schema", "", "the outermost type has to be an object with properties")
    made = JsonBodies.of(columns)
    return replace(made, conditions=tuple(reading.conditions), is_closed=reading.is_closed)


class _Reading:
    """One document on its way to columns."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self.conditions: list[Condition] = []
        self.is_closed = False

    def type_of(self, given: Any, path: tuple[str, ...], depth: int) -> DataType:
        where = ".".join(path) or "the object"
        if depth > DEPTH_MAX:
            raise InvalidSetting("schema", where, f"is more than {DEPTH_MAX} objects deep")
        tree = self._resolved(given, where)
        known = STRUCTURE | PASSED_OVER | CONDITIONS.keys()
        if strange := sorted(tree.keys() - known):
            raise InvalidSetting("schema", where, f"{strange[0]} cannot be checked here")
        kind = self._kind(tree, where)
        self._check(tree, path, where)
        if kind == "object":
            return self._object(tree, path, depth)
        if kind == "array":
            items = self.type_of(tree.get("items", {"type": "string"}), (*path, "[]"), depth + 1)
            return ArrayType(items)
        if kind == "string" and tree.get("format") in FORMATS:
            return FORMATS[tree["format"]]
        if kind not in PLAIN:
            raise InvalidSetting("schema", where, f"{kind} is no type of JSON Schema")
        return PLAIN[kind]

    def _object(self, tree: Mapping[str, Any], path: tuple[str, ...], depth: int) -> DataType:
        properties, other = tree.get("properties", {}), tree.get("additionalProperties", True)
        if not properties:
            inner = other if isinstance(other, Mapping) else {"type": "string"}
            return MapType(StringType(), self.type_of(inner, (*path, "[]"), depth + 1))
        if other is False and path:
            raise InvalidSetting(
                "schema", ".".join(path), "additionalProperties is checked of the outermost object"
            )
        if isinstance(other, Mapping):
            raise InvalidSetting("schema", ".".join(path), "has properties and a map beside them")
        self.is_closed = self.is_closed or (other is False)
        required = set(tree.get("required", ()))
        if missing := sorted(required - properties.keys()):
            raise InvalidSetting("schema", missing[0], "is required and is no property")
        return StructType(
            [
                StructField(
                    name, self.type_of(each, (*path, name), depth + 1), name not in required
                )
                for name, each in properties.items()
            ]
        )

    def _check(self, tree: Mapping[str, Any], path: tuple[str, ...], where: str) -> None:
        for keyword, form in CONDITIONS.items():
            if keyword not in tree:
                continue
            if "[]" in path or not path:
                raise InvalidSetting("schema", where, f"{keyword} cannot be checked in an array")
            value = tree[keyword]
            values = [each for each in value if each is not None] if keyword == "enum" else [value]
            literal = ", ".join(_literal(each, where) for each in values)
            said = f"{where} is not as {keyword} {json.dumps(value)} asks"
            sql = form.replace("{}", VALUE, 1).replace("{}", literal)
            self.conditions.append(Condition(path, sql, said))

    def _resolved(self, given: Any, where: str) -> Mapping[str, Any]:
        for _ in range(DEPTH_MAX):
            if not isinstance(given, Mapping):
                raise InvalidSetting("schema", where, "is no schema: give an object")
            if "$ref" not in given:
                return given
            reference = str(given["$ref"])
            given = self._document
            for step in reference.removeprefix("#/").split("/") if reference != "#" else ():
                name = step.replace("~1", "/").replace("~0", "~")
                if not reference.startswith("#/") or name not in given:
                    raise InvalidSetting("schema", reference, "is not in this document")
                given = given[name]
        raise InvalidSetting("schema", where, "its references lead in a circle")

    def _kind(self, tree: Mapping[str, Any], where: str) -> str:
        kinds = tree.get("type")
        if kinds is None:
            kinds = "object" if "properties" in tree else "array" if "items" in tree else None
        if kinds is None and ("enum" in tree or "const" in tree):
            kinds = "string"
        alone = [
            kind for kind in ([kinds] if isinstance(kinds, str) else kinds or ()) if kind != "null"
        ]
        if len(alone) != 1:
            raise InvalidSetting("schema", where, "give one type, alone or beside null")
        return str(alone[0])


def _literal(value: Any, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        if isinstance(value, bool):
            return str(value).lower()
        raise InvalidSetting("schema", where, f"{json.dumps(value)} cannot be compared with")
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return repr(value)


def _required(columns: StructType, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for field in columns.fields:
        if not field.nullable:
            yield (*path, field.name)
        if isinstance(field.dataType, StructType):
            yield from _required(field.dataType, (*path, field.name))


def _nullable(columns: StructType) -> StructType:
    """Every column may be null: that of a row which does not fit is."""

    def relaxed(kind: DataType) -> DataType:
        if isinstance(kind, StructType):
            return _nullable(kind)
        if isinstance(kind, ArrayType):
            return ArrayType(relaxed(kind.elementType))
        return kind

    return StructType(
        [StructField(field.name, relaxed(field.dataType)) for field in columns.fields]
    )
