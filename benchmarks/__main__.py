"""Run the benchmarks: a table on the terminal, JSON with the machine they ran on.

    python -m benchmarks [NAME …] [--out FILE]

Each module here has a ``run()`` that gives rows of name, value, unit and perhaps a goal, a
text such as ``>= 10`` that the value is held against.  Figures are CPU time of this
process unless a row says otherwise, since clocks on a shared machine lie.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import platform
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PROGRAMS = {"__main__", "growth", "quick", "simulated_cluster", "soak", "spark_scale"}
"""Modules that are no benchmarks of this program: they take long and are started by themselves."""


def main() -> int:
    modules = pkgutil.iter_modules([str(HERE)])
    names = sorted(m.name for m in modules if m.name not in PROGRAMS and not m.ispkg)
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(names)}")
    parser.add_argument("--out", type=Path, default=RESULTS / "latest.json")
    chosen = parser.parse_args()
    if unknown := set(chosen.names) - set(names):
        parser.error(f"no benchmark called {', '.join(sorted(unknown))}; there are {names}")

    rows: list[dict[str, Any]] = []
    for name in chosen.names or names:
        print(f"… {name}", file=sys.stderr, flush=True)
        module = importlib.import_module(f"benchmarks.{name}")
        rows += [{"benchmark": name, **row} for row in module.run()]
    show(rows)
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n")
    print(f"written to {os.path.relpath(chosen.out)}")
    return 0


def machine() -> dict[str, str | int]:
    """What the figures depend on.  Nothing that tells whose machine it is."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory_bytes / 2**30),
        "kernel": f"{platform.system()} {platform.release()}",
        "java": _java_version(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("flintmq", "msgspec", "numpy", "uvloop")},
    }


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _java_version() -> str:
    if shutil.which("java") is None:
        return "none"
    asked = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    words = asked.stderr.split('"')
    return words[1] if len(words) > 1 else "unknown"


def show(rows: list[dict[str, Any]]) -> None:
    table = Table("benchmark", "what", "value", "unit", "goal", "")
    for row in rows:
        goal = str(row.get("goal", ""))
        table.add_row(
            row["benchmark"],
            row["name"],
            f"{row['value']:,.4g}" if row["value"] < 1000 else f"{row['value']:,.0f}",
            row["unit"],
            goal,
            verdict(row["value"], goal),
        )
    Console(width=110).print(table)


def verdict(value: float, goal: str) -> str:
    if not goal:
        return ""
    relation, bound = goal.split()
    met = value >= float(bound) if relation == ">=" else value <= float(bound)
    return "met" if met else "missed"


if __name__ == "__main__":
    sys.exit(main())
