"""Orders joined with their payments, both streams, within ten minutes of each other.

    python examples/spark_join.py

You will see each order with the payment that belongs to it, whichever came first, and the order
that nobody paid, once it is too late for that.  Needs flintmq[spark], and flintmq[jre] where there
is no Java.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from flintmq import EmbeddedBroker, Message, Producer
from flintmq.spark import decode, spark_session

ORDERS = [("o-1", "08:30:00"), ("o-2", "08:31:00"), ("o-3", "08:32:00"), ("o-9", "09:30:00")]
PAYMENTS = [("o-2", "08:30:30"), ("o-1", "08:39:00"), ("o-3", "08:50:00"), ("o-9", "09:30:30")]


def stream(spark: SparkSession, address: str, topic: str, name: str) -> DataFrame:
    """A topic of JSON as columns named after it, with the time until which it may be late."""
    reader = spark.readStream.format("rocketmq").options(namesrv=address, subscribe=topic)
    frame = decode(reader.option("startingOffsets", "earliest").load(), "id STRING, at TIMESTAMP")
    rows = frame.where("decode_error IS NULL").selectExpr(f"id AS {name}", f"at AS {name}_at")
    return rows.withWatermark(f"{name}_at", "5 minutes")


if __name__ == "__main__":
    with ExitStack() as stack:
        address = stack.enter_context(EmbeddedBroker()).namesrv
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        spark = spark_session("join", "local[2]", **{"spark.sql.session.timeZone": "UTC"})
        stack.callback(spark.stop)
        with Producer("shop", namesrv=address) as producer:
            for topic, rows in (("orders", ORDERS), ("payments", PAYMENTS)):
                for number, at in rows:
                    text = f'{{"id":"{number}","at":"2026-11-16T{at}Z"}}'
                    producer.send(Message(topic, text.encode()))
        orders = stream(spark, address, "orders", "ordered")
        payments = stream(spark, address, "payments", "paid")
        ten = "INTERVAL 10 MINUTES"
        is_near = f"paid_at BETWEEN ordered_at - {ten} AND ordered_at + {ten}"
        joined = orders.join(payments, f.expr(f"ordered = paid AND {is_near}"), "leftOuter")
        query = joined.writeStream.format("parquet").option("path", f"{directory}/joined")
        for _ in range(2):  # the second time, what is too late is known
            run = query.trigger(availableNow=True).start(checkpointLocation=f"{directory}/c")
            run.awaitTermination()
        spark.read.parquet(f"{directory}/joined").orderBy("ordered").show()
