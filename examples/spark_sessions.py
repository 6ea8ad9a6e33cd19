"""Clicks as sessions: one ends when its user has been quiet for a minute, by a timer.

    python examples/spark_sessions.py

You will see a row for each session that is over.  Needs flintmq[spark], pandas and protobuf.
"""

import tempfile
import warnings
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from flintmq import EmbeddedBroker, Message, Producer
from flintmq.spark import decode, spark_session

ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CLICKS = [("ann", "08:30:00"), ("ann", "08:30:40"), ("bob", "08:30:50"), ("cyd", "08:35:00")]


class Sessions(StatefulProcessor):
    """The open session of one user: how many clicks it has, until when it waits."""

    def init(self, handle: Any) -> None:
        self._handle, self._clicks = handle, handle.getValueState("clicks", "n INT")

    def handleInputRows(self, _key: Any, rows: Any, _timers: Any) -> Any:  # noqa: N802
        times_ms = [int(row["at"].timestamp() * 1000) for row in rows]
        self._clicks.update(((self._clicks.get() or (0,))[0] + len(times_ms),))
        for timer_ms in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer_ms)
        self._handle.registerTimer(max(times_ms) + 60_000)
        yield from ()

    def handleExpiredTimer(self, key: Any, *_: Any, **_times: Any) -> Any:  # noqa: N802
        yield Row(user=key[0], clicks=self._clicks.get()[0])
        self._clicks.clear()


if __name__ == "__main__":
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")  # 3.0
    with EmbeddedBroker() as broker, tempfile.TemporaryDirectory() as directory:
        spark = spark_session("sessions", "local[2]")
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS)
        where = {"namesrv": broker.namesrv, "subscribe": "clicks", "startingOffsets": "earliest"}
        read = spark.readStream.format("rocketmq").options(**where).load()
        clicks = decode(read, "user STRING, at TIMESTAMP").where("decode_error IS NULL")
        users = clicks.withWatermark("at", "10 seconds").groupBy("user")
        columns = "user STRING, clicks INT"
        made = users.transformWithState(Sessions(), columns, "append", "eventTime")
        for some in (CLICKS[:3], CLICKS[3:]):
            texts = [f'{{"user":"{user}","at":"2026-11-16T{at}Z"}}' for user, at in some]
            with Producer("site", namesrv=broker.namesrv) as producer:
                producer.send_batch(Message("clicks", text.encode()) for text in texts)
            query = made.writeStream.trigger(availableNow=True).option("path", f"{directory}/s")
            query.start(checkpointLocation=f"{directory}/checkpoint").awaitTermination()
        spark.read.parquet(f"{directory}/s").orderBy("user").show()
        spark.stop()
