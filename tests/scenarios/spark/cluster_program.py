"""A program of a user, for a Spark cluster: it reads, streams, writes and listens.

    spark-submit --master spark://… cluster_program.py NAMESRV DIRECTORY
    python cluster_program.py NAMESRV DIRECTORY spark://…

Nothing of it is installed where the tasks run: its own functions, and those of the module
``beside`` in its directory, go there by value.  It prints one line of JSON at the end.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import beside  # type: ignore[import-not-found]  # written next to a copy of this file

import flintmq.spark
from flintmq import App
from flintmq.spark.session import spark_session


def main(namesrv: str, directory: str, master: str = "local[*]") -> None:
    settings = {
        "spark.cores.max": 2,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        # Begin when both executors are there.
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.sql.shuffle.partitions": 1,
        "spark.sql.warehouse.dir": directory,
    }
    spark = spark_session("on a cluster", master, **settings)
    told: dict[str, Any] = {"master": spark.sparkContext.master}

    reader = spark.read.format("rocketmq").options(namesrv=namesrv, subscribe="source")
    frame = reader.load()
    told["read"] = frame.count()
    told["partitions"] = frame.rdd.getNumPartitions()

    stream = spark.readStream.format("rocketmq").options(
        namesrv=namesrv, subscribe="source", startingOffsets="earliest", consumerGroup="streamers"
    )
    query = (
        stream.load()
        .select("body")
        .writeStream.format("rocketmq")
        .options(namesrv=namesrv, topic="copy", checkpointLocation=f"{directory}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    app = App("listeners", namesrv=namesrv, start_from="first")

    @app.listener("copy", batch_max=8)
    def note(messages: Any) -> None:
        where = os.getcwd()  # noqa: PTH109  # of its executor
        for message in messages:
            beside.write(directory, where, message.body.decode())

    run = flintmq.spark.run(app, spark, available_now=True)
    run.await_termination()
    told["heard"] = run.status().messages

    lines = Path(directory, "diary").read_text().splitlines()
    told["executors"] = dict(Counter(line.split()[0] for line in lines))
    told["bodies"] = sorted(line.split()[1] for line in lines)
    spark.stop()
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
