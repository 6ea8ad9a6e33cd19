"""The table of Spark versions in docs/support.md says what the tests hold, cell by cell."""

from __future__ import annotations

import re
from pathlib import Path

import pyspark
import pytest

from flintmq.spark.environment.requirements import parsed, version_text

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests" / "spark" / "versions" / "test_sparks.py"
LOCKS = ROOT / "requirements" / "sparks"

ROW = re.compile(r'^@row\("([^"]+)"(?:, since="([0-9.]+)")?\)$', re.MULTILINE)


def held() -> dict[str, str]:
    """The rows that have a test, and since which version each is a yes."""
    found = ROW.findall(TESTS.read_text(encoding="utf-8"))
    return {name: since or "4.0" for name, since in found}


def table() -> dict[str, dict[str, str]]:
    """The rows of the page: a cell for each version."""
    page = (ROOT / "docs" / "support.md").read_text(encoding="utf-8")
    section = page.split("## Versions of Spark", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    head, _dashes, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    versions = [name.removeprefix("PySpark ") for name in head[1:]]
    return {row[0].strip("`"): dict(zip(versions, row[1:], strict=True)) for row in rows}


def test_every_row_of_the_page_has_a_test_and_the_other_way_round() -> None:
    assert sorted(table()) == sorted(held())


@pytest.mark.parametrize("name", sorted(held()))
def test_every_cell_says_what_its_test_holds(name: str) -> None:
    since = parsed(held()[name])
    for version, cell in table()[name].items():
        expected = "yes" if parsed(version) >= since else "no"
        assert cell.split(":")[0].split(",")[0] == expected, (name, version, cell)


def test_the_columns_are_the_versions_that_make_test_sparks_has_and_the_newest() -> None:
    newest = version_text(parsed(pyspark.__version__))
    pinned = {path.stem for path in LOCKS.glob("*.txt")}
    in_makefile = re.search(r"^SPARKS := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)

    assert in_makefile is not None
    assert set(in_makefile[1].split()) == pinned
    for row in table().values():
        assert set(row) == pinned | {newest}


@pytest.mark.parametrize("lock", sorted(LOCKS.glob("*.txt")), ids=lambda path: path.stem)
def test_an_environment_has_the_version_of_its_name(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    found = re.search(r"^pyspark==([0-9.]+)", text, re.MULTILINE)

    assert found is not None
    assert version_text(parsed(found[1])) == lock.stem
    assert "://" not in text, "no addresses"
