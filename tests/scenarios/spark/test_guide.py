"""What README and the Spark guide show runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from flintmq import Message
from flintmq.embedded.broker import EmbeddedBroker

ROOT = Path(__file__).parents[3]
NAME_SERVER = "127.0.0.1:9876"


def blocks(page: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@pytest.fixture
def orders(own_broker: EmbeddedBroker) -> EmbeddedBroker:
    with own_broker.producer("shop") as producer:
        for number in range(10):
            tags = "paid" if number % 2 else "cancelled"
            producer.send(Message("orders", b"o-%d" % number, tags=tags))
        producer.send(Message("videos", b"v-1"))
    return own_broker


def test_the_stream_of_the_readme_writes_its_files(
    spark: SparkSession,
    orders: EmbeddedBroker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (block,) = (each for each in blocks("README.md") if "spark_session" in each)
    block = block.replace(NAME_SERVER, orders.namesrv)
    for name in ("orders.parquet", "orders.checkpoint"):
        block = block.replace(name, str(tmp_path / name))

    exec(compile(block, "README.md", "exec"), {})

    assert "5 orders" in capsys.readouterr().out
    assert orders.lag("report") == 0


def test_the_guide_runs_from_its_first_line_to_its_last(
    spark: SparkSession, orders: EmbeddedBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {}

    for block in blocks("docs/spark.md"):
        block = block.replace(NAME_SERVER, orders.namesrv)
        block = block.replace("/data/store", str(orders.directory))
        exec(compile(block.replace("/data/", f"{tmp_path}/"), "spark.md", "exec"), names)

    shown = capsys.readouterr().out
    assert "|keys|" in shown, "the table of the first read"
    assert "|consumed|   10|" in shown, "what became of the orders"
    assert orders.lag("transcode") == 0, "what was popped is acknowledged"
    assert names["copy"].count() == 10
    assert spark.read.parquet(str(tmp_path / "orders")).count() == 5
    assert orders.lag("billing") == 0
    assert "flintmq.errors.NoRoute: no route to topic 'ordrs'" in shown
    assert "|2026-11-16 08:30:00|ann     |200.0|2       |" in shown, "the sums of a closed window"
    assert "|2026-11-16 08:40:00|" not in shown, "the last window is still open"
    assert spark.read.parquet(str(tmp_path / "payments")).count() == 4
    (large,) = orders.messages("large-payments")
    assert (large.body, large.tags, large.keys) == (
        b'{"order":"o-1","amount":120.0}',
        "large",
        ("o-1",),
    )
