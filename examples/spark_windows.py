"""Orders in JSON, summed by minute: the sums as Parquet, and those above a limit as messages.

    python examples/spark_windows.py

You will see the sums of the minutes that are closed, one alert in a topic, and the order that is
no JSON set apart.  A minute is closed when an order comes that is two minutes later.  Needs
flintmq[spark], and flintmq[jre] where there is no Java.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from flintmq import EmbeddedBroker, Message, Producer
from flintmq.spark import decode, spark_session

SCHEMA = "customer STRING NOT NULL, amount DOUBLE NOT NULL, at TIMESTAMP NOT NULL"
AMOUNTS = [("ann", 60, "08:30:10"), ("ann", 70, "08:30:50"), ("bob", 5, "08:31:20")]
LATER, TOO_LATE = [("ann", 1, "08:40:00")], [("bob", 900, "08:30:30")]


if __name__ == "__main__":
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker())
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        spark = spark_session("windows", "local[2]", **{"spark.sql.session.timeZone": "UTC"})
        stack.callback(spark.stop)
        where = {"namesrv": broker.namesrv, "subscribe": "orders", "startingOffsets": "earliest"}
        orders = decode(spark.readStream.format("rocketmq").options(**where).load(), SCHEMA)
        fits = orders.where("decode_error IS NULL").withWatermark("at", "2 minutes")
        sums = fits.groupBy(f.window("at", "1 minute"), "customer").agg(
            f.sum("amount").alias("sum")
        )

        def save(minutes: DataFrame, batch: int) -> None:
            """Parquet gets a batch once, and the topic at least once."""
            minutes.write.mode("overwrite").parquet(f"{directory}/sums/batch={batch}")
            alerts = minutes.where("sum > 100").selectExpr("to_json(struct(customer, sum)) AS body")
            sink = alerts.write.format("rocketmq").options(namesrv=broker.namesrv, topic="alerts")
            sink.option("runId", f"alerts-{batch}").mode("append").save()

        for some in (AMOUNTS, LATER, TOO_LATE):
            with Producer("shop", namesrv=broker.namesrv) as producer:
                for who, amount, at in some:
                    text = f'{{"customer":"{who}","amount":{amount},"at":"2026-11-16T{at}Z"}}'
                    producer.send(Message("orders", text.encode()))
                producer.send(Message("orders", b"no order"))
            query = sums.writeStream.foreachBatch(save).trigger(availableNow=True)
            query.start(checkpointLocation=f"{directory}/checkpoint").awaitTermination()

        spark.read.parquet(f"{directory}/sums").orderBy("window", "customer").show(truncate=False)
        print("alerts:", [message.body.decode() for message in broker.messages("alerts")])
        table = spark.read.format("rocketmq").options(**where).load()
        print("set apart:", decode(table, SCHEMA).where("decode_error IS NOT NULL").count())
