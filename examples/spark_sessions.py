"""Clicks as sessions: one ends when its user has been quiet for a minute, by a timer.

    python examples/spark_sessions.py

You will see a row for each session that is over: who, and how many clicks.  Needs flintmq[spark]
and protobuf, and flintmq[jre] where there is no Java.
"""

import tempfile
from contextlib import ExitStack
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from flintmq import EmbeddedBroker, Message, Producer
from flintmq.spark import decode, spark_session

ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CLICKS = [("ann", "08:30:00"), ("ann", "08:30:40"), ("bob", "08:30:50"), ("ann", "08:35:00")]
QUIET_MS = 60_000


class Sessions(StatefulProcessor):
    """The open session of one user: how many clicks it has, until when it waits."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle, self._clicks = handle, handle.getValueState("clicks", "n INT")

    def handleInputRows(self, _key: Any, rows: Any, _timers: Any) -> Any:  # noqa: N802
        times_ms = [int(row["at"].timestamp() * 1000) for row in rows]
        before = self._clicks.get()[0] if self._clicks.exists() else 0
        self._clicks.update((before + len(times_ms),))
        for timer_ms in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer_ms)
        self._handle.registerTimer(max(times_ms) + QUIET_MS)
        yield from ()

    def handleExpiredTimer(self, key: Any, _timers: Any, _expired: Any) -> Any:  # noqa: N802
        (count,) = self._clicks.get()
        self._clicks.clear()
        yield Row(user=key[0], clicks=count)


if __name__ == "__main__":
    with ExitStack() as stack:
        address = stack.enter_context(EmbeddedBroker()).namesrv
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        spark = spark_session("sessions", "local[2]")
        stack.callback(spark.stop)
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS)
        where = {"namesrv": address, "subscribe": "clicks", "startingOffsets": "earliest"}
        read = spark.readStream.format("rocketmq").options(**where, maxOffsetsPerTrigger="3").load()
        clicks = decode(read, "user STRING, at TIMESTAMP").where("decode_error IS NULL")
        by_user = clicks.withWatermark("at", "10 seconds").groupBy("user")
        told = "user STRING, clicks INT"
        sessions = by_user.transformWithState(Sessions(), told, "append", "eventTime")
        with Producer("site", namesrv=address) as producer:
            for user, at in CLICKS:
                text = f'{{"user":"{user}","at":"2026-11-16T{at}Z"}}'
                producer.send(Message("clicks", text.encode()))
        query = sessions.writeStream.trigger(availableNow=True).option("path", f"{directory}/s")
        query.start(checkpointLocation=f"{directory}/checkpoint").awaitTermination()
        spark.read.parquet(f"{directory}/s").orderBy("user").show()
