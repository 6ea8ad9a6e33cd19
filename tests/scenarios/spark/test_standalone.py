"""A real Spark cluster, started from the pip install alone, runs source, sink and listeners.

A master and two workers are processes on loopback; a program is submitted to them, or joins them
by itself.  Executors have flintmq installed, and know nothing of the program.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.spark.environment.java import use_java
from support.spark.support import create_topic, lag, send, wait_for

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(900), pytest.mark.java]

SPARK_HOME = Path(pyspark.__file__).parent
PROGRAM = Path(__file__).with_name("cluster_program.py")
LOOPBACK = "127.0.0.1"
READY_S = 120.0
RUN_S = 600.0
STOP_S = 30.0

BESIDE = """
def write(directory, where, text):
    with open(f"{directory}/diary", "a") as file:
        file.write(f"{where} {text}\\n")
"""


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster of two workers with one core each; its address."""
    use_java()
    home = tmp_path_factory.mktemp("standalone")
    with ExitStack() as stack:
        port = free_port()
        url = f"spark://{LOOPBACK}:{port}"
        place = ["--host", LOOPBACK, "--webui-port", "0"]
        stack.enter_context(daemon(home, "master.Master", [*place, "--port", str(port)]))
        for number in range(2):
            own = home / f"worker-{number}"
            args = [*place, "--cores", "1", "--memory", "1g", "--work-dir", str(own), url]
            stack.enter_context(daemon(home, "worker.Worker", args, str(number)))
        log = home / "master.Master.log"
        wait_for(lambda: log.read_text().count("Registering worker") == 2, READY_S)
        yield url


@contextmanager
def daemon(home: Path, name: str, args: list[str], number: str = "") -> Iterator[None]:
    """One process of the cluster, which logs to a file."""
    command = [str(SPARK_HOME / "bin/spark-class"), f"org.apache.spark.deploy.{name}", *args]
    with (home / f"{name}{number}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment(home))
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def environment(home: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_DIRS": str(home / "local"),
        "SPARK_LOCAL_IP": LOOPBACK,
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


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
