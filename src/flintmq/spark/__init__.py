"""RocketMQ topics as Spark streams and tables, and listeners that run on Spark.

    import flintmq.spark

    flintmq.spark.register(spark)                     spark.read.format("rocketmq") from then on
    spark = flintmq.spark.spark_session("shop")       a session of our own, with Java found
    flintmq.spark.run(app, spark)                     the listeners of an app

Where flintmq is installed with pip, Spark finds the format without `register`.  What is named here
is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PLACES = {"run": "flintmq.spark.run_app", "spark_session": "flintmq.spark.session"}

__all__ = ["register", "run", "spark_session"]


def register(spark: SparkSession) -> None:
    """Make the format ``rocketmq`` known to a session, also through Spark Connect."""
    from flintmq.spark.needs import require_pyspark

    require_pyspark()
    from flintmq.spark.source import RocketMQDataSource

    spark.dataSource.register(RocketMQDataSource)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from flintmq.spark.needs import require_pyspark

    require_pyspark()
    return getattr(importlib.import_module(_PLACES[name]), name)
