"""What a run may be told besides: a circuit breaker, back-pressure, tasks, a table of summaries."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import flintmq.spark
from flintmq.client.admin import Admin
from flintmq.core.group.app import App
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import CircuitOpen, InvalidSetting
from support.spark.support import PATIENCE_S, create_topic, lag, run_to_end, send

COUNT = 60


def prepared(servers: EmbeddedBroker, name: str, queues: int = 2, **settings: Any) -> App:
    create_topic(servers, name, queues)
    send(servers, name, [f"{number}" for number in range(COUNT)], queue_id=None)
    return App(name, namesrv=servers.namesrv, start_from="first", **settings)


def test_a_listener_that_always_raises_ends_the_run_and_no_message_is_lost(
    spark: SparkSession, own_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    app = prepared(own_broker, "breaks")
    is_mended = tmp_path / "mended"
    flag, heard = str(is_mended), str(tmp_path / "heard")

    @app.listener("breaks")
    def bill(messages: Any) -> None:
        if not Path(flag).exists():
            raise OSError("no database")
        with Path(heard).open("a") as file:
            file.writelines(f"{message.body.decode()}\n" for message in messages)

    run = flintmq.spark.run(app, spark, available_now=True, failures_max=10)
    with pytest.raises(CircuitOpen) as opened:
        run.await_termination(PATIENCE_S)
    assert opened.value.topic == "breaks"
    assert opened.value.listener.endswith("bill")
    assert (opened.value.failures, opened.value.error) == (10, "OSError('no database')")
    assert lag(own_broker, "breaks") in (None, COUNT), "nothing was committed"

    is_mended.touch()
    run_to_end(app, spark, failures_max=10)
    assert sorted(Path(heard).read_text().split(), key=int) == [f"{n}" for n in range(COUNT)]
    assert lag(own_broker, "breaks") == 0


def test_micro_batches_too_small_for_a_task_to_notice_add_up(
    spark: SparkSession, own_broker: EmbeddedBroker
) -> None:
    app = prepared(own_broker, "breaks-slowly", retry_max=3)

    @app.listener("breaks-slowly")
    def bill(_messages: Any) -> None:
        raise OSError("no database")

    run = flintmq.spark.run(app, spark, messages_max=4, failures_max=20)
    with pytest.raises(CircuitOpen) as opened:
        run.await_termination(PATIENCE_S)
    assert 20 <= opened.value.failures < COUNT
    assert not run.query.isActive
    with Admin(namesrv=own_broker.namesrv) as admin:
        sent_back = sum(each.count for each in admin.topic_stats("SCHEDULE_TOPIC_XXXX"))
    assert lag(own_broker, "breaks-slowly") == COUNT - sent_back > 0, "what was not called is left"


def test_one_good_call_keeps_a_run_alive(spark: SparkSession, own_broker: EmbeddedBroker) -> None:
    app = prepared(own_broker, "stumbles", queues=1)

    @app.listener("stumbles")
    def bill(messages: Any) -> None:
        if int(messages[0].body) % 3:
            raise OSError("now and then")

    run = run_to_end(app, spark, failures_max=3)
    assert run.status().messages == COUNT


def test_the_summary_of_each_listener_and_micro_batch_is_read_by_duckdb(
    spark: SparkSession, own_broker: EmbeddedBroker, checkpoint: str, tmp_path: Path
) -> None:
    duckdb = pytest.importorskip("duckdb")
    app = prepared(own_broker, "summed", queues=1)
    create_topic(own_broker, "summed-2")
    send(own_broker, "summed-2", ["a", "b"])

    @app.listener("summed", batch_max=8)
    def bill(messages: Any) -> None:
        if messages[0].queue_offset == 0:
            raise ValueError("the first eight")

    @app.listener("summed-2")
    def pay(_messages: Any) -> None: ...

    table = str(tmp_path / "summary")
    sink = {"format": "parquet", "path": table, "rows": "listeners"}
    run = run_to_end(app, spark, sink=sink, checkpoint=checkpoint, messages_max=40)

    rows = duckdb.sql(f"SELECT * FROM read_parquet('{table}/**/*.parquet', hive_partitioning=true)")
    assert set(rows.columns) == {
        *("run_id", "batch_id", "group", "topic", "listener", "ended_time", "messages"),
        *("consumed", "sent_back", "dead", "failed", "bad_records", "redelivered", "calls"),
        *("call_ms_sum", "call_ms_max", "first_call_time", "last_call_time", "errors"),
        "last_error",
    }
    sums = duckdb.sql(
        "SELECT topic, sum(messages), sum(consumed), sum(sent_back), sum(errors), max(last_error),"
        " max(listener), count(DISTINCT run_id), sum(calls) >= 1, bool_and(call_ms_max >= 0)"
        " FROM rows GROUP BY topic ORDER BY topic"
    ).fetchall()
    name = "test_the_summary_of_each_listener_and_micro_batch_is_read_by_duckdb.<locals>."
    error = "ValueError: the first eight"
    assert sums == [
        ("summed", COUNT, COUNT - 8, 8, 8, error, f"{name}bill", 1, True, True),
        ("summed-2", 2, 2, 0, 0, None, f"{name}pay", 1, True, True),
    ]
    batches = duckdb.sql("SELECT DISTINCT batch_id FROM rows").fetchall()
    assert len(batches) == run.status().batches >= 2
    (found_id,) = duckdb.sql("SELECT DISTINCT run_id FROM rows").fetchall()[0]
    assert str(found_id) == str(run.query.id), "the same after a restart"


def test_micro_batches_shrink_to_the_time_they_may_take(
    spark: SparkSession, broker: EmbeddedBroker
) -> None:
    create_topic(broker, "paced")
    send(broker, "paced", ["x"] * 1_400)
    app = App("paced", namesrv=broker.namesrv, start_from="first")
    pause = 0.002

    @app.listener("paced", tasks=1)
    def work(_messages: Any) -> None:
        threading.Event().wait(pause)

    sizes: list[int] = []

    def count(frame: DataFrame, _batch_id: int) -> None:
        sizes.append(frame.count())

    run_to_end(app, spark, sink=count, batch_target_s=0.3)
    assert sum(sizes) == 1_400
    assert sizes[0] == 1_000, "nothing is known yet"
    assert max(sizes[1:]) <= 150, "a thousand took two seconds at least"
    assert len(sizes) < 30, "what Spark needs itself makes them no smaller"


def test_as_many_tasks_run_a_listener_as_it_says(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    app = prepared(broker, "one-task", queues=4)
    log = str(tmp_path / "tasks")

    @app.listener("one-task", tasks=1)
    def note(messages: Any) -> None:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        with Path(log).open("a") as file:
            file.write(f"{context.partitionId()} {messages[0].queue_id}\n")

    run_to_end(app, spark)
    lines = [line.split() for line in Path(log).read_text().splitlines()]
    assert {task for task, _ in lines} == {"0"}
    assert {queue for _, queue in lines} == {"0", "1", "2", "3"}
    assert len(lines) == COUNT


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("failures_max", {"failures_max": 0}),
        ("batch_target_s", {"batch_target_s": 0}),
        ("sink", {"sink": {"format": "parquet", "path": "x", "rows": "queues"}}),
    ],
)
def test_a_wrong_setting_is_refused_by_name(
    spark: SparkSession, name: str, options: dict[str, Any]
) -> None:
    app = App("refused", namesrv="127.0.0.1:1")
    app.listener("refused")(print)
    with pytest.raises(InvalidSetting, match=name):
        flintmq.spark.run(app, spark, **options)
