"""The program that is killed: it copies a topic to another, listens to one, or keeps one.

    python killed_program.py copy NAMESRV CHECKPOINT
    python killed_program.py listen NAMESRV DIARY
    python killed_program.py pop NAMESRV DIRECTORY
    python killed_program.py hang-pull|hang-pop NAMESRV DIRECTORY
    python killed_program.py parquet|delta NAMESRV DIRECTORY    with the jars in KILLED_JARS

It needs nothing but flintmq, as a program of a user does.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import flintmq.spark
from flintmq import App
from flintmq.core.group.consumer_settings import ConsumeMode
from flintmq.spark.pipelines.lake_formats import JARS, JARS_PACKAGES, LakeFormat, lake_settings
from flintmq.spark.session import spark_session

SOURCE, COPY, LISTENED, KEPT = "killed-source", "killed-copy", "killed-listened", "killed-kept"
COPIERS, LISTENERS, KEEPERS = "killed-copiers", "killed-listeners", "killed-keepers"
BATCH = 400
"""Messages of one batch, at most."""

POISON = b"poison"
HANG_BATCH = 1_000
"""The same of those that hang."""

EACH_S = 0.005
"""A popped message takes so long: most kills are within a batch."""


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


def pop(session: SparkSession, namesrv: str, directory: str) -> None:
    """Write down which message was heard by which start of the program, and what a batch had."""
    app = App(LISTENERS, namesrv=namesrv, start_from="first", mode="pop", invisible_ms=30_000)
    start, diary = str(time.time_ns()), f"{directory}/heard"

    @app.listener(LISTENED, batch_max=8)
    def note(messages: Any) -> None:
        with open(diary, "a") as file:  # noqa: PTH123  # it runs elsewhere
            file.writelines(
                f"{start} {each.body.decode()} {each.message_id}\n" for each in messages
            )
        time.sleep(EACH_S * len(messages))

    def remember(frame: DataFrame, batch_id: int) -> None:
        ids = [row[0] for row in frame.select("message_id").collect()]
        Path(directory, f"{start}-{batch_id}").write_text("\n".join(ids))

    run = flintmq.spark.run(
        app, session, sink=remember, messages_max=BATCH, checkpoint=f"{directory}/checkpoint"
    )
    run.await_termination()


def hang(session: SparkSession, namesrv: str, directory: str, *, mode: ConsumeMode) -> None:
    """Write down every message, and do not come back from one of them."""
    app = App(LISTENERS, namesrv=namesrv, start_from="first", mode=mode)

    @app.listener(LISTENED)
    def note(messages: Any) -> None:
        (message,) = messages
        if message.body == POISON:
            with open(f"{directory}/hangs", "w"):  # noqa: PTH123  # it runs elsewhere
                threading.Event().wait()
        with open(f"{directory}/heard", "a") as file:  # noqa: PTH123
            file.write(f"{message.body.decode()}\n")

    flintmq.spark.run(app, session, messages_max=HANG_BATCH).await_termination()


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
    programs: dict[str, Callable[[SparkSession, str, str], None]] = {
        "copy": copy,
        "listen": listen,
        "pop": pop,
        "hang-pull": partial(hang, mode="pull"),
        "hang-pop": partial(hang, mode="pop"),
    }
    run = programs.get(what, partial(keep, kind=what))
    with tempfile.TemporaryDirectory(prefix="flintmq-killed-", ignore_cleanup_errors=True) as home:
        run(spark(home, what if is_lake else LakeFormat.PARQUET), servers, place)
