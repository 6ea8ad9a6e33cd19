"""A run in pop mode is a work queue: no message holds others up, and none is lost."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import flintmq.spark
from flintmq.core.group.app import App
from flintmq.core.group.consumer_settings import ConsumeMode
from flintmq.core.group.listener_results import DeadLetter, Retry
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import CircuitOpen, InvalidSetting
from support.spark.support import (
    PATIENCE_S,
    create_topic,
    dead_letters,
    lag,
    run_to_end,
    send,
    wait_for,
)

COUNT = 300


def prepared(servers: EmbeddedBroker, name: str, count: int = COUNT, **settings: Any) -> App:
    create_topic(servers, name, 4)
    for queue_id in range(4):
        numbers = range(queue_id, count, 4)
        send(servers, name, [f"{number}" for number in numbers], queue_id=queue_id)
    settings = {"mode": "pop", **settings}
    return App(name, namesrv=servers.namesrv, start_from="first", **settings)


class Rows:
    """A sink that remembers rows in this process."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def __call__(self, frame: Any, _batch_id: int) -> None:
        self.rows += frame.collect()

    @property
    def outcomes(self) -> Counter[str]:
        return Counter(row.outcome for row in self.rows)


def test_every_message_is_consumed_once_and_acknowledged(
    spark: SparkSession, own_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    app = prepared(own_broker, "popped")
    heard = str(tmp_path / "heard")

    @app.listener("popped", batch_max=8)
    def work(messages: Any) -> None:
        with Path(heard).open("a") as file:
            file.write("".join(f"{message.body.decode()}\n" for message in messages))

    rows = Rows()
    run = run_to_end(app, spark, sink=rows, messages_max=100)

    assert sorted(map(int, Path(heard).read_text().split())) == list(range(COUNT))
    assert rows.outcomes == {"consumed": COUNT}
    assert "settle" not in rows.rows[0]
    assert run.status().batches >= 3
    own_broker.advance(3_600)  # the invisible time of whatever was not acknowledged is over
    again = Rows()
    run_to_end(app, spark, sink=again)
    assert again.rows == []


@pytest.mark.parametrize("mode", ["pop", "pull"])
@pytest.mark.parametrize("count", [COUNT, pytest.param(100_000, marks=pytest.mark.heavy)])
def test_a_poisoned_message_blocks_nobody_and_ends_as_a_dead_letter(
    spark: SparkSession, own_broker: EmbeddedBroker, mode: ConsumeMode, count: int
) -> None:
    name = f"{mode}-poison"
    app = prepared(own_broker, name, count, mode=mode, retry_max=1, invisible_ms=300_000)

    @app.listener(name)
    def work(messages: Any) -> Any:
        if messages[0].body == b"7":
            raise ValueError("poison")
        if messages[0].body == b"8" and not messages[0].reconsume_times:
            return Retry(reason="once more")
        return DeadLetter("never") if messages[0].body == b"9" else None

    rows, patience_s = Rows(), PATIENCE_S + count / 200
    with flintmq.spark.run(app, spark, sink=rows) as run:
        wait_for(lambda: len(rows.rows) >= count or not run.query.isActive, patience_s)
        own_broker.advance(60)
        wait_for(lambda: len(rows.rows) >= count + 2 or not run.query.isActive)
        wait_for(lambda: dead_letters(own_broker, name) == 2)
        if mode == "pull":  # what failed is stored again, so the offsets pass it
            wait_for(lambda: lag(own_broker, name) == 0)
    first = [row for row in rows.rows if not row.reconsume_times]
    later = [row for row in rows.rows if row.reconsume_times]
    outcomes = Counter(row.outcome for row in first)
    assert outcomes == {"consumed": count - 3, "sent back": 2, "dead": 1}
    assert len({row.message_id for row in first}) == count, "none is repeated"
    assert {row.reconsume_times for row in later} == {1}
    assert Counter(row.outcome for row in later) == {"consumed": 1, "dead": 1}
    assert [row.error for row in later if row.outcome == "dead"] == ["ValueError: poison"]


def test_a_circuit_that_opens_returns_the_messages(
    spark: SparkSession, own_broker: EmbeddedBroker
) -> None:
    app = prepared(own_broker, "popped-broken", 40)

    @app.listener("popped-broken")
    def work(_messages: Any) -> None:
        raise OSError("no database")

    run = flintmq.spark.run(app, spark, available_now=True, failures_max=5)
    with pytest.raises(CircuitOpen):
        run.await_termination(PATIENCE_S)

    mended = App("popped-broken", namesrv=own_broker.namesrv, mode="pop")
    mended.listener("popped-broken", batch_max=32)(_nothing)
    own_broker.advance(3_600)
    rows = Rows()
    run_to_end(mended, spark, sink=rows)
    assert rows.outcomes == {"consumed": 40}


def _nothing(_messages: object) -> None:
    """Consume."""


def test_order_is_refused(spark: SparkSession) -> None:
    app = App("popped-order", namesrv="127.0.0.1:1", mode="pop")
    app.listener("popped-order", ordered=True)(_nothing)
    with pytest.raises(InvalidSetting, match="mode"):
        flintmq.spark.run(app, spark)
