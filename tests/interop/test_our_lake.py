"""A lake holds what a broker has, ours or a real one, and DuckDB reads it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from flintmq import Message
from flintmq.spark import compact, lake
from support.interop.filled import new_topic, send_to
from support.interop.ours import Served
from support.spark.support import lag, session

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(600),  # the first test starts servers and JVMs
]

QUEUES = 4
START_S = 200.0
SCHEMA = "order STRING NOT NULL, amount DOUBLE"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with session(tmp_path_factory.mktemp("spark")) as made:
        yield made


def ask(sql: str) -> list[Any]:
    with duckdb.connect() as connection:
        return connection.execute(sql).fetchall()


def test_a_lake_is_read_back_by_duckdb(spark: SparkSession, each: Served, tmp_path: Path) -> None:
    topic, to = "lake-orders", tmp_path / "lake"
    queues = new_topic(each, topic, QUEUES)
    orders = [f'{{"order":"o-{n}","amount":{n}}}'.encode() for n in range(100)]
    send_to(each, [Message(topic, body, tags="paid") for body in [*orders, b"no order"]], queues)

    for _ in range(2):  # the second time there is nothing left to write
        written = lake(
            spark,
            topic,
            str(to),
            schema=SCHEMA,
            until_now=True,
            namesrv=each.namesrv,
            consumerGroup="lakes",
            maxOffsetsPerTrigger=40,
        )
        assert written.await_termination(START_S)
    done = compact(spark, str(to))

    files = f"read_parquet('{to}/quarantined=*/**/*.parquet', hive_partitioning=true)"
    good = f'SELECT count(*), count(DISTINCT "order"), sum(amount) FROM {files}'
    assert ask(f"{good} WHERE quarantined = 0") == [(100, 100, 4950.0)]
    bad = f"SELECT body, decode_error, topic FROM {files} WHERE quarantined = 1"
    assert ask(bad) == [(b"no order", "the body is no JSON object", topic)]
    places = f"SELECT count(DISTINCT (queue_id, queue_offset)), min(tags) FROM {files}"
    assert ask(places) == [(101, "paid")]
    assert done.files_before > done.files_after
    assert lag(each, "lakes") == 0
