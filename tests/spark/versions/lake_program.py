"""A lake from its first batch to its compaction, for `test_lake_formats`, in a Spark of its own.

    python lake_program.py FORMAT NAMESRV TOPIC DIRECTORY JARS

It prints what was seen, as JSON in the last line.  Jars and extensions belong to a session from
its start, so this cannot be done in the session of the other tests.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import flintmq.spark
from flintmq import Message, Producer, QueueRef
from flintmq.errors import InvalidSetting
from flintmq.spark.environment.requirements import has_read_limits
from flintmq.spark.pipelines.lake_formats import JARS, JARS_PACKAGES, LakeFormat, LakeTable

FIRST = "order STRING NOT NULL, amount DOUBLE"
SECOND = "order STRING NOT NULL, amount DOUBLE, colour STRING"
BATCH = 3
BROKER = "broker-a"


def send(namesrv: str, topic: str, *bodies: str) -> None:
    with Producer("lakes", namesrv=namesrv) as producer:
        messages = [Message(topic, body.encode()) for body in bodies]
        producer.send_batch(messages, queue=QueueRef(topic, BROKER, 0))


def spark_for(kind: str, scratch: str, jars: str) -> SparkSession:
    settings = flintmq.spark.lake_settings(kind)
    settings.pop(JARS_PACKAGES, None)
    if jars:
        settings[JARS] = jars
    return flintmq.spark.spark_session(
        "lake",
        "local[2]",
        **{
            "spark.driver.memory": "1g",
            "spark.local.dir": scratch,
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.warehouse.dir": scratch,
            "spark.ui.showConsoleProgress": False,
            "spark.databricks.delta.snapshotPartitions": 2,
            **settings,
        },
    )


def forget_newest(directory: Path) -> None:
    newest = max(int(path.name) for path in directory.iterdir() if path.name.isdecimal())
    (directory / str(newest)).unlink()
    (directory / f".{newest}.crc").unlink(missing_ok=True)


def scenario(kind: str, namesrv: str, topic: str, to: Path, jars: str, scratch: str) -> Any:
    spark = spark_for(kind, scratch, jars)
    options: dict[str, Any] = {"namesrv": namesrv, "format": kind}
    if has_read_limits():  # else what is there is one batch
        options["maxOffsetsPerTrigger"] = BATCH
    seen: dict[str, Any] = {}

    def write(schema: str, **more: str) -> int:
        written = flintmq.spark.lake(
            spark, topic, str(to), schema=schema, until_now=True, **{**options, **more}
        )
        written.await_termination()
        return written.status().quarantined

    def rows() -> int:
        return table.read().count()

    orders = [json.dumps({"order": f"o-{n}", "amount": n / 2}) for n in range(7)]
    send(namesrv, topic, *orders, "no order")
    seen["quarantined"] = write(FIRST)
    table = LakeTable(spark, LakeFormat(kind), to.as_uri())
    seen["first"] = rows()
    forget_newest(to / "_checkpoint" / "commits")
    write(FIRST)
    seen["again"] = rows()
    send(namesrv, topic, '{"order":"o-7","amount":3.5,"colour":"red"}')
    write(SECOND)
    seen["evolved"] = rows()
    write(FIRST)
    for name, more in (("other", {"checkpoint": scratch + "/new"}), ("type", {})):
        try:
            write("order BIGINT" if name == "type" else SECOND, **more)
        except InvalidSetting as error:
            seen[name] = str(error)
    done = flintmq.spark.compact(spark, str(to))
    seen["compacted"] = [done.files_before, done.files_after]
    seen["after"] = rows()
    seen["by_order"] = sorted(
        [row.order, row.amount, row.colour]
        for row in table.read().where("quarantined = 0").collect()
    )
    (bad,) = table.read().where("quarantined = 1").collect()
    seen["bad"] = [bytes(bad.body).decode(), bad.decode_error]
    send(namesrv, topic, '{"order":"o-8"}')
    write(SECOND)
    seen["later"] = rows()
    spark.stop()
    return seen


if __name__ == "__main__":
    given, servers, name, directory, jar_list = sys.argv[1:]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        print(json.dumps(scenario(given, servers, name, Path(directory), jar_list, home)))
