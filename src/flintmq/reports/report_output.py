"""What reports have in common: tables as CSV, times in UTC, and pictures by matplotlib."""

from __future__ import annotations

import csv
import importlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from flintmq.errors import InvalidSetting

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

LABEL_CHARACTERS_MAX: Final = 48
"""How much of a name fits beside a bar."""

BARS_MIN: Final = 6
"""A panel has room for so many bars, so that one alone is no wall."""

GRID: Final = {"alpha": 0.3}


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table of a report; ``name`` is that of its file."""

    name: str
    head: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]

    def facts(self) -> list[dict[str, object]]:
        return [dict(zip(self.head, row, strict=True)) for row in self.rows]

    def write(self, directory: Path) -> Path:
        path = directory / f"{self.name}.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(self.head)
            writer.writerows(self.rows)
        return path


def ready_directory(out: str, picture: str) -> Path:
    """Where a report goes, made if need be; what is missing for its picture is said here."""
    path = Path(out).expanduser()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidSetting("out", out, error.strerror or str(error)) from None
    require_plots(str(path / picture))
    return path


def require_plots(path: str) -> None:
    """Raise `InvalidSetting` when a plot cannot be made."""
    try:
        importlib.import_module("matplotlib")
    except ImportError:
        reason = "plots need matplotlib: pip install matplotlib"
        raise InvalidSetting("plot", path, reason) from None
    parent = Path(path).resolve().parent
    if not parent.is_dir():
        raise InvalidSetting("plot", path, f"there is no directory {parent}")


def utc_text(time_ms: int | None) -> str | None:
    """A time as text: to the second, which is what reports are about."""
    moment = utc_time(time_ms)
    return None if moment is None else f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def utc_time(time_ms: int | None) -> datetime | None:
    if time_ms is None:
        return None
    try:
        return EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return None


def figure_of(rows: int, columns: int, size: tuple[float, float]) -> tuple[Any, Sequence[Any]]:
    """A figure and its axes, row by row."""
    figure_class: Any = importlib.import_module("matplotlib.figure").Figure
    figure = figure_class(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    return figure, list(axes.flat)


def bars(axis: Any, title: str, counts: Iterable[tuple[str, int]], what: str) -> None:
    """Names with their counts, the largest on top."""
    shown = list(counts)[::-1]
    axis.set_title(title, loc="left", fontsize="medium")
    if not shown:
        empty(axis, "none")
        return
    places = range(len(shown))
    drawn = axis.barh(places, [count for _, count in shown], color="C0")
    axis.bar_label(drawn, [f"{count:,}" for _, count in shown], padding=3, fontsize="small")
    axis.set_yticks(places, [short(name) for name, _ in shown], fontsize="small")
    axis.set_xlim(0, 1.15 * max(count for _, count in shown))
    axis.set_ylim(len(shown) - max(len(shown), BARS_MIN) - 0.6, len(shown) - 0.4)
    axis.set_xlabel(what)
    count_axis(axis.xaxis)
    axis.grid(axis="x", **GRID)


def count_axis(axis: Any) -> None:
    """Ticks at whole numbers."""
    ticker: Any = importlib.import_module("matplotlib.ticker")
    axis.set_major_locator(ticker.MaxNLocator(nbins=6, integer=True))
    axis.set_major_formatter("{x:,.0f}")


def empty(axis: Any, words: str) -> None:
    """An axis with nothing to show says so."""
    axis.text(0.5, 0.5, words, transform=axis.transAxes, ha="center", va="center", color="0.4")
    axis.set_xticks([])
    axis.set_yticks([])


def time_axis(axis: Any) -> None:
    """Times below an axis, as short as they can be, in UTC.

    With the usual five ticks at least, some spans have no step: one of 250 seconds, for instance.
    """
    dates: Any = importlib.import_module("matplotlib.dates")
    locator = dates.AutoDateLocator(tz=UTC, minticks=3, maxticks=8)
    axis.xaxis.set_major_locator(locator)
    axis.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=UTC))
    axis.set_xlabel("UTC")


def day_axis(axis: Any) -> None:
    """The time axis of whole days: each tick is a day, however few there are."""
    dates: Any = importlib.import_module("matplotlib.dates")
    locator = dates.AutoDateLocator(tz=UTC, minticks=1, maxticks=10)
    locator.intervald[dates.HOURLY] = [24]
    axis.xaxis.set_major_locator(locator)
    axis.xaxis.set_major_formatter(dates.DateFormatter("%Y-%m-%d", tz=UTC))
    axis.tick_params(axis="x", labelrotation=30)
    axis.set_xlabel("day, UTC")


def short(name: str) -> str:
    text = "".join(each if each.isprintable() else " " for each in name)
    text = text if len(text) <= LABEL_CHARACTERS_MAX else text[: LABEL_CHARACTERS_MAX - 1] + "…"
    return text.replace("$", r"\$")  # matplotlib would read what is between two as a formula
