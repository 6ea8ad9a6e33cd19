"""Idempotence on Spark: orders that are sent twice are billed once, by keys in a SQLite file.

    python examples/spark_idempotent.py

You will see 20 messages consumed and 10 orders billed.  All tasks of one machine share the file;
on a cluster use RedisKeys or SqlKeys, which every executor can reach.  Needs flintmq[spark], and
flintmq[jre] where there is no Java.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

from flintmq import (
    App,
    EmbeddedBroker,
    Message,
    Producer,
    ReceivedMessage,
    SqliteKeys,
    idempotent,
)
from flintmq.spark import run, spark_session


def billing(address: str, directory: str) -> App:
    """The store travels to the tasks with the listener, and is opened there."""
    app = App("billing-once", namesrv=address, start_from="first")
    seen, ledger = SqliteKeys(f"{directory}/seen.db"), f"{directory}/ledger"

    @app.listener("once-orders", batch_max=4)
    @idempotent(seen, scope="billing-once", key=lambda message: message.keys[0])
    def bill(messages: tuple[ReceivedMessage, ...]) -> None:
        with Path(ledger).open("a") as file:
            file.writelines(f"{message.keys[0]}\n" for message in messages)

    return app


if __name__ == "__main__":
    with ExitStack() as stack:
        address = os.environ.get("NAMESRV_ADDR")
        address = address or stack.enter_context(EmbeddedBroker()).namesrv
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        with Producer("shop", namesrv=address) as producer:
            for order in [f"o-{number}" for number in range(10)] * 2:
                producer.send(Message("once-orders", b"1 pizza", keys=[order]), sharding_key=order)
        spark = spark_session("idempotent", "local[2]", **{"spark.ui.showConsoleProgress": False})
        stack.callback(spark.stop)
        done = run(billing(address, directory), spark, available_now=True)
        done.await_termination()
        billed = Path(directory, "ledger").read_text().split()
        print(f"{done.status().messages} messages, {len(billed)} orders billed: {sorted(billed)}")
