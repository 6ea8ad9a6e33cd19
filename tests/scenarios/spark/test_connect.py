"""Source, sink, frames, loops and listeners work through Spark Connect."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkImportError

from flintmq.embedded.broker import EmbeddedBroker
from support.client.support import stored
from support.spark.support import create_topic, lag, send

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(900), pytest.mark.java]

PROGRAM = Path(__file__).with_name("connect_program.py")
RUN_S = 600.0


@pytest.fixture(autouse=True)
def _connect() -> None:
    try:
        importlib.import_module("pyspark.sql.connect")
    except PySparkImportError as error:
        pytest.skip(f"Spark Connect: {error}")


def run_program(what: str, servers: EmbeddedBroker, directory: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, PROGRAM, what, servers.namesrv, str(directory)],
        check=False,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        cwd=directory,
    )
    assert done.returncode == 0, done.stderr[-8_000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def test_a_program_that_is_only_connected_reads_streams_and_writes(tmp_path: Path) -> None:
    with EmbeddedBroker() as servers:
        for topic in ("source", "written", "streamed"):
            create_topic(servers, topic, 2)
        bodies = [[f"{queue_id}-{n:02}" for n in range(40)] for queue_id in range(2)]
        for queue_id, some in enumerate(bodies):
            send(servers, "source", some, queue_id=queue_id)
        told = run_program("read", servers, tmp_path)
        written = sorted(message.body.decode() for message in stored(servers, "written"))
        streamed = sorted(message.body.decode() for message in stored(servers, "streamed"))
        behind = [lag(servers, "connected"), lag(servers, "looped")]

    assert "connect" in told["session"]
    assert (told["found"], told["read"], told["ended"]) == (80, 80, True)
    assert written == bodies[0]
    assert streamed == sorted(bodies[0] + bodies[1])
    assert behind == [0, 0]
    assert (told["frame"], told["batches"], told["rows"]) == (80, 3, [30, 30, 20])


def test_a_program_that_is_only_connected_runs_listeners(tmp_path: Path) -> None:
    with EmbeddedBroker() as servers:
        create_topic(servers, "work", 2)
        bodies = [[f"{queue_id}-{n:02}" for n in range(40)] for queue_id in range(2)]
        for queue_id, some in enumerate(bodies):
            send(servers, "work", some, queue_id=queue_id)
        told = run_program("listen", servers, tmp_path)
        behind = [lag(servers, "pulled"), lag(servers, "ordered")]

    everything = sorted(bodies[0] + bodies[1])
    assert "connect" in told["session"]
    assert "console of the server" in told["refused"]
    stopped, popped, ordered = told["stopped"], told["popped"], told["ordered"]
    assert (stopped["rested"], stopped["rows"], stopped["heard"]) == (True, 80, everything)
    assert "@" in stopped["client_id"]
    assert (popped["ended"], popped["consumed"], popped["heard"]) == (True, 80, everything)
    assert (ordered["ended"], ordered["batches"], ordered["heard"]) == (True, 3, everything)
    assert behind == [0, 0], "what was consumed is committed"
    assert "raised in 3 calls in a row" in told["broken"]
