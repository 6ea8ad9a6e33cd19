"""A lake of every format has each message once, takes new columns, and others can read it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import InvalidSetting
from flintmq.spark.pipelines.lake_formats import LakeFormat, lake_settings
from support.cli.serving import environment
from support.spark.lake_jars import lake_jars
from support.spark.support import create_topic

PROGRAM = Path(__file__).with_name("lake_program.py")
TIMEOUT_S = 600

pytestmark = [pytest.mark.heavy, pytest.mark.java, pytest.mark.timeout(TIMEOUT_S)]


def run(kind: LakeFormat, servers: EmbeddedBroker, topic: str, to: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), kind, servers.namesrv, topic, str(to), lake_jars(kind)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=environment(),
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return seen


def read_without_spark(kind: LakeFormat, to: Path) -> pa.Table:
    """The table as a library reads it that belongs to the format."""
    if kind is LakeFormat.DELTA:
        from deltalake import DeltaTable

        return pa.table(DeltaTable(str(to)).to_pyarrow_table())
    if kind is LakeFormat.ICEBERG:
        from pyiceberg.table import StaticTable

        newest = max((to / "metadata").glob("v*.metadata.json"), key=lambda p: int(p.stem[1:-9]))
        return StaticTable.from_metadata(newest.as_uri()).scan().to_arrow()
    import pyarrow.dataset as ds

    return ds.dataset(to, format="parquet", partitioning="hive").to_table(
        columns=["order", "amount", "body", "quarantined"]
    )


@pytest.mark.parametrize("kind", list(LakeFormat))
def test_a_lake_holds_each_message_once_and_others_can_read_it(
    kind: LakeFormat, broker: EmbeddedBroker, tmp_path: Path
) -> None:
    topic, to = create_topic(broker, f"lake-{kind}"), tmp_path / "lake"

    seen = run(kind, broker, topic, to)

    counts = {name: seen[name] for name in ("first", "again", "evolved", "after", "later")}
    assert counts == {"first": 8, "again": 8, "evolved": 9, "after": 9, "later": 10}
    assert seen["quarantined"] == 1
    assert seen["by_order"] == [[f"o-{n}", n / 2, "red" if n == 7 else None] for n in range(8)], (
        "a new column is null in older rows"
    )
    assert seen["bad"] == ["no order", "the body is no JSON object"]
    assert "would be" in seen["other"] or "knows nothing of batch" in seen["other"]
    assert "is string in the lake and would be bigint" in seen["type"]
    before, after = seen["compacted"]
    assert before > after > 0

    rows = read_without_spark(kind, to)
    with duckdb.connect() as connection:
        connection.register("lake", rows)
        sql = "SELECT count(*), sum(amount) FROM lake WHERE quarantined = 0"
        assert connection.execute(sql).fetchall() == [(9, 14.0)]
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    assert frame.filter(pl.col("quarantined") == 1)["body"].to_list() == [b"no order"]


@pytest.mark.parametrize("kind", [LakeFormat.DELTA, LakeFormat.ICEBERG])
def test_a_spark_without_the_format_is_refused_by_its_release(kind: LakeFormat) -> None:
    with pytest.raises(InvalidSetting, match=r"no release for Spark 9\.0\.1.*or write parquet"):
        lake_settings(kind, "9.0.1")
    assert lake_settings("parquet", "9.0.1") == {}
