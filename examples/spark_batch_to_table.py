"""A topic as a table: read what it holds, or a part of it, and keep it as Parquet.

    python examples/spark_batch_to_table.py

You will see the first messages of a topic counted by tag, and a Parquet table that was made of
those with one of the tags.  Needs flintmq[spark], and flintmq[jre] where there is no Java.
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import ExitStack

from pyspark.sql import functions as f

from flintmq import EmbeddedBroker, Message, Producer
from flintmq.spark import spark_session

QUIET = {"spark.ui.showConsoleProgress": False, "spark.sql.shuffle.partitions": 1}
TAGS = ("paid", "refunded", "cancelled")


def send(address: str) -> None:
    with Producer("shop", namesrv=address) as producer:
        producer.send_batch(
            Message(
                "batch-orders", json.dumps({"id": n, "cents": n * 10}).encode(), tags=TAGS[n % 3]
            )
            for n in range(3_000)
        )


if __name__ == "__main__":
    with ExitStack() as stack:
        address = os.environ.get("NAMESRV_ADDR")
        address = address or stack.enter_context(EmbeddedBroker()).namesrv
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        spark = spark_session("batch", "local[2]", **QUIET)
        stack.callback(spark.stop)
        send(address)

        # Conditions on topic, queue, offset and time cut what is read in the first place.
        topic = spark.read.format("rocketmq").options(namesrv=address, subscribe="batch-orders")
        first = topic.load().where("queue_offset < 300")
        first.groupBy("tags").count().orderBy("tags").show()

        # The broker filters by tag; JSON is Spark's business.
        paid = topic.options(tags="paid", columns="body,store_time").load()
        order = f.from_json(f.col("body").cast("string"), "id long, cents long").alias("order")
        orders = paid.select(order, "store_time").select("order.*", "store_time")
        orders.write.parquet(f"{directory}/paid")

        table = spark.read.parquet(f"{directory}/paid")
        table.agg(f.count("*").alias("orders"), f.sum("cents").alias("cents")).show()
