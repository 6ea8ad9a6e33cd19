"""A pipeline of Spark has a topic as a streaming table, and a flow into a topic."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.errors import PySparkImportError

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.spark.environment.java import use_java
from support.client.support import stored
from support.spark.support import create_topic, send

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(900), pytest.mark.java]

EXAMPLE = Path(__file__).parents[3] / "examples" / "declarative_pipeline"
COMMAND = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"
RUN_S = 600.0


def test_large_orders_go_from_a_topic_through_a_table_into_a_topic(tmp_path: Path) -> None:
    try:
        importlib.import_module("pyspark.sql.connect")
    except PySparkImportError as error:
        pytest.skip(f"pipelines run through Spark Connect: {error}")
    use_java()
    project = shutil.copytree(EXAMPLE, tmp_path / "project")
    spec = project / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("/tmp/shop-pipeline", f"{tmp_path}/storage"))
    orders = [json.dumps({"id": f"o-{n}", "amount": n * 10.0}) for n in range(20)]
    with EmbeddedBroker() as servers:
        for topic in ("orders", "large-orders"):
            create_topic(servers, topic, 2)
        send(servers, "orders", orders, queue_id=0)
        first = run(project, servers.namesrv)
        send(servers, "orders", [json.dumps({"id": "late", "amount": 999.0})], queue_id=1)
        second = run(project, servers.namesrv)
        large = sorted(json.loads(m.body)["id"] for m in stored(servers, "large-orders"))

    assert "COMPLETED" in first, first[-8_000:]
    assert "COMPLETED" in second, second[-8_000:]
    assert large == sorted([*(f"o-{n}" for n in range(11, 20)), "late"]), "each once"


def run(project: Path, namesrv: str) -> str:
    """Run the pipeline; what it prints."""
    environment = {
        **os.environ,
        "NAMESRV_ADDR": namesrv,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONWARNINGS": "ignore",
        "SPARK_HOME": str(COMMAND.parent.parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        ["bash", COMMAND, "--conf", "spark.sql.catalogImplementation=hive", "run"],
        check=False,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        cwd=project,
        env=environment,
    )
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-8_000:]
    return done.stdout + done.stderr
