"""Spark reads at a slave while the master is gone: a batch from the start, a stream half way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from flintmq import Message
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.embedded.broker import EmbeddedBroker
from support.broker.world import SMALL_STORE
from support.replication.embedded_pairs import MASTER, PATIENCE_S, send_to_both, states
from support.spark.support import Sink, bodies, create_topic, read, read_stream, start

TOPIC, GROUP = "replicated", "readers"
CONFIG = BrokerConfig(store=SMALL_STORE, acting_master=True, copy_tables_ms=100)


@pytest.fixture
def pair() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(config=CONFIG, slaves=1) as pair:
        create_topic(pair, TOPIC)
        yield pair


class SinkThatStopsTheMaster(Sink):
    """After the first batch there is no master: the next ones are planned and read at the slave."""

    def __init__(self, pair: EmbeddedBroker) -> None:
        super().__init__()
        self._pair = pair

    def take(self, frame: DataFrame, batch_id: int) -> None:
        super().take(frame, batch_id)
        if len(self.batches) == 1:
            self._pair.stop_broker(MASTER)


def send(pair: EmbeddedBroker, *texts: str) -> None:
    send_to_both(pair, [Message(TOPIC, text.encode()) for text in texts])


def test_a_batch_is_read_at_the_slave(spark: SparkSession, pair: EmbeddedBroker) -> None:
    send(pair, "a", "b", "c")
    pair.stop_broker(MASTER)

    assert bodies(read(spark, pair, subscribe=TOPIC)) == ["a", "b", "c"]


@pytest.mark.heavy
def test_a_stream_goes_on_at_the_slave_and_then_at_the_master(
    spark: SparkSession, pair: EmbeddedBroker, checkpoint: str
) -> None:
    with pair.admin() as admin:
        admin.create_group(GROUP)  # a master takes back offsets of groups that it knows
    send(pair, *(f"a{number}" for number in range(6)))
    frame = read_stream(
        spark,
        pair,
        subscribe=TOPIC,
        startingOffsets="earliest",
        consumerGroup=GROUP,
        maxOffsetsPerTrigger=2,
    )
    sink = SinkThatStopsTheMaster(pair)
    query = start(frame, checkpoint, sink)
    try:
        sink.wait_for(6)
        pair.start_broker(MASTER)
        send(pair, "b0", "b1")
        sink.wait_for(8)
        query.processAllAvailable()
    finally:
        query.stop()

    assert sink.batches[0] == ["a0", "a1"]
    assert sink.rows == [*(f"a{number}" for number in range(6)), "b0", "b1"]
    master, _ = states(pair)
    pair.wait_for(lambda: master.offsets.queues(GROUP, TOPIC) == {0: 8}, PATIENCE_S)
