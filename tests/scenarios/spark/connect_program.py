"""A program that knows Spark only through Spark Connect: it reads, streams and writes.

    python connect_program.py NAMESRV DIRECTORY

The server is started beside it.  It prints one line of JSON at the end.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from pyspark.sql import SparkSession

import flintmq.spark
from flintmq.spark.environment.java import use_java


def main(namesrv: str, directory: str) -> None:
    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder
    spark = builder.remote("local[2]").config("spark.sql.shuffle.partitions", "1").getOrCreate()
    told: dict[str, Any] = {"session": type(spark).__module__}
    try:
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
    finally:
        spark.stop()
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
