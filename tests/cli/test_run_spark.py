"""`flintmq run --spark` runs the same app on Spark, and a signal ends it as it ends threads."""

from __future__ import annotations

import signal
import subprocess
import threading
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from flintmq.cli.all_commands import app
from flintmq.cli.run_spark import read_sink
from flintmq.cli.shared.spark_job import read_conf
from flintmq.embedded.broker import EmbeddedBroker
from support.cli.serving import COMMAND, environment
from support.client.push_support import committed, filled, numbered
from support.client.support import wait_for

START_S = 200.0
"""Spark starts in ten seconds on a machine that is idle."""

APP = """
from flintmq import App

app = App("on-spark", start_from="first")

@app.listener("on-spark")
def listen(messages):
    with open("heard", "a") as file:
        for message in messages:
            file.write(message.body.decode() + "\\n")
"""


def test_a_sink_and_settings_are_read_from_text() -> None:
    assert read_sink("none") == "none"
    assert read_sink("parquet:/data/outcomes") == {"format": "parquet", "path": "/data/outcomes"}
    assert read_conf(("spark.a=b=c",)) == {"spark.a": "b=c"}
    with pytest.raises(typer.BadParameter, match="FORMAT:PATH"):
        read_sink(":x")
    with pytest.raises(typer.BadParameter, match="NAME=VALUE"):
        read_conf(("spark.a",))


def test_processes_are_for_threads(tmp_path: Path) -> None:
    arguments = ["run", "shop:app", "--spark", "local[1]", "--processes", "2"]

    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})

    assert done.exit_code == 2
    assert "Spark has its executors" in done.stderr


@pytest.mark.java
@pytest.mark.timeout(480)
def test_a_signal_ends_the_run_and_the_group_stands_where_it_ended(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP)
    with EmbeddedBroker() as servers:
        filled(servers, "on-spark", numbered(20))
        process = subprocess.Popen(
            [COMMAND, "run", "shop:app", "-n", servers.namesrv, "--spark", "local[2]"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=environment(),
        )
        killer = threading.Timer(START_S, process.kill)
        killer.start()
        try:
            heard = tmp_path / "heard"
            wait_for(
                lambda: (
                    process.poll() is not None
                    or (heard.exists() and len(heard.read_text().split()) == 20)
                ),
                START_S,
            )
            process.send_signal(signal.SIGTERM)
            out, errors = process.communicate(timeout=60)
        finally:
            killer.cancel()
            process.kill()
            process.wait()
        offsets = committed(servers, "on-spark", "on-spark")

    assert process.returncode == 0, errors
    assert "flintmq ready app=shop:app group=on-spark client=" in out
    assert sorted(heard.read_text().split()) == [body.decode() for body in numbered(20)]
    assert offsets == dict.fromkeys(range(4), 5)
    for noise in ("log4j", "incubator", "py4j", "NativeCodeLoader", "log level"):
        assert noise not in errors


@pytest.mark.java
@pytest.mark.timeout(480)
def test_a_query_that_fails_is_one_sentence_and_not_a_page_of_java(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP)
    with EmbeddedBroker() as servers:
        filled(servers, "on-spark", numbered(4))
        arguments = ["--until-now", "--sink", f"parquet:{tmp_path / 'shop.py'}"]
        done = subprocess.run(
            [COMMAND, "run", "shop:app", "-n", servers.namesrv, "--spark", "local[1]", *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment(),
            timeout=START_S,
            check=False,
        )

    assert done.returncode == 1
    assert "flintmq: the query failed: " in done.stderr
    assert "\tat org.apache" not in done.stderr
    assert "Traceback" not in done.stderr
