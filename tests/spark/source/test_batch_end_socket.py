"""A source hears that a batch is done from the program that started the query."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import QueryProgressEvent

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.spark.source.batch_end_listener import TellSources
from flintmq.spark.source.batch_end_socket import ADDRESS, HeardEnds
from support.spark.support import Sink, create_topic, lag, read_stream, send, start, wait_for


@pytest.fixture
def heard() -> Iterator[tuple[HeardEnds, list[dict[str, Any]]]]:
    taken: list[dict[str, Any]] = []
    ends = HeardEnds(taken.append)
    yield ends, taken
    ends.close()
    assert not Path(ends.address).parent.exists()


def progress(*sources: dict[str, str | None]) -> QueryProgressEvent:
    found = [SimpleNamespace(**each) for each in sources]
    return cast("QueryProgressEvent", SimpleNamespace(progress=SimpleNamespace(sources=found)))


def test_the_end_of_a_batch_is_heard(heard: tuple[HeardEnds, list[dict[str, Any]]]) -> None:
    ends, taken = heard
    ours = {"latestOffset": json.dumps({"v": 1, ADDRESS: ends.address}), "endOffset": '{"v": 1}'}
    others: list[dict[str, str | None]] = [
        {"latestOffset": None, "endOffset": "7"},
        {"latestOffset": '"tell"', "endOffset": "7"},
        {"latestOffset": '{"tell": 3}', "endOffset": "7"},
        {"latestOffset": "tell", "endOffset": "7"},
        {"latestOffset": json.dumps({ADDRESS: "/nowhere/at/all"}), "endOffset": "7"},
    ]

    TellSources().onQueryProgress(progress(*others, {**ours}))

    wait_for(lambda: taken)
    assert taken == [{"v": 1}]


def test_nonsense_is_logged_and_the_next_one_is_heard(
    heard: tuple[HeardEnds, list[dict[str, Any]]], caplog: pytest.LogCaptureFixture
) -> None:
    ends, taken = heard
    for octets in (b"{", b'{"a": 1}'):
        with caplog.at_level(logging.WARNING), socket.socket(socket.AF_UNIX) as sock:
            sock.connect(ends.address)
            sock.sendall(octets)

    wait_for(lambda: taken)
    assert taken == [{"a": 1}]
    assert "was not understood" in caplog.text


@pytest.mark.parametrize("is_stopped_at_once", [False, True])
def test_the_group_knows_of_a_batch_whose_query_has_no_further_trigger(
    spark: SparkSession, broker: EmbeddedBroker, checkpoint: str, is_stopped_at_once: bool
) -> None:
    topic = create_topic(broker, f"hourly{is_stopped_at_once}")
    send(broker, topic, ["one", "two"])
    frame = read_stream(
        spark, broker, subscribe=topic, startingOffsets="earliest", consumerGroup=topic
    )
    sink = Sink()

    query = start(frame, checkpoint, sink, processingTime="1 hour")
    try:
        sink.wait_for(2)
        wait_for(lambda: query.lastProgress is not None)
        if not is_stopped_at_once:
            wait_for(lambda: lag(broker, topic) == 0)
    finally:
        query.stop()

    wait_for(lambda: lag(broker, topic) == 0)
