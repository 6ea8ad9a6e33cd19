"""RocketMQ topics as Spark streams and tables, and listeners that run on Spark.

    import flintmq.spark

    flintmq.spark.register(spark)                       spark.read.format("rocketmq") from then on
    spark = flintmq.spark.spark_session("shop")         a session of our own, with Java found
    flintmq.spark.read(spark, "orders")                 a frame, also with pyspark 3.5
    flintmq.spark.for_each_batch(spark, "orders", …)    a loop of batches, also with pyspark 3.5
    flintmq.spark.run(app, spark)                       the listeners of an app
    flintmq.spark.decode(frame, "order STRING")         bodies as columns
    flintmq.spark.quarantine(save, "bad")               what could not be decoded, apart
    flintmq.spark.lake(spark, "orders", "lake")         a topic as a table, each message once
    flintmq.spark.topic_report(spark, "orders")         rates, sizes and latencies over time
    flintmq.spark.dead_letters(spark, "billing")        what a group gave up on, as a frame
    flintmq.spark.dead_letter_report(spark, "billing")  the same, counted
    flintmq.spark.plan_replay(spark, "billing").run()   and sent again
    flintmq.spark.watch_queries(spark, metrics)         metrics of streams

Where flintmq is installed with pip, Spark finds the format without `register`.  What is named here
is loaded when it is first used.

    options ► source ► reading ► arrow ► rows        spark.read, spark.readStream
                 │        └─► tasks ► outcomes        flintmq.spark.run: listeners in tasks
                 └─► offsets of the group
    rows ► sink ► messages                           df.write, df.writeStream
    rows ► decode ► columns, or a reason             flintmq.spark.decode

`listeners` is the driver of a run: it plans micro-batches and is the member of the group; `tasks`
is what runs in tasks.  `frames` are topics without a data source, `versions` what differs between
versions of pyspark.  `watching` reads what Spark reports of queries.  `pipelines` are jobs built on
these: lake, reports, replay.  `environment` finds Java and pyspark; `session` makes a session.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flintmq.spark.bodies.decode_frame import decode
    from flintmq.spark.bodies.quarantine import quarantine
    from flintmq.spark.frames.batch_loop import for_each_batch
    from flintmq.spark.frames.frame_read import read
    from flintmq.spark.listeners.listener_run import run
    from flintmq.spark.pipelines.dead_letter_replay import plan_replay
    from flintmq.spark.pipelines.dead_letter_report import dead_letter_report, dead_letters
    from flintmq.spark.pipelines.lake_compaction import compact
    from flintmq.spark.pipelines.lake_formats import lake_settings
    from flintmq.spark.pipelines.lake_query import lake
    from flintmq.spark.pipelines.topic_report import topic_report
    from flintmq.spark.session import spark_session
    from flintmq.spark.sink.drop_repeats import DropRepeats, drop_repeats
    from flintmq.spark.watching.query_metrics import watch_queries

_PLACES = {
    "DropRepeats": "flintmq.spark.sink.drop_repeats",
    "compact": "flintmq.spark.pipelines.lake_compaction",
    "dead_letter_report": "flintmq.spark.pipelines.dead_letter_report",
    "dead_letters": "flintmq.spark.pipelines.dead_letter_report",
    "decode": "flintmq.spark.bodies.decode_frame",
    "drop_repeats": "flintmq.spark.sink.drop_repeats",
    "for_each_batch": "flintmq.spark.frames.batch_loop",
    "lake": "flintmq.spark.pipelines.lake_query",
    "lake_settings": "flintmq.spark.pipelines.lake_formats",
    "plan_replay": "flintmq.spark.pipelines.dead_letter_replay",
    "quarantine": "flintmq.spark.bodies.quarantine",
    "read": "flintmq.spark.frames.frame_read",
    "run": "flintmq.spark.listeners.listener_run",
    "spark_session": "flintmq.spark.session",
    "topic_report": "flintmq.spark.pipelines.topic_report",
    "watch_queries": "flintmq.spark.watching.query_metrics",
}

_WITHOUT_SPARK = frozenset({"DropRepeats"})
"""For listeners on threads, where no Spark is installed."""

_WITHOUT_SOURCES = frozenset({"for_each_batch", "read", "spark_session"})
"""For versions of pyspark that have no sources in Python."""

__all__ = [
    "DropRepeats",
    "compact",
    "dead_letter_report",
    "dead_letters",
    "decode",
    "drop_repeats",
    "for_each_batch",
    "lake",
    "lake_settings",
    "plan_replay",
    "quarantine",
    "read",
    "register",
    "run",
    "spark_session",
    "topic_report",
    "watch_queries",
]


def register(spark: SparkSession) -> None:
    """Make the format ``rocketmq`` known to a session, also through Spark Connect."""
    from flintmq.spark.environment.requirements import require_pyspark

    require_pyspark(what="the format rocketmq")
    from flintmq.spark.source.batch_end_listener import report_batch_ends
    from flintmq.spark.source.data_source import RocketMQDataSource

    spark.dataSource.register(RocketMQDataSource)
    report_batch_ends(spark)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name not in _WITHOUT_SPARK:
        from flintmq.spark.environment.requirements import OLDEST, SOURCES_SINCE, require_pyspark

        oldest = OLDEST if name in _WITHOUT_SOURCES else SOURCES_SINCE
        require_pyspark(oldest, f"flintmq.spark.{name}")
    return getattr(importlib.import_module(_PLACES[name]), name)
