"""The picture of a report on topics: rate, sizes, latency and retries over time, tags and keys."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from flintmq.reports.report_output import (
    EPOCH,
    GRID,
    bars,
    count_axis,
    empty,
    figure_of,
    short,
    time_axis,
    utc_time,
)
from flintmq.reports.topic_figures import ALL, NameCount, TopicCounts

TOPICS_MAX: Final = 6
"""Topics with a line of their own, the largest ones."""

NAMES_SHOWN: Final = 10
WIDE_RANGE: Final = 50
"""A largest value so many times the middle one hides the rest, unless the scale is logarithmic."""

DOTS_MAX: Final = 20

QUANTILES: Final = ("median", "90 of 100 are below", "99 of 100 are below")


def plot_topics(report: TopicCounts, path: Path) -> None:
    """Write it as a PNG."""
    figure, axes = figure_of(3, 2, (14, 11))
    rate, sizes, latency, retries, tags, keys = axes
    total = report.total
    figure.suptitle(f"{_name(report)}: {total.messages:,} messages, {_bytes(total.body_bytes)}")
    step = _duration(report.step_ms)
    _plot_rate(rate, report, step)
    _plot_quantiles(
        sizes, report, "size of bodies", "bytes", {s: n.sizes for s, n in _together(report)}
    )
    _plot_quantiles(
        latency,
        report,
        "latency, from birth to store",
        "milliseconds",
        {s: n.latencies_ms for s, n in _together(report)},
    )
    _plot_retries(retries, report, step)
    bars(tags, "tags", _most(report.tags, "no tag"), "messages")
    bars(keys, "most frequent keys", _most(report.keys, "no key"), "messages")
    figure.savefig(path, format="png", dpi=110)


def _plot_rate(axis: Any, report: TopicCounts, step: str) -> None:
    axis.set_title(f"rate, mean of each {step}", loc="left", fontsize="medium")
    starts = _starts(report)
    if not starts:
        empty(axis, "no messages")
        return
    counts: dict[str, Counter[int]] = {}
    for each in report.steps:
        counts.setdefault(each.numbers.topic, Counter())[each.start_ms] = each.numbers.messages
    topics = [each for each in report.summary if each.topic != ALL]
    largest = sorted(topics, key=lambda each: -each.messages)[:TOPICS_MAX]
    lines = [each.topic for each in largest]
    if len(topics) > 1:
        lines.append(ALL)
    for topic in lines:
        per_second = [counts[topic][start] * 1000 / report.step_ms for start in starts]
        _stairs(axis, report, starts, per_second, "all topics" if topic == ALL else topic)
    axis.set_ylabel("messages a second")
    axis.set_ylim(bottom=0)
    if len(topics) > 1:
        axis.legend(fontsize="small")
    _finish(axis, report, starts)


def _plot_quantiles(
    axis: Any,
    report: TopicCounts,
    title: str,
    unit: str,
    found: Mapping[int, Sequence[int | None]],
) -> None:
    """The middle, the 90th and the 99th of a hundred, step by step; gaps where there is nothing."""
    axis.set_title(title, loc="left", fontsize="medium")
    known = [value for values in found.values() for value in values[:-1] if value is not None]
    if not known:
        empty(axis, "not known")
        return
    starts = _starts(report)
    for at, label in enumerate(QUANTILES):
        values = [_value(found.get(start), at) for start in starts]
        _stairs(axis, report, starts, values, label)
    middle = sorted(known)[len(known) // 2]
    if min(known) >= 0 and max(known) > WIDE_RANGE * max(1, middle):
        axis.set_yscale("symlog", linthresh=1)
        unit += ", logarithmic"
    axis.set_ylabel(unit)
    axis.set_ylim(bottom=min(0, *known))
    axis.yaxis.set_major_formatter("{x:,.0f}")
    axis.legend(fontsize="small")
    _finish(axis, report, starts)


def _plot_retries(axis: Any, report: TopicCounts, step: str) -> None:
    axis.set_title(f"retries and dead letters, each {step}", loc="left", fontsize="medium")
    if not report.retries:
        empty(axis, "none")
        return
    counts: dict[str, Counter[int]] = {"retry": Counter(), "dead letter": Counter()}
    for each in report.retries:
        counts[each.kind][each.start_ms] += each.messages
    starts = _starts(report)
    labels = {"retry": "delivered again", "dead letter": "dead"}
    for kind, colour in (("retry", "C1"), ("dead letter", "C3")):
        if counts[kind]:
            values = [counts[kind][start] for start in starts]
            _stairs(axis, report, starts, values, labels[kind], color=colour)
    axis.set_ylabel("messages")
    axis.set_ylim(bottom=0)
    count_axis(axis.yaxis)
    axis.legend(fontsize="small")
    _finish(axis, report, starts)


def _stairs(
    axis: Any,
    report: TopicCounts,
    starts: Sequence[int],
    values: Sequence[float],
    label: str,
    **style: Any,
) -> None:
    """A value holds for its whole step, and nothing is drawn between two that are not next."""
    edges = [utc_time(start) or EPOCH for start in (*starts, starts[-1] + report.step_ms)]
    drawn = axis.stairs(values, edges, baseline=None, label=short(label), linewidth=1.4, **style)
    shown = [
        (start + report.step_ms // 2, value)
        for start, value in zip(starts, values, strict=True)
        if value and not math.isnan(value)
    ]
    if len(shown) <= DOTS_MAX:  # a step alone is easily missed
        middles = [utc_time(at) for at, _ in shown]
        axis.plot(middles, [value for _, value in shown], "o", ms=4, color=drawn.get_edgecolor())


def _finish(axis: Any, report: TopicCounts, starts: Sequence[int]) -> None:
    axis.set_xlim(utc_time(starts[0]), utc_time(starts[-1] + report.step_ms))
    time_axis(axis)
    axis.grid(**GRID)


def _starts(report: TopicCounts) -> list[int]:
    """Every step from the first to the last, also those in which nothing was stored."""
    known = [each.start_ms for each in report.steps] + [each.start_ms for each in report.retries]
    return list(range(min(known), max(known) + 1, report.step_ms)) if known else []


def _together(report: TopicCounts) -> Iterable[tuple[int, Any]]:
    return ((each.start_ms, each.numbers) for each in report.steps if each.numbers.topic == ALL)


def _value(values: Sequence[int | None] | None, at: int) -> float:
    value = None if values is None else values[at]
    return math.nan if value is None else value


def _most(counts: Iterable[NameCount], nothing: str) -> list[tuple[str, int]]:
    found = [each for each in counts if each.topic == ALL]
    return [
        (nothing if each.name is None else each.name, each.messages) for each in found[:NAMES_SHOWN]
    ]


def _name(report: TopicCounts) -> str:
    topics = [each.topic for each in report.summary if each.topic != ALL]
    return short(topics[0]) if len(topics) == 1 else f"{len(topics)} topics"


def _duration(time_ms: int) -> str:
    for unit_ms, unit in ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute")):
        if time_ms % unit_ms == 0:
            count = time_ms // unit_ms
            return unit if count == 1 else f"{count} {unit}s"
    seconds = time_ms / 1000
    return "second" if seconds == 1 else f"{seconds:g} seconds"


def _bytes(count: int) -> str:
    size, units = float(count), ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{size:,.0f} bytes" if units[0] == "bytes" else f"{size:,.1f} {units[0]}"
