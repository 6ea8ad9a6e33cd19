"""Topics and store directories as Arrow tables, without Spark and without a JVM.

    from flintmq.arrow import read_topic

    orders = read_topic("orders", namesrv="127.0.0.1:9876", start="2026-11-17T08:00:00+01:00")

    orders.to_pandas()                                              pandas
    polars.from_arrow(orders)                                       Polars
    duckdb.sql("SELECT tags, count(*) FROM orders GROUP BY 1")      DuckDB

    read_topic           a topic, or a time span of it, as one table with limits on its size
    read_topic_batches   the same as a stream of record batches, for more than fits into memory
    read_store           all topics of a store directory, without a broker
    message_table        messages that a consumer received, as a table

It needs pyarrow: ``pip install 'flintmq[arrow]'``.  What is named here is loaded when it is first
used.  The Spark source makes its rows with the same code:

    reading ► pages of records ► page_rows ► columns ► record batches ► topic_tables

`reading` reads records from a cluster or from a store directory, page by page; it needs no
pyarrow.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING

from flintmq.errors import MissingExtra

if TYPE_CHECKING:
    from flintmq.arrow.message_tables import message_table
    from flintmq.arrow.topic_tables import read_store, read_topic, read_topic_batches

__all__ = ["message_table", "read_store", "read_topic", "read_topic_batches"]

_WHERE = {
    "message_table": "flintmq.arrow.message_tables",
    "read_store": "flintmq.arrow.topic_tables",
    "read_topic": "flintmq.arrow.topic_tables",
    "read_topic_batches": "flintmq.arrow.topic_tables",
}


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if find_spec("pyarrow") is None:
        raise MissingExtra("pyarrow", "arrow")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
