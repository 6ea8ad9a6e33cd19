"""The pictures of the page: ratios with their goals, what grows, and the soak."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.report.goals import LINES, METRICS, Verdict, hardest
from benchmarks.report.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DOCS = Path(__file__).parents[2] / "docs"

MET, MISSED, INK, FAINT = "#2a7f8e", "#d9822b", "#222222", "#9a9a9a"
_GROWING = ("send", "pull, 32 at once", "send in batches, push")
SERIES = ("#2a7f8e", "#d9822b", "#7a4b9a", "#4c8c2b")
DPI = 130
SHOWN_MAX = {"less": 2.0, "more": 3.0}
"""Longer bars are cut, and their number says how long they are."""

Found = Mapping[str, Results]


def plot_all(results: Found, directory: Path = DOCS) -> list[str]:
    """Every picture that there are results for; their names."""
    found = [verdict for line in LINES for verdict in hardest(line, results)]
    figures = {
        "benchmarks-ratios.png": ratios(found) if found else None,
        "benchmarks-growth.png": growth(results["growth"]) if "growth" in results else None,
        "benchmarks-soak.png": soak(results["soak"]) if "soak" in results else None,
    }
    made = {name: figure for name, figure in figures.items() if figure is not None}
    for name, figure in made.items():
        figure.savefig(directory / name, dpi=DPI, metadata={"Software": ""})
    return list(made)


def new_figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", facecolor="white")


def ratios(found: Sequence[Verdict]) -> Figure:
    """Ours to theirs, against whom least is left; less is better in one half, more in the other."""
    less = [each for each in found if not each.goal.is_lower]
    more = [each for each in found if each.goal.is_lower]
    counts = [max(1, len(less)), max(1, len(more))]
    figure = new_figure(10, 2.0 + 0.36 * sum(counts))
    upper, lower = figure.subplots(2, 1, height_ratios=[count + 1 for count in counts])
    _bars(
        upper,
        less,
        SHOWN_MAX["less"],
        "CPU, latency, time and memory, ours / theirs: less is better",
    )
    _bars(lower, more, SHOWN_MAX["more"], "rate, ours / theirs: more is better")
    handles = [_patch(MET, "goal met"), _patch(MISSED, "goal missed"), *_marks()]
    figure.legend(handles=handles, fontsize=8.5, loc="outside lower center", ncols=4, frameon=False)
    return figure


def _bars(axes: Axes, found: Sequence[Verdict], longest: float, title: str) -> None:
    places = range(len(found))
    for place, each in zip(places, found, strict=True):
        assert each.ratio is not None
        middle, low, high = (min(value, longest) for value in each.ratio)
        axes.barh(place, middle, height=0.62, color=MET if each.is_met else MISSED)
        axes.plot([low, high], [place, place], color=INK, linewidth=1, alpha=0.7)
        axes.plot([each.goal.bound] * 2, [place - 0.42, place + 0.42], color=INK, linewidth=2.4)
        name = each.other.removeprefix("RocketMQ ")
        text = f"{each.ratio.median:.2f}  against {name}"
        axes.text(longest * 1.02, place, text, va="center", fontsize=8.5, color=INK)
    axes.axvline(1, color=FAINT, linestyle="--", linewidth=1, zorder=0)
    labels = [f"{each.line.title} · {METRICS[each.goal.metric]}" for each in found]
    axes.set_yticks(list(places), labels, fontsize=8.5)
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.set_xlim(0, longest)
    axes.set_title(title, fontsize=10.5, loc="left", color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _patch(color: str, label: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(color=color, label=label)


def _marks() -> list[Any]:
    from matplotlib.lines import Line2D

    thick = Line2D([], [], color=INK, linewidth=2.4, marker="", label="goal")
    thin = Line2D([], [], color=INK, linewidth=1, alpha=0.7, label="spread of the rounds")
    return [thick, thin]


def growth(found: Results) -> Figure:
    """Four panels, both axes logarithmic: full lines the server, dashed the client."""
    figure = new_figure(10, 7.4)
    handles: dict[str, Any] = {}
    for axes, panel in zip(figure.subplots(2, 2).flat, found.more["panels"], strict=False):
        for name, points in panel["lines"].items():
            color = SERIES[_GROWING.index(name)]
            there = [point[0] for point in points]
            for place, (who, style) in enumerate((("server", "-"), ("client", "--")), 1):
                costs = [point[place] for point in points]
                (line,) = axes.plot(there, costs, style, color=color, marker="o", markersize=4)
                handles[f"{name}: {who}"] = line
        axes.set_xscale("log")
        axes.set_yscale("log")
        _whole_decades(axes)
        unit = "" if panel["unit"] in panel["title"] else f", {panel['unit']}"
        axes.set_xlabel(panel["title"] + unit)
        axes.set_ylabel("CPU µs a message")
        axes.grid(alpha=0.25)
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=3, frameon=False
    )
    return figure


def _whole_decades(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    low, high = axes.get_ylim()
    axes.set_ylim(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        axis.set_minor_formatter(NullFormatter())


def soak(found: Results) -> Figure:
    """Memory, descriptors, threads and CPU over time; what counts for the trend is drawn dark."""
    figure = new_figure(10, 6.4)
    samples = found.more["samples"]
    for axes, (metric, title) in zip(
        figure.subplots(2, 2).flat, found.more["metrics"], strict=True
    ):
        for color, (who, rows) in zip(SERIES, samples.items(), strict=False):
            minutes = [row["at_s"] / 60 for row in rows]
            values = [row[metric] for row in rows]
            axes.plot(minutes, values, color=color, linewidth=1.6, label=who)
        axes.axvspan(minutes[-1] / 2, minutes[-1], color="#000000", alpha=0.04)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("minutes")
        axes.set_title(title, fontsize=10, loc="left")
        axes.grid(alpha=0.25)
        axes.legend(fontsize=8, loc="best")
    return figure
