"""The program that `test_stop_signals` stops: a user's own, with listeners on Spark.

    python stopped_program.py NAMESRV DIARY

It needs nothing but flintmq, and sets up neither logging nor signals.
"""

from __future__ import annotations

import sys
import tempfile
import time
from typing import Any

import flintmq.spark
from flintmq import App
from flintmq.spark import spark_session

GROUP, TOPIC = "stopped-group", "stopped-topic"
SLOW_S = 0.05
"""A call of the listener: a signal falls into a micro-batch that runs."""


def main(namesrv: str, diary: str, scratch: str) -> None:
    app = App(GROUP, namesrv=namesrv, start_from="first")

    @app.listener(TOPIC)
    def write_down(messages: Any) -> None:
        time.sleep(SLOW_S)
        with open(diary, "a") as file:  # noqa: PTH123  # it runs elsewhere
            file.write("".join(f"{message.body.decode()}\n" for message in messages))

    settings = {
        "spark.driver.memory": "1g",
        "spark.local.dir": scratch,
        "spark.sql.warehouse.dir": scratch,
    }
    spark = spark_session("stopped", "local[2]", **settings)
    flintmq.spark.run(app, spark, messages_max=200).await_termination()
    print("after the run", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="flintmq-stopped-", ignore_cleanup_errors=True) as home:
        main(sys.argv[1], sys.argv[2], home)
