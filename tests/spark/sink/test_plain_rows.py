"""Rows with a body alone are laid out as the usual way does it, and all are stored."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from flintmq.arrow.reading.access import Access
from flintmq.client.producer.packing_producer import PackingProducer
from flintmq.core.producer.send_draft import DraftRules, draft_batches
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import SendFailed
from flintmq.model.message import Message
from flintmq.spark.options.sink_options import SinkOptions
from flintmq.spark.sink.bad_rows import BadRows
from flintmq.spark.sink.plain_rows import PackedRows
from flintmq.spark.sink.row_identity import ROW_PROPERTY
from flintmq.spark.sink.sink_rows import ANYWHERE, RowPlan, plan_rows
from flintmq.spark.sink.sink_send import Sending
from support.spark.support import create_topic

ACCESS = Access(("127.0.0.1:9876",))
PREFIX = "job.7.3."


class Packer:
    """A producer with known ids."""

    def __init__(self, instance_id: str = "") -> None:
        self._rules = DraftRules(instance_id=instance_id)

    def ids(self, count: int) -> list[str]:
        return [f"{number:032X}" for number in range(count)]

    def entry_of(self, message: Message) -> tuple[bytes, str]:
        (only,) = self.ids(1)
        return self.entries_of([message]), only

    def entries_of(self, messages: list[Message]) -> bytes:
        ids = self.ids(len(messages))
        (draft,) = draft_batches(messages, "t", unique_ids=ids, now_ms=0, rules=self._rules)
        return draft.body


def plan_of(column: str = "value", topic: str | None = "t", **options: Any) -> RowPlan:
    kind = BinaryType() if column == "value" else StringType()
    schema = StructType([StructField(column, kind)])
    return plan_rows(schema, SinkOptions(ACCESS, topic=topic, **options))


def batch_of(*bodies: bytes | None) -> pa.RecordBatch:
    return pa.record_batch([pa.array(bodies, pa.binary())], names=["value"])


def packed(plan: RowPlan, batch: pa.RecordBatch, first: int = 0) -> PackedRows | None:
    return plan.packed(batch, Packer(), PREFIX, first, 16_384)


@pytest.mark.parametrize("instance_id", ["", "tenant"], ids=["", "namespace"])
@pytest.mark.parametrize("kind", [pa.binary(), pa.string(), pa.large_string()], ids=str)
def test_plain_rows_are_the_entries_of_the_usual_way(kind: pa.DataType, instance_id: str) -> None:
    texts = [f"{'é' * (n % 5)}{n}" for n in range(120)]
    whole = pa.record_batch([pa.array(["skipped", *texts]).cast(kind)], names=["value"])
    batch, plan, packer = whole.slice(1), plan_of(), Packer(instance_id)

    made = plan.packed(batch, packer, PREFIX, 5, 16_384)

    rows = list(plan.rows(batch, PREFIX, 5, BadRows(SinkOptions(ACCESS))))
    assert {row.target for row in rows} == {ANYWHERE}
    assert made is not None
    assert bytes(made.entries) == packer.entries_of([row.message for row in rows])
    assert made.body_bytes == sum(len(text.encode()) for text in texts)
    assert made.edges[0] == 0
    assert made.edges[-1] == len(made.entries)


@pytest.mark.parametrize(
    "bodies",
    [(), (None,), (b"a", None), (b"a", b""), (b"a", b"x" * 101)],
    ids=["none", "null", "a null", "empty", "too large"],
)
def test_a_body_that_is_no_message_is_left_to_the_usual_way(bodies: tuple[bytes | None]) -> None:
    assert packed(plan_of(message_bytes=100), batch_of(*bodies)) is None


def test_a_row_that_no_batch_holds_is_left_to_the_usual_way() -> None:
    assert packed(plan_of(), batch_of(b"a", b"x" * 16_384)) is None


@pytest.mark.parametrize("topic", ["no topic", "%RETRY%g"])
def test_a_topic_that_takes_no_batches_is_left_to_the_usual_way(topic: str) -> None:
    plan = RowPlan({"body": 0}, topic, drop_system=False)

    assert packed(plan, batch_of(b"a")) is None


def test_rows_with_other_columns_are_not_plain() -> None:
    schema = StructType([StructField("value", BinaryType()), StructField("tags", StringType())])
    plan = plan_rows(schema, SinkOptions(ACCESS, topic="t"))
    batch = pa.record_batch([pa.array([b"a"]), pa.array(["x"])], names=["value", "tags"])

    assert packed(plan, batch) is None


def test_packed_rows_are_all_stored_in_full_batches_under_ids_of_their_own(
    broker: EmbeddedBroker,
) -> None:
    topic = create_topic(broker, "packed", 4)
    chosen = SinkOptions(Access((broker.namesrv,)), topic=topic, batch_bytes=16_384)
    plan = plan_of(topic=topic)
    bodies = [b"%d" % row * (20 + 7 * row % 150) for row in range(600)]

    with (
        PackingProducer(chosen.group, **chosen.producer_settings()) as producer,
        Sending(producer, chosen, 0) as sending,
    ):
        for start in range(0, len(bodies), 250):
            some = batch_of(*bodies[start : start + 250])
            rows = plan.packed(some, producer, PREFIX, start, chosen.batch_bytes)
            assert rows is not None
            sending.add_packed(rows)
        sending.finish()

    stored = broker.messages(topic)
    found = {message.properties[ROW_PROPERTY]: message.body for message in stored}
    assert found == {f"{PREFIX}{row}": body for row, body in enumerate(bodies)}
    assert len({message.message_id for message in stored}) == len(stored) == len(bodies)
    assert sending.body_bytes == sum(map(len, bodies))
    whole = sum(len(message.body) + 140 for message in stored)
    assert whole // 16_384 <= sending.requests <= 2 + whole // 14_000
    assert {message.queue_id for message in stored} == {0, 1, 2, 3}


def test_packed_rows_that_no_broker_takes_are_an_error(broker: EmbeddedBroker) -> None:
    topic = create_topic(broker, "malformed")
    chosen = SinkOptions(Access((broker.namesrv,)), topic=topic, retries=0)

    with (
        PackingProducer(chosen.group, **chosen.producer_settings()) as producer,
        pytest.raises(SendFailed, match="MalformedBody"),
    ):
        producer.send_entries(topic, b"no batch", 1)
