"""The program that `test_kills` kills: it copies a topic to another, listens to one, or keeps one.

    python killed_program.py copy NAMESRV CHECKPOINT
    python killed_program.py listen NAMESRV DIARY
    python killed_program.py parquet|delta NAMESRV DIRECTORY    with the jars in KILLED_JARS

It needs nothing but flintmq, as a program of a user does.
"""

from __future__ import annotations

import os
import sys
import tempfile
from functools import partial
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import flintmq.spark
from flintmq import App
from flintmq.spark.pipelines.lake_formats import JARS, JARS_PACKAGES, LakeFormat, lake_settings
from flintmq.spark.session import spark_session

SOURCE, COPY, LISTENED, KEPT = "killed-source", "killed-copy", "killed-listened", "killed-kept"
COPIERS, LISTENERS, KEEPERS = "killed-copiers", "killed-listeners", "killed-keepers"
BATCH = 400
"""Messages of one batch, at most."""


def spark(scratch: str, kind: str = LakeFormat.PARQUET) -> SparkSession:
    jars = {JARS: os.environ["KILLED_JARS"]} if os.environ.get("KILLED_JARS") else {}
    lakes = {name: text for name, text in lake_settings(kind).items() if name != JARS_PACKAGES}
    settings = {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.databricks.delta.snapshotPartitions": 2,
        "spark.local.dir": scratch,
        "spark.sql.streaming.minBatchesToRetain": 10_000,
        "spark.sql.warehouse.dir": scratch,
        "spark.ui.showConsoleProgress": False,
        **jars,
        **lakes,
    }
    return spark_session("killed", "local[2,8]", **settings)


def copy(session: SparkSession, namesrv: str, checkpoint: str) -> None:
    """Every message, with the place where it was; until it is killed."""
    reader = session.readStream.format("rocketmq").options(
        namesrv=namesrv,
        subscribe=SOURCE,
        startingOffsets="earliest",
        consumerGroup=COPIERS,
        maxOffsetsPerTrigger=BATCH,
    )
    place = f.concat_ws("-", "queue_id", "queue_offset")
    rows = reader.load().select("body", f.create_map(f.lit("place"), place).alias("properties"))
    writer = rows.writeStream.format("rocketmq").options(
        namesrv=namesrv, topic=COPY, checkpointLocation=checkpoint
    )
    writer.start().awaitTermination()


def listen(session: SparkSession, namesrv: str, diary: str) -> None:
    """Write down every message, until it is killed."""
    app = App(LISTENERS, namesrv=namesrv, start_from="first", batch_max=8)

    @app.listener(LISTENED)
    def note(messages: Any) -> None:
        with open(diary, "a") as file:  # noqa: PTH123  # it runs elsewhere
            file.write("".join(f"{message.body.decode()}\n" for message in messages))

    flintmq.spark.run(app, session, messages_max=BATCH).await_termination()


def keep(session: SparkSession, namesrv: str, directory: str, *, kind: str) -> None:
    """Write every message to a lake, until it is killed."""
    options: dict[str, Any] = {"maxOffsetsPerTrigger": BATCH, "consumerGroup": KEEPERS}
    written = flintmq.spark.lake(
        session, KEPT, directory, format=kind, every_s=0, namesrv=namesrv, **options
    )
    written.await_termination()


if __name__ == "__main__":
    what, servers, place = sys.argv[1:]
    is_lake = what in set(LakeFormat)
    run = {"copy": copy, "listen": listen}.get(what, partial(keep, kind=what))
    with tempfile.TemporaryDirectory(prefix="flintmq-killed-", ignore_cleanup_errors=True) as home:
        run(spark(home, what if is_lake else LakeFormat.PARQUET), servers, place)
