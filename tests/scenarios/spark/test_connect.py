"""Source, sink, frames and loops work through Spark Connect; listeners say that they do not."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import PySparkImportError

from flintmq.embedded.broker import EmbeddedBroker
from support.client.support import stored
from support.spark.support import create_topic, lag, send

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(900), pytest.mark.java]

PROGRAM = Path(__file__).with_name("connect_program.py")
RUN_S = 600.0


def test_a_program_that_is_only_connected_reads_streams_and_writes(tmp_path: Path) -> None:
    try:
        importlib.import_module("pyspark.sql.connect")
    except PySparkImportError as error:
        pytest.skip(f"Spark Connect: {error}")
    with EmbeddedBroker() as servers:
        for topic in ("source", "written", "streamed"):
            create_topic(servers, topic, 2)
        bodies = [[f"{queue_id}-{n:02}" for n in range(40)] for queue_id in range(2)]
        for queue_id, some in enumerate(bodies):
            send(servers, "source", some, queue_id=queue_id)
        done = subprocess.run(
            [sys.executable, PROGRAM, servers.namesrv, str(tmp_path)],
            check=False,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr[-8_000:]
        written = sorted(message.body.decode() for message in stored(servers, "written"))
        streamed = sorted(message.body.decode() for message in stored(servers, "streamed"))
        behind = [lag(servers, "connected"), lag(servers, "looped")]

    told = json.loads(done.stdout.splitlines()[-1])
    assert "connect" in told["session"]
    assert (told["found"], told["read"], told["ended"]) == (80, 80, True)
    assert written == bodies[0]
    assert streamed == sorted(bodies[0] + bodies[1])
    assert behind == [0, 0]
    assert (told["frame"], told["batches"], told["rows"]) == (80, 3, [30, 30, 20])
    assert "Spark Connect" in told["run"]
