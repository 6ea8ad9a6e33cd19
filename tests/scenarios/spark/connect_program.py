"""A program that knows Spark only through Spark Connect: it reads, streams and writes, or listens.

    python connect_program.py read NAMESRV DIRECTORY
    python connect_program.py listen NAMESRV DIRECTORY

The server is started beside it.  It prints one line of JSON at the end.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import flintmq.spark
from flintmq import App
from flintmq.errors import CircuitOpen, InvalidSetting
from flintmq.spark.environment.java import use_java

PATIENCE_S = 120.0


def noting(directory: str, name: str) -> Callable[[Any], None]:
    """A listener that writes bodies to a file: the server runs on the same machine."""
    path = f"{directory}/{name}"

    def note(messages: Any) -> None:
        with open(path, "a") as file:  # noqa: PTH123  # it runs elsewhere
            file.write("".join(f"{message.body.decode()}\n" for message in messages))

    return note


def lines(directory: str, name: str) -> list[str]:
    path = Path(directory) / name
    return sorted(path.read_text().split()) if path.exists() else []


def wait_for(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, "it did not come true"
        time.sleep(0.1)


def app_of(namesrv: str, group: str, topic: str, listener: Any, **settings: Any) -> App:
    app = App(group, namesrv=namesrv, start_from="first", **settings)
    app.listener(topic)(listener)
    return app


def raising(_messages: Any) -> None:
    raise OSError("no database")


def stopped(spark: Any, namesrv: str, directory: str) -> dict[str, Any]:
    """A run that is stopped: what it consumed is committed, and it is out of its group."""
    app = app_of(namesrv, "pulled", "work", noting(directory, "pulled"))
    files = {"format": "parquet", "path": f"{directory}/outcomes"}
    run = flintmq.spark.run(app, spark, sink=files)
    wait_for(lambda: run.status().messages == 80)
    client_id = run.client_id
    return {
        "client_id": client_id,
        "rested": run.stop(),
        "heard": lines(directory, "pulled"),
        "rows": spark.read.parquet(f"{directory}/outcomes").count(),
    }


def popped(spark: Any, namesrv: str, directory: str) -> dict[str, Any]:
    """A run that pops, with a table for a dashboard."""
    app = app_of(namesrv, "popped", "work", noting(directory, "popped"), mode="pop")
    table = {"format": "parquet", "path": f"{directory}/summary", "rows": "listeners"}
    run = flintmq.spark.run(app, spark, sink=table, available_now=True)
    ended = run.await_termination(PATIENCE_S)
    total = spark.read.parquet(f"{directory}/summary").selectExpr("sum(consumed)").first()[0]
    return {"ended": ended, "heard": lines(directory, "popped"), "consumed": total}


def ordered(spark: Any, namesrv: str, directory: str) -> dict[str, Any]:
    app = app_of(namesrv, "ordered", "work", noting(directory, "ordered"), ordered=True)
    run = flintmq.spark.run(app, spark, available_now=True, messages_max=30)
    ended = run.await_termination(PATIENCE_S)
    return {"ended": ended, "heard": lines(directory, "ordered"), "batches": run.status().batches}


def broken(spark: Any, namesrv: str) -> str:
    app = app_of(namesrv, "broken", "work", raising, mode="pop")
    try:
        flintmq.spark.run(app, spark, failures_max=3).await_termination(PATIENCE_S)
    except CircuitOpen as error:
        return str(error)
    return "it did not open"


def refused(spark: Any, namesrv: str) -> str:
    try:
        flintmq.spark.run(app_of(namesrv, "refused", "work", raising), spark, sink="console")
    except InvalidSetting as error:
        return str(error)
    return "it was not refused"


def read(spark: Any, namesrv: str, directory: str) -> dict[str, Any]:
    """Batches, a stream, a sink and a loop."""
    told: dict[str, Any] = {}
    found = spark.read.format("rocketmq").options(namesrv=namesrv, subscribe="source").load()
    told["found"] = found.count()  # by the name of a module, where flintmq is installed
    flintmq.spark.register(spark)
    read = spark.read.format("rocketmq").options(namesrv=namesrv, subscribe="source").load()
    told["read"] = read.count()
    read.select("body").where("queue_id = 0").write.format("rocketmq").mode("append").options(
        namesrv=namesrv, topic="written"
    ).save()
    stream = spark.readStream.format("rocketmq").options(
        namesrv=namesrv,
        subscribe="source",
        startingOffsets="earliest",
        consumerGroup="connected",
        maxOffsetsPerTrigger=30,
    )
    rows = stream.load().select("body")
    query = (
        rows.writeStream.format("rocketmq")
        .options(namesrv=namesrv, topic="streamed", checkpointLocation=f"{directory}/c")
        .trigger(availableNow=True)
        .start()
    )
    told["ended"] = query.awaitTermination(300)
    frame = flintmq.spark.read(spark, "source", namesrv=namesrv)
    told["frame"] = frame.count()
    batches: list[int] = []
    told["batches"] = flintmq.spark.for_each_batch(
        spark,
        "source",
        lambda rows, _number: batches.append(rows.count()),
        f"{directory}/loop",
        available_now=True,
        namesrv=namesrv,
        startingOffsets="earliest",
        consumerGroup="looped",
        maxOffsetsPerTrigger=30,
    )
    told["rows"] = batches
    return told


def listen(spark: Any, namesrv: str, directory: str) -> dict[str, Any]:
    """Runs of listeners."""
    return {
        "refused": refused(spark, namesrv),
        "stopped": stopped(spark, namesrv, directory),
        "popped": popped(spark, namesrv, directory),
        "ordered": ordered(spark, namesrv, directory),
        "broken": broken(spark, namesrv),
    }


def main(what: str, namesrv: str, directory: str) -> None:
    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder
    spark = builder.remote("local[2]").config("spark.sql.shuffle.partitions", "1").getOrCreate()
    work = {"read": read, "listen": listen}[what]
    try:
        told = {"session": type(spark).__module__, **work(spark, namesrv, directory)}
    finally:
        spark.stop()
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
