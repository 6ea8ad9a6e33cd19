"""Listeners on Spark: the same App that runs on threads, in one group with those on threads.

    python examples/spark_listener.py

You will see 200 orders go through tasks of Spark, what became of each in a table, and the two
that failed come again to a consumer on threads.  Needs flintmq[spark], and flintmq[jre]
where there is no Java.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack

from flintmq import App, EmbeddedBroker, Message, Producer, ReceivedMessage, Retry
from flintmq.spark import run, spark_session

QUIET = {"spark.ui.showConsoleProgress": False, "spark.sql.shuffle.partitions": 1}

app = App("billing-on-spark", start_from="first", retry_max=3)


@app.listener("spark-orders", batch_max=16)
def bill(messages: tuple[ReceivedMessage, ...]) -> list[Retry | None]:
    """It travels to the executors with all that it uses."""
    return [Retry(delay_level=1) if message.body.endswith(b"00") else None for message in messages]


def consume_the_rest(address: str) -> None:
    """The same group, on threads: what Spark sent back comes here after a second."""
    rest = App("billing-on-spark", namesrv=address, start_from="first")
    seen: list[str] = []

    @rest.listener("spark-orders")
    def once_more(messages: tuple[ReceivedMessage, ...]) -> None:
        seen.extend(f"{each.body.decode()} (try {each.reconsume_times + 1})" for each in messages)
        if len(seen) >= 2:
            rest.stop()

    rest.run()
    print("on threads:", ", ".join(sorted(seen)))


if __name__ == "__main__":
    with ExitStack() as stack:
        address = os.environ.get("NAMESRV_ADDR")
        address = address or stack.enter_context(EmbeddedBroker()).namesrv
        table = stack.enter_context(tempfile.TemporaryDirectory()) + "/outcomes"
        with Producer("shop", namesrv=address) as producer:
            orders = (Message("spark-orders", f"o-{n}".encode()) for n in range(1, 201))
            producer.send_batch(orders)
        app.use(namesrv=address)
        spark = spark_session("listener", "local[2]", **QUIET)
        stack.callback(spark.stop)
        sink = {"format": "parquet", "path": table}
        run(app, spark, sink=sink, available_now=True).await_termination()
        spark.read.parquet(table).groupBy("outcome").count().orderBy("outcome").show()
        consume_the_rest(address)
