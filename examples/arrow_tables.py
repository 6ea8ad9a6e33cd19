"""A topic as an Arrow table: for pandas, Polars and DuckDB, without Spark and without Java.

    pip install 'flintmq[arrow]' duckdb
    python examples/arrow_tables.py

You will see orders counted by tag, summed up by DuckDB from their JSON bodies, written to Parquet
batch by batch, and read from the files of the broker.  With NAMESRV_ADDR set it works on your
cluster, without the last step.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from flintmq import EmbeddedBroker, Message, Producer
from flintmq.arrow import read_store, read_topic, read_topic_batches

TOPIC = f"orders-{time.time_ns()}"


def tables_of(address: str, directory: Path) -> None:
    orders = read_topic(TOPIC, namesrv=address)
    print(f"{orders.num_rows} orders:", orders["tags"].value_counts().to_pylist())

    query = (
        "SELECT tags, sum((decode(body)::JSON->>'amount')::INT) FROM orders GROUP BY 1 ORDER BY 1"
    )
    print("amounts:", duckdb.execute(query).fetchall())

    file = directory / "orders.parquet"
    reader = read_topic_batches(TOPIC, namesrv=address, columns=["body", "store_time"])
    with reader, pq.ParquetWriter(file, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
    print("in Parquet:", pq.read_metadata(file).num_rows)


if __name__ == "__main__":
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        address = os.environ.get("NAMESRV_ADDR")
        own = None if address else stack.enter_context(EmbeddedBroker(directory / "store"))
        address = own.namesrv if own else address or ""
        with Producer("shop", namesrv=address) as producer:
            for number in range(90):
                body = b'{"amount": %d}' % number
                producer.send(Message(TOPIC, body, tags="open" if number % 3 else "paid"))
        tables_of(address, directory)
        if own is not None:
            own.stop()
            print("in the files:", read_store(directory / "store", topics=[TOPIC]).num_rows)
