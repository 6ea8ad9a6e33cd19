"""Every example runs as its first lines say, ends by itself, and shows what they promise."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.spark import programs

EXAMPLES = Path(__file__).parents[1] / "examples"
LINES_MAX = 59

TIMEOUT_S = 100
SPARK_TIMEOUT_S = 600
"""A JVM and its Python workers start slowly where many others work."""

SHOWN = {
    "produce": ["SEND_OK in orders/", "async: 100 stored", "batch: 100 stored", ": 1 queue"],
    "consume": ["o-3 failed", "o-3 billed at try 2", "'not an order' is given up", "o-5 billed"],
    "consume_in_order": ["o-2 paid: failed", "o-3 shipped", "order kept: True"],
    "arrow_tables": [
        "90 orders",
        "[('open', 2700), ('paid', 1305)]",
        "Parquet: 90",
        "files: 90",
    ],
    "consume_once": ["stopped: 2 billed, 0 dropped", "stopped: 1 billed, 1 dropped"],
    "asyncio_client": ["sent: 100", "taken: 10", "1 + 2 + 39 = 42"],
    "transaction": ["p-2: no money", "p-3: the broker asks", "seen: p-1, p-3"],
    "pull": ["25 messages of queue 0, committed 25", "100 messages polled again"],
    "simple_consumer": ["40 packed, one came again: True"],
    "scheduled_pull": ["queue 3: 25 messages", "together: 100"],
    "test_with_pytest": ["3 passed"],
    "task_worker": ["ann sent at try 1", "bob sent at try 3", "is given up at try 3"],
    "web_fastapi": ["202", "billed: o-1"],
    "django_command": ["3 orders in the table"],
    "spark_stream": ["1000 orders sent", "2000 orders sent", "bills: 2000", "group: 0"],
    "spark_listener": [
        "| consumed|  198|",
        "|sent back|    2|",
        "o-100 (try 2), o-200 (try 2)",
    ],
    "spark_idempotent": ["20 messages, 10 orders billed"],
    "spark_windows": [
        "|{2026-11-16 08:30:00, 2026-11-16 08:31:00}|ann     |130.0|",
        "|{2026-11-16 08:31:00, 2026-11-16 08:32:00}|bob     |5.0  |",
        """alerts: ['{"customer":"ann","sum":130.0}']""",
        "set apart: 3",
    ],
    "spark_join": [
        "|    o-1|2026-11-16 08:30:00| o-1|2026-11-16 08:39:00|",
        "|    o-2|2026-11-16 08:31:00| o-2|2026-11-16 08:30:30|",
        "|    o-3|2026-11-16 08:32:00|NULL|               NULL|",
    ],
    "spark_sessions": ["| ann|     1|\n| ann|     2|\n| bob|     1|"],
    "spark_batch_to_table": ["|     paid|  100|", "|  1000|14985000|"],
}

NEEDS = {"web_fastapi": ("fastapi", "httpx"), "django_command": ("django",)}
"""Packages that only one example needs; they are in the lock file of the developers."""

ON_SPARK = [name for name in SHOWN if name.startswith("spark_")]
ALONE = [name for name in SHOWN if name not in ON_SPARK]


def run_program(*words: str | Path, timeout_s: float) -> str:
    """What a program prints; it is run as a user would, and a warning is an error."""
    environment = {key: text for key, text in os.environ.items() if key != "NAMESRV_ADDR"}
    done = subprocess.run(
        [sys.executable, "-W", "error", *words],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ALONE)
def test_an_example_shows_what_it_promises(name: str) -> None:
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package, reason=f"{package} is not installed")
    shown = run_program(EXAMPLES / f"{name}.py", timeout_s=TIMEOUT_S)

    assert [each for each in SHOWN[name] if each not in shown] == [], shown


@pytest.fixture(scope="module")
def ran_on_spark(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where they print to: one JVM for all, because it takes longer to start than they run."""
    directory = tmp_path_factory.mktemp("examples")
    files = [EXAMPLES / f"{name}.py" for name in ON_SPARK]
    run_program(programs.__file__, directory, *files, timeout_s=SPARK_TIMEOUT_S)
    return directory


@pytest.mark.timeout(SPARK_TIMEOUT_S)
@pytest.mark.java
@pytest.mark.parametrize("name", ON_SPARK)
def test_an_example_on_spark_shows_what_it_promises(ran_on_spark: Path, name: str) -> None:
    shown = (ran_on_spark / name).read_text(encoding="utf-8")

    failed = ran_on_spark / f"{name}.failed"
    assert not failed.exists(), failed.read_text(encoding="utf-8")
    assert [each for each in SHOWN[name] if each not in shown] == [], shown


def test_the_example_for_pytest_runs_where_only_pytest_is_installed() -> None:
    """Not with the settings of this repository, which name plugins that a user does not have."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:timeout", "examples/test_with_pytest.py"],
        cwd=EXAMPLES.parent,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )

    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_every_example_is_run() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == SHOWN.keys()


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_is_short_and_says_what_one_will_see(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    said = ast.get_docstring(ast.parse(text)) or ""

    assert text.count("\n") <= LINES_MAX
    assert f"python examples/{path.name}" in said
    assert "You will see" in said


def test_a_project_of_its_own_finds_the_fixtures_and_passes(tmp_path: Path) -> None:
    project = shutil.copytree(EXAMPLES / "own_project", tmp_path / "shop")
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider"]

    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)

    assert "3 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.filterwarnings("default")  # of the kernel's client, which is not ours
def test_the_notebook_runs_from_its_first_cell_to_its_last() -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    notebook = nbformat.read(EXAMPLES / "notebook.ipynb", as_version=4)

    nbclient.NotebookClient(notebook, timeout=TIMEOUT_S, kernel_name="python3").execute()

    results = [
        output.data["text/plain"]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type == "execute_result"
    ]
    assert results[0] == results[-1] == "300"
    assert "'tags': 'paid', 'body_count': 100" in results[1]


def test_the_notebook_is_kept_without_results() -> None:
    cells = json.loads((EXAMPLES / "notebook.ipynb").read_text(encoding="utf-8"))["cells"]

    kept = [cell["source"] for cell in cells if cell.get("outputs") or cell.get("execution_count")]

    assert kept == []
