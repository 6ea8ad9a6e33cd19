"""Every row of docs/compatibility.md is tested by a test that exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")


def rows() -> list[list[str]]:
    """The cells of every row, without heads and rules."""
    lines = [line for line in PAGE.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if row[-1] != "tested by" and not set(row[0]) <= set("-|")]


def test_every_row_names_its_test() -> None:
    without = [row[0] for row in rows() if not re.fullmatch(r"`[a-z_]+/\S.*::test_.+`", row[-1])]

    assert len(rows()) > 50
    assert without == []


def test_every_test_that_is_named_exists() -> None:
    named = sorted({f"tests/{row[-1].strip('`')}" for row in rows()})
    files = sorted({name.partition("::")[0] for name in named})

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    found = set(done.stdout.splitlines())
    found |= {name.partition("[")[0] for name in found}
    assert [name for name in named if name not in found] == []
