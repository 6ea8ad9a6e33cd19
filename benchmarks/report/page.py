"""The page: what is written by hand stays, what stands between two markers is made from results.

<!-- broker -->
… a table …
<!-- end -->
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from benchmarks.report.results import Results
from benchmarks.report.tables import TABLES as DETAILS
from benchmarks.report.users import cores_table, users_table

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"

TABLES = {"users": users_table, "cores": cores_table, **DETAILS}

NOTHING = "Not measured yet.\n"

_PART = re.compile(r"(<!-- (?P<name>[a-z ]+) -->\n)(?P<text>.*?)(<!-- end -->\n)", re.DOTALL)


def written(page: str, results: Mapping[str, Results]) -> str:
    """The page with its tables made anew."""

    def part(found: re.Match[str]) -> str:
        text = TABLES[found["name"]](results).strip("\n")
        return f"{found[1]}\n{text or NOTHING.strip()}\n\n{found[4]}"

    return _PART.sub(part, page)


def parts(page: str) -> list[str]:
    """The names of the tables that have a place in the page."""
    return [found["name"] for found in _PART.finditer(page)]
