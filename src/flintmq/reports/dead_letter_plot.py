"""The picture of a report on dead letters: how many on each day, of which topics, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any, Final

from flintmq.reports.report_output import (
    GRID,
    bars,
    count_axis,
    day_axis,
    empty,
    figure_of,
    short,
)

TOPICS_MAX: Final = 7
"""Topics with a colour of their own; more cannot be told apart."""

REASONS_MAX: Final = 10

DAYS_MIN: Final = 10
"""Days that the axis shows at least, so that a single one is no wall."""

OTHERS: Final = "all others"


def plot_dead_letters(
    group: str,
    by_day_and_topic: Mapping[tuple[str, str], int],
    by_reason: Mapping[str, int],
    path: Path,
) -> None:
    """Write it as a PNG."""
    total = sum(by_reason.values())
    figure, (days, reasons) = figure_of(2, 1, (10, 8))
    figure.suptitle(f"Dead letters of {short(group)}: {total:,}")
    days.set_title("by day and topic", loc="left", fontsize="medium")
    if total:
        _stack(days, by_day_and_topic)
    else:
        empty(days, "none")
    counts = Counter(dict(by_reason)).most_common()
    shown, rest = counts[:REASONS_MAX], counts[REASONS_MAX:]
    if rest:
        shown.append((f"{len(rest)} other reasons", sum(count for _, count in rest)))
    bars(reasons, "by reason", shown, "dead letters")
    figure.savefig(path, format="png", dpi=120)


def _stack(axis: Any, counts: Mapping[tuple[str, str], int]) -> None:
    """A bar for each day, with a piece for each topic; days without any are left free."""
    of_topic: Counter[str] = Counter()
    for (_, topic), count in counts.items():
        of_topic[topic] += count
    named = [topic for topic, _ in of_topic.most_common(TOPICS_MAX)]
    pieces: Counter[tuple[str, str]] = Counter()
    for (day, topic), count in counts.items():
        pieces[day, topic if topic in named else OTHERS] += count
    days = sorted({day for day, _ in counts})
    places = [date.fromisoformat(day) for day in days]
    below = [0] * len(days)
    for at, topic in enumerate([*named, OTHERS]):
        heights = [pieces[day, topic] for day in days]
        if any(heights):
            colour = "0.7" if topic == OTHERS else f"C{at}"
            axis.bar(places, heights, bottom=below, width=0.8, color=colour, label=short(topic))
            below = [low + height for low, height in zip(below, heights, strict=True)]
    wide = max(0, DAYS_MIN - (places[-1] - places[0]).days) / 2
    margin = timedelta(days=max(1, wide))
    axis.set_xlim(
        datetime.combine(places[0], time()) - margin, datetime.combine(places[-1], time()) + margin
    )
    day_axis(axis)
    axis.set_ylabel("dead letters a day")
    count_axis(axis.yaxis)
    axis.grid(axis="y", **GRID)
    axis.legend(title="topic", fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
