"""Charts as SVG, drawn on the server: they need no script and stand in the page at once.

A chart has a text for those who do not see it, and every page links the same samples as a table.

Invariant: the markup is made of numbers and of escaped text alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final, NamedTuple

from markupsafe import Markup

from flintmq.console.watching.history import Sample

WIDTH: Final = 1120
HEIGHT: Final = 170
LEFT: Final = 56
BOTTOM: Final = 24
TOP: Final = 10
RIGHT: Final = 8

GAP_MS: Final = 60_000
"""Between samples further apart than this the line is broken: nobody looked."""

STEPS: Final = (1, 2, 5, 10)


class Series(NamedTuple):
    name: str
    samples: Sequence[Sample]


def line_chart(
    title: str,
    series: Iterable[Series],
    *,
    gap_ms: int | None = GAP_MS,
    span: str = "the last hour",
) -> Markup:
    """Lines over time, from 0; an empty chart says that samples are still to come.

    A line has a gap where samples are further apart than ``gap_ms``.
    """
    shown = [each for each in series if each.samples]
    if sum(len(each.samples) for each in shown) < 2:
        return Markup('<p class="quiet">The chart begins with the next samples.</p>')
    times = [sample.at_ms for each in shown for sample in each.samples]
    start_ms, stop_ms = min(times), max(*times, min(times) + 1)
    top = _round_up(max(sample.value for each in shown for sample in each.samples))
    frame = _Frame(start_ms, stop_ms, top)
    parts = [_grid(frame)]
    parts += [_line(each, frame, number, gap_ms) for number, each in enumerate(shown)]
    newest = ", ".join(f"{each.name} {_number(each.samples[-1].value)}" for each in shown)
    names = Markup("").join(
        Markup('<span class="key key-{}">{}</span>').format(number, each.name)
        for number, each in enumerate(shown)
    )
    return Markup(
        '<figure class="chart"><figcaption>{title} {names}</figcaption>'
        '<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}">{parts}</svg></figure>'
    ).format(
        title=title,
        names=names,
        width=WIDTH,
        height=HEIGHT,
        label=f"{title}, {span}; now {newest}; at most {_number(top)}",
        parts=Markup("").join(parts),
    )


class _Frame(NamedTuple):
    start_ms: int
    stop_ms: int
    top: float

    def x(self, at_ms: int) -> float:
        part = (at_ms - self.start_ms) / (self.stop_ms - self.start_ms)
        return round(LEFT + part * (WIDTH - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        return round(HEIGHT - BOTTOM - value / self.top * (HEIGHT - BOTTOM - TOP), 1)


def _grid(frame: _Frame) -> Markup:
    lines = []
    for share in (0, 0.5, 1):
        y = frame.y(share * frame.top)
        lines.append(
            Markup(
                '<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>'
                '<text x="{}" y="{}" text-anchor="end">{}</text>'
            ).format(LEFT, WIDTH - RIGHT, y, y, LEFT - 6, y + 4, _number(share * frame.top))
        )
    for at_ms, anchor in ((frame.start_ms, "start"), (frame.stop_ms, "end")):
        at = datetime.fromtimestamp(at_ms / 1000, UTC)
        lines.append(
            Markup('<text x="{}" y="{}" text-anchor="{}">{} UTC</text>').format(
                frame.x(at_ms), HEIGHT - 6, anchor, f"{at:%H:%M:%S}"
            )
        )
    return Markup("").join(lines)


def _line(series: Series, frame: _Frame, number: int, gap_ms: int | None) -> Markup:
    first = series.samples[0]
    words = [f"M{frame.x(first.at_ms)} {frame.y(first.value)}"]
    for before, sample in pairwise(series.samples):
        is_gap = gap_ms is not None and sample.at_ms - before.at_ms > gap_ms
        verb = "M" if is_gap else "L"
        words.append(f"{verb}{frame.x(sample.at_ms)} {frame.y(sample.value)}")
    return Markup('<path class="line line-{}" d="{}"/>').format(number, " ".join(words))


def _round_up(value: float) -> float:
    """The next 1, 2 or 5 with zeros: an axis that people can read."""
    size = 1.0
    while size * 10 < value:
        size *= 10
    return next((step * size for step in STEPS if step * size >= value), 10 * size)


def _number(value: float) -> str:
    if value >= 1_000_000:
        return f"{value / 1_000_000:g} M"
    if value >= 10_000:
        return f"{value / 1_000:g} k"
    return f"{value:,.1f}".removesuffix(".0")
