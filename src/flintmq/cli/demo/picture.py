"""The picture of a run: who sent and consumed how much, and how far the group was behind."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from flintmq.cli.demo.story import Moments
from flintmq.cli.demo.watch import Sample

SENT_COLOUR, SPARK_COLOUR, THREADS_COLOUR = "#8c8c8c", "#e8710a", "#1a73e8"
QUIET_COLOUR = "#5f6368"
LAG_COLOUR, WAITING_COLOUR = "#202124", "#b31412"
INCHES: Final = (9.0, 5.4)
DPI: Final = 130


@dataclass(frozen=True, slots=True)
class Course:
    """What is drawn.  The first three count messages by second since 1970."""

    sent: Mapping[int, int]
    by_spark: Mapping[int, int]
    by_threads: Mapping[int, int]
    samples: Sequence[Sample]
    moments: Moments


def draw(course: Course, path: Path) -> None:
    """Write the picture, as a PNG."""
    figure_class: Any = importlib.import_module("matplotlib.figure").Figure
    figure = figure_class(figsize=INCHES, layout="constrained")
    rate, lag = figure.subplots(2, 1, sharex=True)
    start_s = int(course.moments.began_s)
    stop_s = int(course.moments.ended_s or course.samples[-1].time_s) + 1
    _draw_rates(rate, course, start_s, stop_s)
    samples = [each for each in course.samples if each.time_s >= start_s]
    times = [each.time_s - start_s for each in samples]
    lag.plot(times, [each.lag for each in samples], color=LAG_COLOUR, label="lag")
    waiting = [each.waiting for each in samples]
    lag.plot(times, waiting, color=WAITING_COLOUR, label="waiting for a retry", linewidth=1.2)
    lag.set_ylabel("messages")
    lag.set_xlabel("seconds since the first message")
    lag.set_title("Behind: stored and not committed by the group", loc="left", fontsize=10)
    for axis in (rate, lag):
        axis.set_xlim(0, stop_s - start_s)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
        _draw_moments(axis, course.moments, start_s, with_words=axis is rate)
        axis.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.savefig(path, format="png", dpi=DPI)


def _draw_rates(axis: Any, course: Course, start_s: int, stop_s: int) -> None:
    edges = list(range(stop_s - start_s + 1))
    seconds = range(start_s, stop_s)
    for counts, label, colour, fill in (
        (course.by_spark, "consumed on Spark", SPARK_COLOUR, True),
        (course.by_threads, "consumed on threads", THREADS_COLOUR, True),
        (course.sent, "sent", SENT_COLOUR, False),
    ):
        heights = [counts.get(second, 0) for second in seconds]
        if fill:
            axis.stairs(heights, edges, color=colour, fill=True, alpha=0.35)
        axis.stairs(heights, edges, color=colour, label=label, linewidth=1.4)
    axis.set_ylabel("messages a second")
    axis.set_title(
        "Sent, and consumed by listeners, in each second", loc="left", fontsize=10, pad=18
    )


def _draw_moments(axis: Any, moments: Moments, start_s: int, *, with_words: bool) -> None:
    """A line at each turn.  The words stand above, each on its side, so as not to meet."""
    for at_s, words, side in (
        (moments.threads_joined_s, "threads join", "right"),
        (moments.spark_left_s, "Spark is gone", "left"),
    ):
        if at_s is None:
            continue
        axis.axvline(at_s - start_s, color=QUIET_COLOUR, linewidth=0.9, linestyle=(0, (4, 3)))
        if with_words:
            axis.annotate(
                words,
                (at_s - start_s, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(0, 3),
                textcoords="offset points",
                ha=side,
                va="bottom",
                fontsize=8,
                color=QUIET_COLOUR,
            )
