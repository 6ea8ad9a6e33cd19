"""A real Spark cluster, started from the pip install alone, runs source, sink and listeners.

A master and two workers are processes on loopback; a program is submitted to them, or joins them
by itself.  Executors have flintmq installed, and know nothing of the program.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flintmq.embedded.broker import EmbeddedBroker
from support.spark.standalone import SPARK_HOME, environment, standalone_cluster
from support.spark.support import create_topic, lag, send

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(900), pytest.mark.java]

PROGRAM = Path(__file__).with_name("cluster_program.py")
RUN_S = 600.0

BESIDE = """
def write(directory, where, text):
    with open(f"{directory}/diary", "a") as file:
        file.write(f"{where} {text}\\n")
"""


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a cluster of two workers with one core each."""
    with standalone_cluster(tmp_path_factory.mktemp("standalone")) as url:
        yield url


@pytest.mark.parametrize("how", ["submitted", "by itself"])
def test_a_program_reads_writes_and_listens_on_two_executors(
    master: str, tmp_path: Path, how: str
) -> None:
    program = shutil.copy(PROGRAM, tmp_path / "program.py")
    (tmp_path / "beside.py").write_text(BESIDE)
    with EmbeddedBroker() as servers:
        for topic in ("source", "copy"):
            create_topic(servers, topic, 4)
        for queue_id in range(4):
            send(servers, "source", [f"{queue_id}-{n:03}" for n in range(100)], queue_id=queue_id)
        if how == "submitted":
            submit = str(SPARK_HOME / "bin/spark-submit")
            command = [submit, "--master", master, program, servers.namesrv, str(tmp_path)]
        else:
            command = [sys.executable, program, servers.namesrv, str(tmp_path), master]
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            env=environment(tmp_path),
        )
        assert done.returncode == 0, done.stderr[-8_000:]
        lags = [lag(servers, "streamers"), lag(servers, "listeners")]

    told = json.loads(done.stdout.splitlines()[-1])
    assert told["master"] == master
    assert (told["read"], told["partitions"], told["heard"]) == (400, 4, 400)
    assert told["bodies"] == [f"{queue_id}-{n:03}" for queue_id in range(4) for n in range(100)]
    assert len(told["executors"]) == 2, "both executors ran listeners"
    assert lags == [0, 0]
