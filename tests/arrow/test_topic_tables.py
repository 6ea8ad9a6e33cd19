"""`flintmq.arrow` gives a topic, a time span or a store directory as a table, without a JVM."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import flintmq.arrow
from flintmq.arrow import read_store, read_topic, read_topic_batches
from flintmq.client.admin import Admin
from flintmq.client.producer.threaded_producer import Producer
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import (
    InvalidExpression,
    InvalidName,
    InvalidSetting,
    MissingExtra,
    NoRoute,
    ResultTooLarge,
)
from flintmq.model.message import Message
from flintmq.model.queue import QueueRef
from support.client.support import run, sockets, wait_for
from support.store.real_stores import PLAIN, stored_messages, unpack_store

HOUR_S = 3_600


@pytest.fixture(scope="module")
def shop() -> Iterator[EmbeddedBroker]:
    """Orders o-0 to o-9 in two queues, o-10 to o-14 an hour later; every third one is paid."""
    with EmbeddedBroker() as servers:
        with Admin(namesrv=servers.namesrv) as admin:
            admin.create_topic("orders", queues=2)
            admin.create_topic("empty", queues=1)
        with servers.producer("shop") as producer:
            _send_orders(producer, range(10))
            servers.advance(HOUR_S)
            _send_orders(producer, range(10, 15))
        yield servers


def _send_orders(producer: Producer, numbers: range) -> None:
    for number in numbers:
        message = Message(
            "orders",
            b'{"amount": %d}' % number,
            tags="open" if number % 3 else "paid",
            keys=[f"o-{number}", "all"],
            properties={"amount": str(number)},
        )
        producer.send(message, queue=QueueRef("orders", "broker-a", number % 2))


def keys(table: pa.Table) -> list[str]:
    return sorted((row[0] for row in table["keys"].to_pylist()), key=lambda key: int(key[2:]))


def orders(*numbers: int) -> list[str]:
    return [f"o-{number}" for number in numbers]


def test_a_topic_is_a_table_with_a_row_for_each_message(shop: EmbeddedBroker) -> None:
    table = read_topic("orders", namesrv=shop.namesrv)

    assert keys(table) == orders(*range(15))
    assert table.column_names[:4] == ["topic", "broker", "queue_id", "queue_offset"]
    row = table.filter(pa.compute.equal(table["queue_offset"], 1)).to_pylist()[0]
    assert (row["topic"], row["queue_id"], row["body"]) == ("orders", 0, b'{"amount": 2}')
    assert (row["tags"], row["keys"]) == ("open", ["o-2", "all"])
    assert dict(row["properties"])["amount"] == "2"
    places = [
        (row["queue_id"], row["queue_offset"])
        for row in table.select(["queue_id", "queue_offset"]).to_pylist()
    ]
    assert places == sorted(places)


def test_columns_come_as_they_were_asked_for(shop: EmbeddedBroker) -> None:
    names = ["properties", "body", "bad_record", "queue_offset"]

    table = read_topic("orders", namesrv=shop.namesrv, columns=names)

    assert table.column_names == names
    assert table["bad_record"].null_count == 15


def test_tags_and_sql_choose_messages(shop: EmbeddedBroker) -> None:
    by_tags = read_topic("orders", namesrv=shop.namesrv, tags="paid")
    by_sql = read_topic("orders", namesrv=shop.namesrv, sql="amount > 11")

    assert keys(by_tags) == orders(0, 3, 6, 9, 12)
    assert keys(by_sql) == orders(12, 13, 14)


def test_a_time_span_begins_with_its_start_and_ends_before_its_end(shop: EmbeddedBroker) -> None:
    whole = read_topic("orders", namesrv=shop.namesrv, columns=["keys", "store_time"])
    times = {row["keys"][0]: row["store_time"] for row in whole.to_pylist()}
    later = times["o-10"]

    before = read_topic("orders", namesrv=shop.namesrv, end=later)
    after = read_topic("orders", namesrv=shop.namesrv, start=later.isoformat())
    between = read_topic(
        "orders", namesrv=shop.namesrv, start=round(later.timestamp() * 1000), end="latest"
    )
    nothing = read_topic("orders", namesrv=shop.namesrv, start=later, end=times["o-0"])

    assert keys(before) == orders(*range(10))
    assert keys(after) == keys(between) == orders(*range(10, 15))
    assert nothing.num_rows == 0


def test_an_empty_topic_is_a_table_with_columns_and_without_rows(shop: EmbeddedBroker) -> None:
    table = read_topic("empty", namesrv=shop.namesrv)

    assert (table.num_rows, table.num_columns) == (0, 14)
    assert read_topic("orders", namesrv=shop.namesrv, start="latest").num_rows == 0


def test_several_topics_share_a_table(shop: EmbeddedBroker) -> None:
    table = read_topic(["empty", "orders"], namesrv=shop.namesrv, columns=["topic"])

    assert table["topic"].to_pylist() == ["orders"] * 15


def test_the_name_server_comes_from_the_environment_too(
    shop: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidSetting, match="give namesrv= or set NAMESRV_ADDR"):
        read_topic("orders")

    monkeypatch.setenv("NAMESRV_ADDR", shop.namesrv)

    assert read_topic("orders").num_rows == 15


def test_a_limit_reads_no_more_rows(shop: EmbeddedBroker) -> None:
    some = read_topic("orders", namesrv=shop.namesrv, limit=9)
    none = read_topic("orders", namesrv=shop.namesrv, limit=0)

    assert (some.num_rows, none.num_rows) == (9, 0)


def test_a_table_over_its_limits_is_refused_with_what_to_do(shop: EmbeddedBroker) -> None:
    with pytest.raises(ResultTooLarge, match=r"limit of 14 \(max_rows.*read_topic_batches"):
        read_topic("orders", namesrv=shop.namesrv, max_rows=14)
    with pytest.raises(ResultTooLarge, match=r"limit of 100 .*max_bytes") as raised:
        read_topic("orders", namesrv=shop.namesrv, max_bytes=100)

    assert not raised.value.retriable
    assert read_topic("orders", namesrv=shop.namesrv, max_rows=15).num_rows == 15


def test_batches_stream_a_topic_and_leave_no_connection(shop: EmbeddedBroker) -> None:
    before = sockets()

    with read_topic_batches("orders", namesrv=shop.namesrv, columns=["keys"]) as reader:
        rows = [row["keys"][0] for batch in reader for row in batch.to_pylist()]
    half = read_topic_batches("orders", namesrv=shop.namesrv)
    half.read_next_batch()
    half.close()
    del half

    assert len(rows) == 15
    wait_for(lambda: sockets() <= before)


def test_duckdb_polars_and_pandas_read_a_topic_in_a_line(
    shop: EmbeddedBroker, tmp_path: Path
) -> None:
    table = read_topic("orders", namesrv=shop.namesrv)
    amounts = read_topic_batches("orders", namesrv=shop.namesrv, columns=["body"])  # noqa: F841  # DuckDB finds it

    counted = duckdb.execute('SELECT tags, count(*) FROM "table" GROUP BY 1 ORDER BY 1').fetchall()
    streamed = duckdb.execute("SELECT sum((decode(body)::JSON->>'amount')::INT) FROM amounts")
    polars = pl.from_arrow(table)
    frame = table.to_pandas()
    pq.write_table(table, tmp_path / "orders.parquet")

    assert counted == [("open", 10), ("paid", 5)]
    assert streamed.fetchall() == [(sum(range(15)),)]
    assert isinstance(polars, pl.DataFrame)
    assert polars.filter(pl.col("tags") == "paid").height == 5
    assert frame.groupby("tags").size().to_dict() == {"open": 10, "paid": 5}
    assert pq.read_table(tmp_path / "orders.parquet").num_rows == 15


@pytest.mark.parametrize("name", PLAIN)
def test_a_store_directory_of_a_java_broker_is_read_without_it(name: str, tmp_path: Path) -> None:
    directory = unpack_store(name, tmp_path)
    expected = stored_messages(name)
    topic = expected[0]["topic"]

    everything = read_store(directory)
    one = read_topic(topic, store=directory)

    assert set(one["topic"].to_pylist()) == {topic}
    assert one.num_rows == everything["topic"].to_pylist().count(topic)
    assert one.num_rows > 0


def test_the_store_of_a_running_broker_has_the_same_rows(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path) as servers:
        with servers.producer("shop") as producer:
            producer.send(Message("things", b"one"))
        wait_for(lambda: read_store(tmp_path, columns=["body"]).num_rows)
        by_files = read_store(tmp_path, topics=["things"], columns=["body", "queue_offset"])
        by_broker = read_topic("things", namesrv=servers.namesrv, columns=["body", "queue_offset"])

    assert by_files.equals(by_broker)


def test_poll_table_is_a_poll_as_a_table(shop: EmbeddedBroker) -> None:
    with shop.lite_pull_consumer("tables", start_from="first") as consumer:
        consumer.subscribe("orders")
        table = consumer.poll_table(60_000)
        nothing = consumer.poll_table(0) if table.num_rows == 15 else table

    assert set(table.column_names) == set(nothing.column_names)
    assert table.num_rows > 0
    assert table["topic"].to_pylist() == ["orders"] * table.num_rows


def test_poll_table_on_asyncio(shop: EmbeddedBroker) -> None:
    async def main() -> pa.Table:
        from flintmq.aio import LitePullConsumer

        settings = shop.settings
        async with LitePullConsumer("tables-aio", start_from="first", **settings) as consumer:
            consumer.subscribe("orders")
            return await consumer.poll_table(60_000)

    assert run(main()).num_rows > 0


@pytest.mark.parametrize(
    ("wrong", "setting", "hint"),
    [
        ({"columns": ["bdy"]}, "columns", "did you mean body"),
        ({"columns": "body"}, "columns", "give a list"),
        ({"start": datetime(2026, 1, 1)}, "start", "no time zone"),  # noqa: DTZ001  # the point
        ({"end": "yesterday"}, "end", "2026-11-17T08:30:00"),
        ({"start": 1_700_000_000}, "start", "milliseconds"),
        ({"start": None}, "start", "a datetime"),
        ({"on_bad_record": "ignore"}, "on_bad_record", "quarantine, skip, stop"),
        ({"namesvr": "127.0.0.1:9876"}, "namesvr", "did you mean namesrv"),
        ({"access_key": "a"}, "access_key", "go together"),
        ({"store": ".", "namesrv": "127.0.0.1:9876"}, "namesrv", "without a cluster"),
        ({"limit": -1}, "limit", "number of rows"),
    ],
)
def test_a_wrong_argument_is_answered_before_anything_is_read(
    wrong: dict[str, object], setting: str, hint: str
) -> None:
    given: dict[str, object] = {"namesrv": "127.0.0.1:1"} | wrong
    if "store" in wrong:
        given = wrong

    with pytest.raises(InvalidSetting, match=hint) as raised:
        read_topic("orders", **given)  # type: ignore[arg-type]  # wrong on purpose

    assert raised.value.setting == setting


def test_what_is_not_there_is_an_error(shop: EmbeddedBroker, tmp_path: Path) -> None:
    with pytest.raises(NoRoute, match="nowhere"):
        read_topic("nowhere", namesrv=shop.namesrv)
    with pytest.raises(InvalidName):
        read_topic("no topic", namesrv=shop.namesrv)
    with pytest.raises(InvalidExpression):
        read_topic("orders", namesrv=shop.namesrv, sql="amount >")


def test_datetimes_of_any_zone_are_times(shop: EmbeddedBroker) -> None:
    future = datetime(2100, 1, 1, tzinfo=UTC)

    assert read_topic("orders", namesrv=shop.namesrv, start=future).num_rows == 0


def test_without_pyarrow_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flintmq.arrow, "find_spec", lambda _name: None)

    with pytest.raises(MissingExtra, match=r"pip install 'flintmq\[arrow\]'"):
        _ = flintmq.arrow.message_table


def test_pyspark_is_not_loaded() -> None:
    code = "import flintmq.arrow.topic_tables, sys; print(*sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "pyspark" not in done.stdout.split()
