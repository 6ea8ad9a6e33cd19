"""The program that `test_kills` kills: it copies one topic to another, or listens to one.

    python killed_program.py copy NAMESRV CHECKPOINT
    python killed_program.py listen NAMESRV DIARY

It needs nothing but flintmq, as a program of a user does.
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

import flintmq.spark
from flintmq import App
from flintmq.spark.session import spark_session

SOURCE, COPY, LISTENED = "killed-source", "killed-copy", "killed-listened"
COPIERS, LISTENERS = "killed-copiers", "killed-listeners"
BATCH = 400
"""Messages of one batch, at most."""


def spark(scratch: str) -> SparkSession:
    settings = {
        "spark.driver.memory": "1g",
        "spark.local.dir": scratch,
        "spark.sql.streaming.minBatchesToRetain": 10_000,
        "spark.sql.warehouse.dir": scratch,
        "spark.ui.showConsoleProgress": False,
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


if __name__ == "__main__":
    what, servers, place = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="flintmq-killed-", ignore_cleanup_errors=True) as home:
        {"copy": copy, "listen": listen}[what](spark(home), servers, place)
