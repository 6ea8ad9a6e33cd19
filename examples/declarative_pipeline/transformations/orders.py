"""The topic ``orders`` as a streaming table, and its large orders in the topic ``large-orders``."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
spark = SparkSession.active()


@dp.table
def orders() -> DataFrame:
    """Each message once: the pipeline keeps the checkpoint."""
    rows = (
        spark.readStream.format("rocketmq")
        .options(namesrv=NAMESRV, subscribe="orders", startingOffsets="earliest")
        .options(columns="queue_id,queue_offset,body", maxOffsetsPerTrigger="100000")
        .load()
    )
    order = f.from_json(f.col("body").cast("string"), "id STRING, amount DOUBLE")
    return rows.select("queue_id", "queue_offset", order.alias("order")).select(
        "queue_id", "queue_offset", "order.*"
    )


dp.create_sink("large_orders", "rocketmq", {"namesrv": NAMESRV, "topic": "large-orders"})


@dp.append_flow(target="large_orders")
def large() -> DataFrame:
    """From the table into the topic: at least once, as every sink into a topic."""
    large_ones = spark.readStream.table("orders").where("amount > 100")
    return large_ones.select(f.to_json(f.struct("id", "amount")).alias("body"))
