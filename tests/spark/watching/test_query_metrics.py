"""The driver of a query counts its micro-batches, outcomes and times, for Prometheus and people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import flintmq.spark
from flintmq import App
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.metrics.client_metrics import ClientMetrics
from flintmq.metrics.run_reports import PATH, RunReport, decode_reports
from support.metrics.scraping import Scrape, page, scrape
from support.spark.support import (
    Sink,
    create_topic,
    read_stream,
    run_to_end,
    run_until_now,
    send,
    wait_for,
)


@pytest.fixture
def metrics() -> Iterator[ClientMetrics]:
    made = ClientMetrics()
    yield made
    made.close()


def reports(address: str) -> dict[str, RunReport]:
    """What the driver tells a console."""
    status, body = page(address, PATH)
    assert status == 200, body
    return {each.name: each for each in decode_reports(body.encode())}


def test_a_run_of_listeners_counts_outcomes_and_calls(
    spark: SparkSession, broker: EmbeddedBroker, metrics: ClientMetrics
) -> None:
    create_topic(broker, "counted-run", 2)
    send(broker, "counted-run", [f"good-{number}" for number in range(8)], queue_id=0)
    send(broker, "counted-run", ["bad", "dead"], queue_id=1)
    app = App("counted-run", namesrv=broker.namesrv, start_from="first", metrics=metrics)

    @app.listener("counted-run", batch_max=4)
    def judge(messages: Any) -> Any:
        from flintmq import DeadLetter

        body = messages[0].body
        if body == b"bad":
            return [None, DeadLetter("no order")]
        return None

    address = metrics.serve("127.0.0.1:0")
    run_to_end(app, spark)
    found, told = scrape(address), reports(address)["counted-run"]

    who = {"run": "counted-run", "kind": "listeners"}
    assert found.value("flintmq_spark_messages_total", **who) == 10
    assert found.value("flintmq_spark_batches_total", **who) == told.batches >= 1
    assert found.value("flintmq_spark_outcomes_total", outcome="consumed", **who) == 9
    assert found.value("flintmq_spark_outcomes_total", outcome="dead", **who) == 1
    assert found.value("flintmq_spark_listener_time_milliseconds_count", **who) == 3
    assert found.value("flintmq_spark_batch_time_milliseconds_count", **who) == told.batches
    assert found.value("flintmq_spark_active", **who) == 0
    assert not list(found.find("flintmq_spark_lag_messages", **who))
    assert (told.kind, told.messages, told.calls, told.is_active) == ("listeners", 10, 3, False)
    assert told.outcomes["consumed"] == 9
    assert sum(point.messages for point in told.points) == 10


def test_a_plain_stream_is_counted_when_its_session_is_watched(
    spark: SparkSession, broker: EmbeddedBroker, metrics: ClientMetrics, tmp_path: Path
) -> None:
    create_topic(broker, "counted-stream", 1)
    send(broker, "counted-stream", ["a", "b", "c"])
    watching = flintmq.spark.watch_queries(spark, metrics)
    try:
        frame = read_stream(spark, broker, subscribe="counted-stream", startingOffsets="earliest")
        assert run_until_now(frame, str(tmp_path / "checkpoint"), Sink()).rows == ["a", "b", "c"]

        def look() -> Scrape:
            return Scrape(metrics.text().decode())

        def states() -> list[float]:
            return [each.value for each in look().find("flintmq_spark_active", kind="stream")]

        wait_for(lambda: states() == [0])  # Spark reports the end some time after it
    finally:
        spark.streams.removeListener(watching)

    found = look()
    assert found.value("flintmq_spark_messages_total", kind="stream") == 3
    assert found.value("flintmq_spark_batches_total", kind="stream") == 1
