"""Every example runs as its first lines say, ends by itself, and shows what they promise."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
LINES_MAX = 59

TIMEOUT_S = 100
SPARK_TIMEOUT_S = 600
"""A JVM and its Python workers start slowly where many others work."""

SHOWN = {
    "produce": ["SEND_OK in orders/", "async: 100 stored", "batch: 100 stored", ": 1 queue"],
    "consume": ["o-3 failed", "o-3 billed at try 2", "'not an order' is given up", "o-5 billed"],
    "consume_in_order": ["o-2 paid: failed", "o-3 shipped", "order kept: True"],
    "asyncio_client": ["sent: 100", "taken: 10", "1 + 2 + 39 = 42"],
    "transaction": ["p-2: no money", "p-3: the broker asks", "seen: p-1, p-3"],
    "pull": ["25 messages of queue 0, committed 25", "100 messages polled again"],
    "scheduled_pull": ["queue 3: 25 messages", "together: 100"],
    "test_with_pytest": ["3 passed"],
    "spark_stream": ["1000 orders sent", "2000 orders sent", "bills: 2000", "group: 0"],
    "spark_listener": [
        "| consumed|  198|",
        "|sent back|    2|",
        "o-100 (try 2), o-200 (try 2)",
    ],
    "spark_batch_to_table": ["|     paid|  100|", "|  1000|14985000|"],
}

ON_SPARK = [name for name in SHOWN if name.startswith("spark_")]
ALONE = [name for name in SHOWN if name not in ON_SPARK]


def run_example(name: str, timeout_s: float) -> str:
    """Its output; it is run as a user would, and a warning is an error."""
    environment = {key: text for key, text in os.environ.items() if key != "NAMESRV_ADDR"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")],
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
    shown = run_example(name, TIMEOUT_S)

    assert [each for each in SHOWN[name] if each not in shown] == [], shown


@pytest.mark.timeout(SPARK_TIMEOUT_S)
@pytest.mark.java
@pytest.mark.parametrize("name", ON_SPARK)
def test_an_example_on_spark_shows_what_it_promises(name: str) -> None:
    shown = run_example(name, SPARK_TIMEOUT_S)

    assert [each for each in SHOWN[name] if each not in shown] == [], shown


def test_every_example_is_run() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == SHOWN.keys()


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_an_example_is_short_and_says_what_one_will_see(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    said = ast.get_docstring(ast.parse(text)) or ""

    assert text.count("\n") <= LINES_MAX
    assert f"python examples/{path.name}" in said
    assert "You will see" in said
