"""The consumed orders as a Parquet table: what the topic holds, beside what became of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flintmq.cli.demo.attempts import RUN_BY
from flintmq.cli.demo.orders import ORDERS
from flintmq.cli.demo.tally import SPARK, THREADS
from flintmq.model.message import ReceivedMessage
from flintmq.spark.listeners.outcome_rows import OutcomeKind

SCHEMA: Final = pa.schema(
    [
        pa.field("order", pa.string()),
        pa.field("customer", pa.string()),
        pa.field("status", pa.string()),
        pa.field("cents", pa.int64()),
        pa.field("tries", pa.int32()),
        pa.field("consumed_by", pa.string()),
        pa.field("consumed_at", pa.timestamp("us", tz="UTC")),
        pa.field("message_id", pa.string()),
    ]
)


def write_orders(stored: Iterable[ReceivedMessage], attempts: Path, path: Path) -> pa.Table:
    """Join the messages of the topic with the attempts; a row for each consumed order."""
    first: dict[str, dict[str, Any]] = {}
    rows = pq.read_table(attempts, filters=pc.field("topic") == ORDERS).sort_by("started_time")
    for row in rows.to_pylist():
        if row["outcome"] == OutcomeKind.CONSUMED:
            first.setdefault(row["message_id"], row)
    found = []
    for message in {each.message_id: each for each in stored}.values():
        row = first.get(message.message_id)
        if row is not None:
            found.append(
                {
                    **json.loads(message.body),
                    "status": message.tags,
                    "tries": row["reconsume_times"] + 1,
                    "consumed_by": row[RUN_BY],
                    "consumed_at": row["started_time"],
                    "message_id": message.message_id,
                }
            )
    table = pa.Table.from_pylist(found, SCHEMA).sort_by("order")
    path.mkdir()
    pq.write_table(table, path / "part-0.parquet")
    return pq.read_table(path)


@dataclass(frozen=True, slots=True)
class Line:
    """The orders of one status."""

    status: str
    orders: int
    cents: int
    at_once: int
    """Billed at the first try."""
    later: int
    by_spark: int
    by_threads: int


def lines_of(table: pa.Table) -> Iterator[Line]:
    """The table by status, for people."""
    for status in sorted(set(table.column("status").to_pylist())):
        some = table.filter(pc.equal(table.column("status"), status))
        by = some.column("consumed_by").to_pylist()
        at_once = some.column("tries").to_pylist().count(1)
        yield Line(
            status,
            some.num_rows,
            sum(some.column("cents").to_pylist()),
            at_once,
            some.num_rows - at_once,
            by.count(SPARK),
            by.count(THREADS),
        )
