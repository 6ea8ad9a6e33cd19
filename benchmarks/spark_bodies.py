"""What it costs to make columns of bodies on Spark, by the language of the schema.

    python -m benchmarks.spark_bodies

The same order in JSON, Avro and Protobuf, from a cached frame into nothing, so that a source has no
part in it.  "by Python" decodes the same JSON with json.loads in an Arrow UDF: what from_json in
the JVM is chosen over.  Rows a second on two cores, the median of the rounds; the row without a
schema is what the frame alone takes.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from flintmq.spark import decode, spark_session
from support.spark.schemas import AVRO, PROTOBUF_MESSAGE, avro_body, descriptor_set, protobuf_body

ROWS = 1_000_000
ROUNDS = 3

JSON_BODY = json.dumps(
    {
        "order": "o-1",
        "amount": 1.5,
        "state": "PAID",
        "paid_at": "2026-11-16T08:30:00Z",
        "items": [{"name": "tea", "count": 2}],
        "labels": {"n": 7},
    }
).encode()
DDL = (
    "order STRING, amount DOUBLE, state STRING, paid_at TIMESTAMP, "
    "items ARRAY<STRUCT<name: STRING, count: INT>>, labels MAP<STRING, BIGINT>"
)


def bodies(spark: SparkSession, body: bytes) -> DataFrame:
    frame = spark.range(0, ROWS, 1, 2).select(f.lit(body).alias("body"))
    frame = frame.cache()
    frame.count()
    return frame


def by_python(frame: DataFrame) -> DataFrame:
    """The same columns by json.loads, one body after the other."""
    from pyspark.sql.pandas.functions import arrow_udf

    def read(column: pa.Array) -> pa.Array:
        found = [json.loads(body) for body in column.to_pylist()]
        names = ("order", "amount", "state")
        return pa.array([{name: each[name] for name in names} for each in found])

    make: Any = arrow_udf
    return frame.select(make(read, "order STRING, amount DOUBLE, state STRING")("body"))


def rate(frame: DataFrame) -> float:
    times_s = []
    for _ in range(ROUNDS + 1):
        started_s = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        times_s.append(time.perf_counter() - started_s)
    return ROWS / statistics.median(times_s[1:])  # the first one warms up


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        descriptors = Path(scratch, "shop.desc")
        descriptors.write_bytes(descriptor_set())
        spark = spark_session(
            "bodies",
            "local[2]",
            **{"spark.driver.memory": "3g", "spark.ui.showConsoleProgress": False},
        )
        text, avro, protobuf = (
            bodies(spark, body) for body in (JSON_BODY, avro_body("o-1"), protobuf_body("o-1"))
        )
        work = {
            "no schema": text,
            "JSON by DDL": decode(text, DDL),
            "JSON by Python, 3 of the columns": by_python(text),
            "Avro": decode(avro, AVRO),
            "Protobuf": decode(protobuf, f"{descriptors}:{PROTOBUF_MESSAGE}"),
        }
        for name, frame in work.items():
            print(f"{name:36} {rate(frame):>12,.0f} rows/s", flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
