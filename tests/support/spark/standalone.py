"""A standalone cluster of Spark on loopback, started from the pip install alone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from flintmq.spark.environment.java import use_java
from support.spark.support import wait_for

SPARK_HOME = Path(pyspark.__file__).parent
LOOPBACK = "127.0.0.1"
READY_S = 120.0
STOP_S = 30.0


@contextmanager
def standalone_cluster(home: Path) -> Iterator[str]:
    """A master and two workers with one core each; the address of the master."""
    use_java()
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
