"""A packed environment brings flintmq to a cluster whose workers do not have it.

The environment is made by pip, packed by venv-pack, and given to spark-submit by ``--archives``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from flintmq.embedded.broker import EmbeddedBroker
from support.spark.standalone import SPARK_HOME, environment, standalone_cluster
from support.spark.support import create_topic, send

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(1_200), pytest.mark.java]

ROOT = Path(__file__).parents[3]
RUN_S = 900.0

PROGRAM = """
import json
import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
reader = spark.read.format("rocketmq").options(namesrv=sys.argv[1], subscribe="shipped")
count = reader.load().count()


def where(_rows):
    import flintmq

    yield sys.executable, flintmq.__file__


places = spark.sparkContext.range(2, numSlices=2).mapPartitions(where).collect()
spark.stop()
print(json.dumps({"count": count, "places": places}))
"""


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a cluster."""
    home = tmp_path / "cluster"
    home.mkdir()
    with standalone_cluster(home) as url:
        yield url


def test_workers_without_flintmq_run_it_from_the_archive(master: str, tmp_path: Path) -> None:
    if importlib.util.find_spec("venv_pack") is None:
        pytest.skip("venv-pack is not installed: pip install venv-pack")
    archive = packed(tmp_path)
    unpacked = tmp_path / "environment"
    with tarfile.open(archive) as file:
        file.extractall(unpacked, filter="fully_trusted")  # packed above
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with EmbeddedBroker() as servers:
        create_topic(servers, "shipped", 4)
        for queue_id in range(4):
            send(servers, "shipped", ["x"] * 25, queue_id=queue_id)
        done = subprocess.run(
            [
                SPARK_HOME / "bin/spark-submit",
                *("--master", master, "--archives", f"{archive}#environment"),
                *("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.executor.memory=512m"),
                *(program, servers.namesrv),
            ],
            check=False,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            cwd=tmp_path,
            env={
                **environment(tmp_path),
                "PYSPARK_PYTHON": "./environment/bin/python",
                "PYSPARK_DRIVER_PYTHON": str(unpacked / "bin" / "python"),
            },
        )
        assert done.returncode == 0, done.stderr[-8_000:]

    told = json.loads(done.stdout.splitlines()[-1])
    assert told["count"] == 100
    for executable, module in told["places"]:
        assert "/environment/" in executable
        assert "/environment/" in module, "not of this repository"


def packed(directory: Path) -> Path:
    """An environment with flintmq and what it needs, and no pyspark: workers have their own."""
    home = directory / "made"
    subprocess.run([sys.executable, "-m", "venv", home], check=True)
    pip = [str(home / "bin/python"), "-m", "pip", "install", "--quiet"]
    clean = {key: text for key, text in os.environ.items() if key != "PYTHONPATH"}
    subprocess.run([*pip, f"{ROOT}[arrow]"], check=True, timeout=RUN_S, env=clean)
    archive = directory / "environment.tar.gz"
    command = [sys.executable, "-m", "venv_pack", "--prefix", str(home), "--output", str(archive)]
    subprocess.run(command, check=True, timeout=RUN_S)
    return archive
