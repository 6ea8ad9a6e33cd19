"""Clicks as sessions: one ends when its user has been quiet for a minute, by a timer or a click.

    python examples/spark_sessions.py

You will see a row for each session that is over.  Needs flintmq[spark], pandas and protobuf.
"""

import warnings
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from flintmq import EmbeddedBroker, Message, Producer
from flintmq.spark import decode, spark_session

ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CLICKS = [("ann", "30:00"), ("ann", "30:40"), ("bob", "30:50"), ("ann", "32:00"), ("cyd", "35:00")]


class Sessions(StatefulProcessor):
    """The open session of one user: how many clicks it has, until when it waits."""

    def init(self, handle: Any) -> None:
        self._handle, self._open = handle, handle.getValueState("open", "n INT, until_ms LONG")

    def handleInputRows(self, key: Any, rows: Any, _timers: Any) -> Any:  # noqa: N802
        clicks, until_ms = self._open.get() or (0, 0)
        self._handle.deleteTimer(until_ms)
        for at_ms in sorted(int(row["at"].timestamp() * 1000) for row in rows):
            if clicks and at_ms >= until_ms:  # over, though its timer has not fired yet
                yield Row(user=key[0], clicks=clicks)
            clicks = clicks + 1 if at_ms < until_ms else 1
            until_ms = max(until_ms, at_ms + 60_000)
        self._open.update((clicks, until_ms))
        self._handle.registerTimer(until_ms)

    def handleExpiredTimer(self, key: Any, *_: Any, **_times: Any) -> Any:  # noqa: N802
        yield Row(user=key[0], clicks=self._open.get()[0])
        self._open.clear()


if __name__ == "__main__":
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas")  # 3.0
    with EmbeddedBroker() as broker, TemporaryDirectory() as to, spark_session("clicks") as spark:
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS)
        where = {"namesrv": broker.namesrv, "subscribe": "clicks", "startingOffsets": "earliest"}
        read = spark.readStream.format("rocketmq").options(**where).load()
        clicks = decode(read, "user STRING, at TIMESTAMP").where("decode_error IS NULL")
        users = clicks.withWatermark("at", "10 seconds").groupBy("user")
        out = users.transformWithState(Sessions(), "user STRING, clicks INT", "append", "eventTime")
        for some in (CLICKS[:3], CLICKS[3:]):
            texts = [f'{{"user":"{user}","at":"2026-11-16T08:{at}Z"}}' for user, at in some]
            with Producer("site", namesrv=broker.namesrv) as producer:
                producer.send_batch(Message("clicks", text.encode()) for text in texts)
            query = out.writeStream.trigger(availableNow=True).option("path", f"{to}/sessions")
            query.start(checkpointLocation=f"{to}/checkpoint").awaitTermination()
        spark.read.parquet(f"{to}/sessions").orderBy("user", "clicks").show()
