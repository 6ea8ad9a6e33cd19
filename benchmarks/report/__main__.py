"""Take over the newest results and write the page and its plots again.

    python -m benchmarks.report

What is in ``benchmarks/results`` is copied to ``docs/benchmarks``; what was not measured anew
stays as it is there.
"""

from __future__ import annotations

import sys

from benchmarks.report.page import PAGE, written
from benchmarks.report.plots import plot_all
from benchmarks.report.results import keep, load_kept


def main() -> int:
    taken = keep()
    results = load_kept()
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")
    plotted = plot_all(results)
    print(f"taken over: {', '.join(taken) or 'nothing'}")
    print(f"written: docs/benchmarks.md, {', '.join(plotted)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
