"""The file that every comparison writes, and how two sides of one are compared.

    {"machine": …, "versions": …, "settings": …, "skipped": {what: why},
     "workloads": [{"name": …, "rows": {side: [{metric: value}, one for each round]}}]}

Metrics are ``rate`` (messages or rows a second), ``server_us`` and ``client_us`` (CPU for each
of them), ``cpu_us`` (both together), ``slave_us`` (of a slave, where ``server_us`` is its
master's), ``p50_ms``, ``p99_ms``, ``median_ms``, ``lag_ms``, ``ready_s`` and ``private_mib``.  A
metric that was not measured is left out.  Rows with the same place in the lists of two sides were
measured one after the other, so ratios are taken place by place.

Growth, soak and profile add ``panels``, ``samples`` and ``profiles``; what those are is told there.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.__main__ import RESULTS, machine

KEPT = Path(__file__).parents[2] / "docs" / "benchmarks"
"""The newest results, as small files that are part of the project."""

NAMES = (
    "peers_broker",
    "peers_client",
    "peers_python",
    "peers_spark",
    "peers_replication",
    "peers_pop",
    "growth",
    "soak",
    "profile",
)

DIGITS = 5

Row = dict[str, float]


class Ratio(NamedTuple):
    """Ours to theirs: the median of the rounds and how far they lie apart."""

    median: float
    low: float
    high: float


@dataclass
class Measured:
    """One workload on several sides."""

    name: str
    rows: dict[str, list[Row]] = field(default_factory=dict)

    def add(self, side: str, row: Row) -> None:
        self.rows.setdefault(side, []).append(row)

    def median(self, side: str, metric: str) -> float | None:
        rows = [row for row in self.rows.get(side, []) if metric in row]
        return median(rows, metric) if rows else None

    def ratio(self, ours: str, theirs: str, metric: str) -> Ratio | None:
        """None where one of the sides, or the metric, was not measured."""
        pairs = zip(self.rows.get(ours, []), self.rows.get(theirs, []), strict=False)
        both = [(mine, other) for mine, other in pairs if metric in mine and other.get(metric)]
        if not both:
            return None
        return ratio([mine for mine, _ in both], [other for _, other in both], metric)


@dataclass
class Results:
    """What one program found."""

    machine: dict[str, Any]
    versions: dict[str, str]
    settings: dict[str, Any]
    skipped: dict[str, str]
    workloads: dict[str, Measured]
    more: dict[str, Any]


def save(
    out: Path,
    workloads: Sequence[Measured],
    *,
    versions: Mapping[str, str],
    settings: Mapping[str, object],
    skipped: Mapping[str, str] | None = None,
    adds: bool = False,
    **more: object,
) -> None:
    """Write what was measured; with ``adds`` beside what is kept of workloads that were not."""
    rows = {each.name: each for each in workloads}
    path = KEPT / out.name
    if adds and path.exists():
        kept = load(path)
        rows, versions = kept.workloads | rows, kept.versions | dict(versions)
        more = {name: beside(kept.more.get(name), part) for name, part in more.items()}
        if workloads:
            settings = kept.settings | {"added": ", ".join(each.name for each in workloads)}
    found = {
        "machine": machine(),
        "versions": dict(versions),
        "settings": dict(settings),
        "skipped": dict(skipped or {}),
        "workloads": [{"name": each.name, "rows": each.rows} for each in rows.values()],
        **more,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(shortened(found), indent=1) + "\n")
    print(f"written to {os.path.relpath(out)}")


def beside(kept: Any, new: Any) -> Any:
    """What is new in its place among what is kept: parts with a name, or a list of some titled."""
    if isinstance(new, dict):
        return (kept or {}) | new
    by_title = {each["title"]: each for each in (*(kept or ()), *new)}
    return list(by_title.values())


def load(path: Path) -> Results:
    found = json.loads(path.read_text())
    measured = [Measured(each["name"], each["rows"]) for each in found.pop("workloads")]
    own = {name: found.pop(name) for name in ("machine", "versions", "settings", "skipped")}
    return Results(**own, workloads={each.name: each for each in measured}, more=found)


def load_kept(directory: Path = KEPT) -> dict[str, Results]:
    """What is there, by name."""
    paths = {name: directory / f"{name}.json" for name in NAMES}
    return {name: load(path) for name, path in paths.items() if path.exists()}


def keep(source: Path = RESULTS, target: Path = KEPT) -> list[str]:
    """Take over what was measured last; the names of it."""
    target.mkdir(parents=True, exist_ok=True)
    taken = [name for name in NAMES if (source / f"{name}.json").exists()]
    for name in taken:
        (target / f"{name}.json").write_bytes((source / f"{name}.json").read_bytes())
    return taken


def median(rows: Sequence[Row], metric: str) -> float:
    return statistics.median(row[metric] for row in rows)


def ratio(ours: Sequence[Row], theirs: Sequence[Row], metric: str) -> Ratio:
    """Round by round; a round in which theirs is nothing does not count."""
    pairs = zip(ours, theirs, strict=True)
    ratios = [mine[metric] / other[metric] for mine, other in pairs if other[metric] > 0]
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))


def shortened(value: Any) -> Any:
    """The same with fewer digits; the others are noise."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: shortened(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [shortened(each) for each in value]
    return value
