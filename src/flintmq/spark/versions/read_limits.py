"""Read limits and Trigger.AvailableNow of Python sources, which pyspark has since 4.2.

Older versions have neither the classes nor the calls.  There the classes are stand-ins, so that
readers are written once; `flintmq.spark.versions.stepping_reader` makes the calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
else:
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxBytes,
            ReadMaxRows,
            ReadMinRows,
            SupportsTriggerAvailableNow,
        )
    except ModuleNotFoundError:
        from dataclasses import dataclass

        class ReadLimit:
            """How much of a stream one micro-batch may read."""

        class ReadAllAvailable(ReadLimit):
            """All there is."""

        @dataclass(frozen=True)
        class ReadMaxRows(ReadLimit):
            """At most so many rows."""

            max_rows: int

        @dataclass(frozen=True)
        class ReadMaxBytes(ReadLimit):
            """At most about so many bytes."""

            max_bytes: int

        @dataclass(frozen=True)
        class ReadMinRows(ReadLimit):
            """At least so many rows, or wait."""

            min_rows: int

        class SupportsTriggerAvailableNow:
            """Readers that can stop at what is stored now."""


__all__ = [
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
]
