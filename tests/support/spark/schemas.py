"""One order in four languages of schemas, and bodies in their encodings."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

import fastavro
from google.protobuf import descriptor_pb2, descriptor_pool, timestamp_pb2
from google.protobuf.message_factory import GetMessageClass

PAID_AT: Final = datetime(2026, 11, 16, 8, 30, tzinfo=UTC)

JSON_SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "order",
    "type": "object",
    "required": ["order"],
    "additionalProperties": False,
    "properties": {
        "order": {"type": "string", "pattern": "^o-[0-9]+$"},
        "amount": {"type": "number", "minimum": 0},
        "count": {"type": ["integer", "null"]},
        "paid_at": {"type": "string", "format": "date-time"},
        "buyer": {"$ref": "#/$defs/person"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "$defs": {
        "person": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string"},
                "mails": {"type": "array", "items": {"type": "string"}},
            },
        }
    },
}

AVRO: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "order", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "paid_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {
            "name": "items",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Item",
                    "fields": [
                        {"name": "name", "type": "string"},
                        {"name": "count", "type": "int"},
                    ],
                },
            },
        },
        {"name": "labels", "type": {"type": "map", "values": "long"}},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}

PROTOBUF_MESSAGE: Final = "shop.Order"


def avro_body(order: str, note: str | None = None) -> bytes:
    out = io.BytesIO()
    record = {
        "order": order,
        "amount": 1.5,
        "state": "PAID",
        "paid_at": PAID_AT,
        "price": Decimal("12.34"),
        "items": [{"name": "tea", "count": 2}],
        "labels": {"n": 7},
        "note": note,
    }
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), record)
    return out.getvalue()


def descriptor_set() -> bytes:
    """What ``protoc --include_imports --descriptor_set_out`` writes for an order."""
    files = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(files.file.add())
    file = files.file.add(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    state = file.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="PAID", number=1)
    item = file.message_type.add(name="Item")
    item.field.add(name="name", number=1, type=9, label=1)
    item.field.add(name="count", number=2, type=5, label=1)
    order = file.message_type.add(name="Order")
    order.field.add(name="order", number=1, type=9, label=1)
    order.field.add(name="amount", number=2, type=1, label=1)
    order.field.add(name="state", number=3, type=14, label=1, type_name=".shop.State")
    order.field.add(
        name="paid_at", number=4, type=11, label=1, type_name=".google.protobuf.Timestamp"
    )
    order.field.add(name="number", number=5, type=4, label=1)
    order.field.add(name="items", number=6, type=11, label=3, type_name=".shop.Item")
    entry = order.nested_type.add(name="LabelsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=9, label=1)
    entry.field.add(name="value", number=2, type=3, label=1)
    order.field.add(name="labels", number=7, type=11, label=3, type_name=".shop.Order.LabelsEntry")
    order.oneof_decl.add(name="_note")
    order.field.add(name="note", number=8, type=9, label=1, proto3_optional=True, oneof_index=0)
    octets: bytes = files.SerializeToString()
    return octets


def protobuf_body(name: str, note: str | None = None) -> bytes:
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set()).file:
        pool.Add(file)
    order: Any = GetMessageClass(pool.FindMessageTypeByName(PROTOBUF_MESSAGE))()
    order.order, order.amount, order.state, order.number = name, 1.5, 1, 2**64 - 1
    order.paid_at.FromDatetime(PAID_AT)
    order.items.add(name="tea", count=2)
    order.labels["n"] = 7
    if note is not None:
        order.note = note
    octets: bytes = order.SerializeToString()
    return octets
