"""Lets Spark find the format "rocketmq" by itself: it looks for modules with such a name."""

from __future__ import annotations

from flintmq.spark.source.data_source import RocketMQDataSource as DefaultSource

__all__ = ["DefaultSource"]
