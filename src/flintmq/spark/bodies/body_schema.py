"""A schema of bodies, as users give it: which language it is in, and the columns it makes.

    order STRING NOT NULL, amount DOUBLE          Spark's DDL, or a StructType: bodies are JSON
    {"type": "object", "properties": …}           JSON Schema, as text, dictionary or file: JSON
    {"type": "record", "fields": …}               Avro, as text, dictionary or file: Avro's binary
    shop.desc:shop.Order                          Protobuf: a descriptor set (protoc
                                                  --include_imports --descriptor_set_out) and the
                                                  name of a message in it

A text that is the path of a file (``@orders.json``, or one that ends in .json, .avsc or .ddl) is
read first.  What cannot be told apart or cannot be columns is `InvalidSetting`, on the driver.

Invariant: a `BodySchema` can be pickled, and its ``columns`` are what `decode` adds to a frame.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql.types import StructType

from flintmq.errors import InvalidSetting
from flintmq.spark.bodies.avro_schema import AvroBodies, avro_bodies
from flintmq.spark.bodies.json_schema import JsonBodies, json_bodies
from flintmq.spark.bodies.protobuf_schema import ProtobufBodies, protobuf_bodies
from flintmq.spark.options.option_table import SHOWN_CHARACTERS_MAX

SETTING: Final = "schema"

SCHEMA_BYTES_MAX: Final = 16 * 1024 * 1024
"""A file that is larger is something else."""

FILE_ENDINGS: Final = (".json", ".avsc", ".ddl")

BodySchema = JsonBodies | AvroBodies | ProtobufBodies
Given = str | Path | Mapping[str, Any] | StructType

_PROTOBUF = re.compile(r"(?P<file>.+\.(?:desc|pb|protoset|binpb)):(?P<message>[A-Za-z_][\w.]*)")


def read_schema(given: Given) -> BodySchema:
    """Recognise and check a schema."""
    if isinstance(given, StructType):
        return JsonBodies.of(given)
    if isinstance(given, Mapping):
        return _of_tree(given, shown="{…}")
    text = str(given).strip()
    if not text:
        raise _refused(text, "give a schema, or leave it out")
    if found := _PROTOBUF.fullmatch(text):
        return protobuf_bodies(_octets(Path(found["file"])), found["message"])
    return _of_text(_text_of(given))


def check_schema(text: str) -> None:
    """Read a schema as far as that can be done without Spark: all but DDL."""
    if _PROTOBUF.fullmatch(text.strip()) or _text_of(text).startswith(("{", "[")):
        read_schema(text)


def _text_of(given: str | Path) -> str:
    """The text itself, or that of the file."""
    text = str(given).strip()
    if isinstance(given, Path) or text.startswith("@") or text.endswith(FILE_ENDINGS):
        return _octets(Path(text.removeprefix("@"))).decode("utf-8", "replace").strip()
    return text


def _of_text(text: str) -> BodySchema:
    if not text.startswith("{"):
        return JsonBodies.of(_of_ddl(text))
    try:
        tree = json.loads(text)
    except ValueError as error:
        raise _refused(text, f"is no JSON: {error}") from None
    return _of_tree(tree, shown=text)


def _of_tree(tree: Mapping[str, Any], shown: str) -> BodySchema:
    kind = tree.get("type")
    if kind == "record":
        return avro_bodies(tree)
    if kind == "struct":  # how Spark itself writes a schema as JSON
        try:
            return JsonBodies.of(StructType.fromJson(dict(tree)))
        except (KeyError, ValueError, TypeError) as error:
            raise _refused(shown, f"is no schema of Spark: {error}") from None
    if kind == "object" or "properties" in tree or "$ref" in tree:
        return json_bodies(tree)
    raise _refused(shown, "is neither JSON Schema of an object nor a record of Avro")


def _of_ddl(text: str) -> StructType:
    from pyspark.errors import PySparkException

    try:
        found = StructType.fromDDL(text)
    except PySparkException as error:
        said = str(error).strip().splitlines()[0]
        raise _refused(text, f"is no schema in Spark's DDL: {said}") from None
    if not isinstance(found, StructType):
        raise _refused(text, "is one type: give columns, such as order STRING, amount DOUBLE")
    return found


def _octets(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            octets = file.read(SCHEMA_BYTES_MAX + 1)
    except OSError as error:
        raise _refused(str(path), f"cannot be read: {error.strerror}") from None
    if len(octets) > SCHEMA_BYTES_MAX:
        raise _refused(str(path), f"is larger than {SCHEMA_BYTES_MAX} bytes")
    return octets


def _refused(text: str, reason: str) -> InvalidSetting:
    shown = text if len(text) <= SHOWN_CHARACTERS_MAX else text[: SHOWN_CHARACTERS_MAX - 1] + "…"
    return InvalidSetting(SETTING, shown, reason)
