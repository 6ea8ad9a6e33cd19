"""Rows with a body alone become the messages that the usual way makes, and all are stored."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from flintmq.arrow.reading.access import Access
from flintmq.client.producer.threaded_producer import Producer
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.model.message import Message
from flintmq.spark.options.sink_options import SinkOptions
from flintmq.spark.sink.bad_rows import BadRows
from flintmq.spark.sink.row_identity import ROW_PROPERTY
from flintmq.spark.sink.sink_rows import ANYWHERE, RowPlan, plan_rows
from flintmq.spark.sink.sink_send import Sending
from support.spark.support import create_topic

ACCESS = Access(("127.0.0.1:9876",))
PREFIX = "job.7.3."


def plan_of(column: str = "value", topic: str | None = "t", **options: Any) -> RowPlan:
    kind = BinaryType() if column == "value" else StringType()
    schema = StructType([StructField(column, kind)])
    return plan_rows(schema, SinkOptions(ACCESS, topic=topic, **options))


def batch_of(*bodies: bytes | None) -> pa.RecordBatch:
    return pa.record_batch([pa.array(bodies, pa.binary())], names=["value"])


def test_plain_rows_are_the_messages_of_the_usual_way() -> None:
    batch, plan = batch_of(*(b"%d" % n for n in range(12))), plan_of()

    made = plan.plain(batch, PREFIX, 5)

    rows = list(plan.rows(batch, PREFIX, 5, BadRows(SinkOptions(ACCESS))))
    assert made == [row.message for row in rows]
    assert {row.target for row in rows} == {ANYWHERE}
    assert made is not None
    assert [message.properties[ROW_PROPERTY] for message in made][:2] == ["job.7.3.5", "job.7.3.6"]
    assert hash(made[0]) == hash(rows[0].message)


@pytest.mark.parametrize(
    "bodies", [(), (None,), (b"a", None), (b"a", b""), (b"a", b"x" * 101)], ids=str
)
def test_a_body_that_is_no_message_is_left_to_the_usual_way(bodies: tuple[bytes | None]) -> None:
    plan = plan_of(message_bytes=100)

    assert plan.plain(batch_of(*bodies), PREFIX, 0) is None


def test_a_topic_that_takes_no_messages_is_left_to_the_usual_way() -> None:
    plan = RowPlan({"body": 0}, "no topic", drop_system=False)

    assert plan.plain(batch_of(b"a"), PREFIX, 0) is None


def test_rows_with_other_columns_are_not_plain() -> None:
    schema = StructType([StructField("value", BinaryType()), StructField("tags", StringType())])
    plan = plan_rows(schema, SinkOptions(ACCESS, topic="t"))
    batch = pa.record_batch([pa.array([b"a"]), pa.array(["x"])], names=["value", "tags"])

    assert plan.plain(batch, PREFIX, 0) is None


@pytest.mark.parametrize("size_max", [900, 40_000], ids=["batches", "also alone"])
def test_messages_alike_are_all_stored_in_full_batches(
    broker: EmbeddedBroker, size_max: int
) -> None:
    topic = create_topic(broker, f"alike{size_max}", 4)
    chosen = SinkOptions(Access((broker.namesrv,)), batch_bytes=16_384)
    sizes = [100 + 7 * n % 800 for n in range(600)] + [size_max]
    messages = [
        Message(topic, b"x" * size, properties={ROW_PROPERTY: f"{PREFIX}{row}"})
        for row, size in enumerate(sizes)
    ]

    with (
        Producer(chosen.group, **chosen.producer_settings()) as producer,
        Sending(producer, chosen, 0) as sending,
    ):
        for start in range(0, len(messages), 250):
            sending.add_alike(messages[start : start + 250])
        sending.finish()

    stored = broker.messages(topic)
    assert sorted(message.properties[ROW_PROPERTY] for message in stored) == sorted(
        f"{PREFIX}{row}" for row in range(len(sizes))
    )
    assert sending.body_bytes == sum(sizes)
    assert sending.requests <= 2 + sum(sizes) // 10_000
