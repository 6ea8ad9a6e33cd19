"""A lake holds every message of its topics once, whatever happened to the queries that wrote it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from datetime import UTC
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import InvalidSetting, NoRoute, WrongState
from flintmq.spark import compact, lake
from flintmq.spark.pipelines.lake_frame import day_of
from support.cli.asking import Shell
from support.cli.serving import COMMAND, environment
from support.spark.support import bodies, create_topic, lag, send, wait_for

DATA_FILES = "topic=*/day=*/part-*.parquet"
START_S = 200.0
"""Spark starts in ten seconds on a machine that is idle."""


def until_now(
    spark: SparkSession, broker: EmbeddedBroker, topics: str, to: Path, **options: Any
) -> int:
    """Write what is there; how many messages that were."""
    written = lake(spark, topics, str(to), until_now=True, namesrv=broker.namesrv, **options)
    assert written.await_termination(START_S)
    return int(written.status().messages)


def seen_by_others(to: Path) -> int:
    """Rows in all files, as a program counts them that knows nothing of Spark."""
    table = ds.dataset(to, format="parquet", partitioning="hive")
    return int(table.count_rows())


def forget_newest(directory: Path) -> None:
    """As if the driver had died before it wrote the last file of a log."""
    newest = max(int(path.name) for path in directory.iterdir() if path.name.isdecimal())
    (directory / str(newest)).unlink()
    (directory / f".{newest}.crc").unlink(missing_ok=True)


@pytest.mark.heavy
def test_a_driver_that_is_killed_while_it_writes_costs_nothing(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic, to = create_topic(broker, "killed", 2), tmp_path / "lake"
    for queue_id in range(2):
        first = queue_id * 10_000
        send(broker, topic, (f"{first + n:1000}" for n in range(10_000)), queue_id=queue_id)
    process = subprocess.Popen(
        [COMMAND, "lake", topic, "--to", str(to), "-n", broker.namesrv, "--spark", "local[2]"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(),
        start_new_session=True,  # driver and JVM are killed together
    )
    try:
        wait_for(lambda: process.poll() is not None or any(to.glob(DATA_FILES)), START_S)
        assert process.poll() is None, "it ended by itself"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    send(broker, topic, ["late"])

    until_now(spark, broker, topic, to)

    assert [int(body) for body in bodies(spark.read.parquet(str(to))) if body != "late"] == list(
        range(20_000)
    )
    assert seen_by_others(to) == 20_001


def test_a_batch_that_did_not_count_is_written_again_and_one_that_did_is_not(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic, to = create_topic(broker, "crashed"), tmp_path / "lake"
    send(broker, topic, [f"a{n}" for n in range(4)])
    options = {"maxOffsetsPerTrigger": 3, "consumerGroup": "lakes"}
    assert until_now(spark, broker, topic, to, **options) == 4
    commits = to / "_checkpoint" / "commits"
    files = set(to.glob(DATA_FILES))

    forget_newest(commits)
    until_now(spark, broker, topic, to, **options)
    once = set(to.glob(DATA_FILES))
    forget_newest(commits)
    forget_newest(to / "_spark_metadata")
    send(broker, topic, ["late"])
    until_now(spark, broker, topic, to, **options)

    assert once == files
    assert bodies(spark.read.parquet(str(to))) == ["a0", "a1", "a2", "a3", "late"]
    assert seen_by_others(to) == 5
    assert lag(broker, "lakes") == 0
    with pytest.raises(InvalidSetting, match="knows nothing of batch 2"):
        until_now(spark, broker, topic, to, checkpoint=str(tmp_path / "other"))
    with pytest.raises(InvalidSetting, match="has finished batch 2"):
        until_now(spark, broker, topic, tmp_path / "new", checkpoint=str(to / "_checkpoint"))


def test_it_follows_topics_until_it_is_stopped_and_keeps_others_out(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic, to = create_topic(broker, "followed"), tmp_path / "lake"
    send(broker, topic, ["before"])

    with lake(
        spark,
        topic,
        str(to),
        every_s=0.1,
        namesrv=broker.namesrv,
        startingOffsets="latest",
        consumerGroup="followers",
    ) as written:
        wait_for(lambda: lag(broker, "followers") == 0 or (to / "_checkpoint/offsets").exists())
        written.query.processAllAvailable()
        send(broker, topic, ["after"])
        written.query.processAllAvailable()
        with pytest.raises(WrongState, match="another query writes to it"):
            lake(spark, topic, str(to), namesrv=broker.namesrv)

    assert bodies(spark.read.parquet(str(to))) == ["after"]
    assert (written.status().is_active, written.status().messages) == (False, 1)
    wait_for(lambda: lag(broker, "followers") == 0)
    assert until_now(spark, broker, topic, to) == 0


def test_a_command_writes_a_store_directory_by_topic_and_day(
    spark: SparkSession, own_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    to = tmp_path / "lake"
    create_topic(own_broker, "orders")
    create_topic(own_broker, "mails")
    send(own_broker, "orders", ["1"], tags="a")
    own_broker.advance(86_400)
    send(own_broker, "orders", ["2"], tags="a")
    send(own_broker, "orders", ["3"], tags="b")
    send(own_broker, "mails", ["4"], tags="a")
    user = Shell(own_broker.namesrv)

    facts = user.facts(
        *("lake", "orders", "mails", "--to", str(to), "--until-now", "--tags", "a"),
        *("--columns", "body,queue_offset", "--store", str(own_broker.directory)),
    )

    assert facts["messages"] == 3
    frame = spark.read.parquet(str(to))
    days = {
        message.body: message.store_ms // 86_400_000 for message in own_broker.messages("orders")
    }
    rows = {(bytes(row.body), row.topic, row.queue_offset) for row in frame.collect()}
    assert rows == {(b"1", "orders", 0), (b"2", "orders", 1), (b"4", "mails", 0)}
    assert frame.columns == ["body", "queue_offset", "topic", "day"]
    stored = {
        bytes(row.body): row.days
        for row in frame.select("body", f.unix_date("day").alias("days")).collect()
    }
    assert {body: stored[body] for body in (b"1", b"2")} == {
        body: days[body] for body in (b"1", b"2")
    }
    assert len({path.name for path in to.glob("topic=orders/day=*")}) == 2


def test_bodies_become_columns_of_a_lake_and_small_files_one(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic, to = create_topic(broker, "decoded"), tmp_path / "lake"
    ddl = "order STRING NOT NULL, amount DOUBLE"
    schema: dict[str, Any] = {"schema": ddl, "maxOffsetsPerTrigger": 2}
    orders = [f'{{"order":"o-{n}","amount":{n}}}' for n in range(5)]
    send(broker, topic, [*orders, '{"amount":1}', "no order"], tags="t")

    written = lake(spark, topic, str(to), until_now=True, namesrv=broker.namesrv, **schema)
    assert written.await_termination(START_S)
    assert (written.status().messages, written.status().quarantined) == (7, 2)
    before = len(list(to.rglob("part-*.parquet")))
    done, nothing = compact(spark, str(to)), compact(spark, str(to))

    frame = spark.read.parquet(str(to))
    files = list(to.rglob("part-*.parquet"))
    assert (before, len(files)) == (done.files_before, done.files_after) == (5, 2)
    assert (nothing.files_before, nothing.files_after) == (0, 0)
    assert seen_by_others(to) == 7
    good = frame.where("quarantined = 0").select("order", "amount", "tags", "body")
    assert {tuple(row) for row in good.collect()} == {
        (f"o-{n}", float(n), "t", None) for n in range(5)
    }
    bad = frame.where("quarantined = 1").select("body", "decode_error", "queue_offset").collect()
    assert sorted((bytes(row.body), row.decode_error, row.queue_offset) for row in bad) == [
        (b"no order", "the body is no JSON object", 6),
        (b'{"amount":1}', "order is missing", 5),
    ]

    send(broker, topic, ['{"order":"o-5"}'] * 12)
    assert until_now(spark, broker, topic, to, **schema) == 12, "it goes on after a compaction"
    assert spark.read.parquet(str(to)).where("quarantined = 0").count() == 17
    with pytest.raises(InvalidSetting, match=r"amount.*is double in the lake"):
        until_now(spark, broker, topic, to, **{**schema, "schema": "order STRING, amount STRING"})
    with pytest.raises(InvalidSetting, match="written with one"):
        until_now(spark, broker, topic, to)


@pytest.mark.heavy
def test_the_command_compacts_a_lake(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic, to = create_topic(broker, "compacted"), tmp_path / "lake"
    send(broker, topic, [f"{n}" for n in range(6)])
    until_now(spark, broker, topic, to, maxOffsetsPerTrigger=2)

    facts = Shell(broker.namesrv).facts("lake", "compact", "--to", str(to))

    assert (facts["before"], facts["after"]) == (3, 1)
    assert bodies(spark.read.parquet(str(to))) == [f"{n}" for n in range(6)]


def test_a_lake_that_has_no_rows_yet_goes_on(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic, to = create_topic(broker, "empty"), tmp_path / "lake"
    schema = {"schema": "order STRING"}

    counts = [until_now(spark, broker, topic, to, **schema)]
    (to / "_spark_metadata").mkdir(exist_ok=True)  # as far as a killed driver may come
    counts.append(until_now(spark, broker, topic, to, **schema))
    send(broker, topic, ['{"order":"o-1"}'])
    counts.append(until_now(spark, broker, topic, to, **schema))

    assert counts == [0, 0, 1]


def test_a_compaction_that_was_killed_is_finished_or_undone(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic, to = create_topic(broker, "half-compacted"), tmp_path / "lake"
    send(broker, topic, [f"{n}" for n in range(6)])
    until_now(spark, broker, topic, to, maxOffsetsPerTrigger=2)
    logs, newest = to / "_spark_metadata", 2
    files = sorted(to.glob(DATA_FILES))

    (to / "_compacting").write_text(str(newest))
    shutil.copy(files[0], files[0].with_name("part-99999-new.parquet"))
    until_now(spark, broker, topic, to)
    assert sorted(to.glob(DATA_FILES)) == files, "large files that never counted are gone"

    (to / "_compacting").write_text(str(newest))
    lines = [each for n in range(3) for each in (logs / str(n)).read_text().splitlines()[1:]]
    (logs / f"{newest}.compact").write_text("\n".join(["v1", *lines[:2]]))
    until_now(spark, broker, topic, to)
    assert [path.name for path in logs.iterdir() if path.name[0] != "."] == ["2.compact"]
    assert len(list(to.glob(DATA_FILES))) == 2, "small files that no longer count are gone"
    assert not (to / "_compacting").exists()


def test_the_day_is_that_of_utc_whatever_the_session_says(spark: SparkSession) -> None:
    midnight = f.timestamp_micros(f.lit(86_400_000_000 * 3))
    before = f.timestamp_micros(f.lit(86_400_000_000 * 3 - 1))
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        row = spark.range(1).select(day_of(before).alias("a"), day_of(midnight).alias("b")).first()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone or UTC.tzname(None))

    assert row is not None
    assert (row.a.isoformat(), row.b.isoformat()) == ("1970-01-03", "1970-01-04")


def test_what_cannot_work_is_said_before_anything_is_written(
    spark: SparkSession, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic = create_topic(broker, "refused")
    (tmp_path / "notes.txt").write_text("mine")
    new = str(tmp_path / "new")

    with pytest.raises(InvalidSetting, match=r"notes\.txt"):
        lake(spark, topic, str(tmp_path), namesrv=broker.namesrv)
    with pytest.raises(NoRoute):
        lake(spark, "nowhere", new, namesrv=broker.namesrv)
    with pytest.raises(InvalidSetting, match="did you mean tags"):
        lake(spark, topic, new, namesrv=broker.namesrv, tagz="a")
    with pytest.raises(InvalidSetting, match="RocketMQ's columns"):
        lake(spark, topic, new, namesrv=broker.namesrv, schema="kafka")
    with pytest.raises(InvalidSetting, match="is a file"):
        lake(spark, topic, str(tmp_path / "notes.txt"), namesrv=broker.namesrv)
    with pytest.raises(InvalidSetting, match="give one of parquet, delta, iceberg"):
        lake(spark, topic, new, namesrv=broker.namesrv, format="csv")
    with pytest.raises(InvalidSetting, match=r"lacks|no release for Spark"):
        lake(spark, topic, new, namesrv=broker.namesrv, format="delta")
    with pytest.raises(InvalidSetting, match="without a schema"):
        lake(spark, topic, new, namesrv=broker.namesrv, into="o")
    with pytest.raises(InvalidSetting, match="is no lake"):
        compact(spark, new)
    assert not Path(new).exists()
