"""A stream of Spark: messages in, messages out.

    python examples/spark_stream.py

You will see orders read as a stream and turned into bills, which go to another topic; then more
orders, and the stream going on where its checkpoint says.  The group "accounting" has no lag, for
every tool to see.  Needs flintmq[spark], and flintmq[jre] where there is no Java.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack

from pyspark.sql import SparkSession

from flintmq import Admin, EmbeddedBroker, Message, Producer
from flintmq.spark import spark_session


def send(address: str, start: int, stop: int) -> None:
    with Producer("shop", namesrv=address) as producer:
        producer.send_batch(
            Message("stream-orders", f"o-{n}".encode(), tags="paid") for n in range(start, stop)
        )


def run_to_the_end(spark: SparkSession, address: str, checkpoint: str) -> None:
    orders = (
        spark.readStream.format("rocketmq")
        .options(namesrv=address, subscribe="stream-orders", tags="paid")
        .options(consumerGroup="accounting", startingOffsets="earliest")
        .options(columns="message_id,body", maxOffsetsPerTrigger=100_000)
        .load()
    )
    bills = orders.selectExpr(
        "concat('bill of ', cast(body AS string)) AS body", "message_id AS keys"
    )
    sink = bills.writeStream.format("rocketmq").options(namesrv=address, topic="stream-bills")
    query = sink.trigger(availableNow=True).start(checkpointLocation=checkpoint)
    query.awaitTermination()


if __name__ == "__main__":
    with ExitStack() as stack:
        address = os.environ.get("NAMESRV_ADDR")
        address = address or stack.enter_context(EmbeddedBroker()).namesrv
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        spark = spark_session("stream", "local[2]", **{"spark.ui.showConsoleProgress": False})
        stack.callback(spark.stop)
        bills = spark.read.format("rocketmq").options(namesrv=address, subscribe="stream-bills")
        for start in (0, 1_000):
            send(address, start, start + 1_000)
            run_to_the_end(spark, address, f"{directory}/checkpoint")
            print(f"{start + 1_000} orders sent, and read to their end")
        print(f"bills: {bills.load().count()}")
        with Admin(namesrv=address) as admin:
            print(f"lag of the group: {admin.lag('accounting').lag}")
