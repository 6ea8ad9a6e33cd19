"""How a run is shown: a live line on a terminal, a line of log for each batch, a plot."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from flintmq.errors import InvalidSetting
from flintmq.logs import logger
from flintmq.spark.figures import BatchFigures, Figures

log = logger("flintmq.spark")


def log_batch(group: str, batch: BatchFigures) -> None:
    lag = "" if batch.lag is None else f", lag {batch.lag}"
    bad = f", {batch.bad_records} bad records" if batch.bad_records else ""
    log.info(
        "%s: batch %d, %d messages in %d ms, %.0f a second%s%s",
        group,
        batch.batch_id,
        batch.messages,
        batch.duration_ms,
        batch.per_second,
        lag,
        bad,
    )


def progress_text(group: str, figures: Figures) -> str:
    """The line: what was done, how fast, what is left."""
    parts = [
        group,
        f"{figures.batches} batches",
        f"{figures.messages:,} messages",
        f"{figures.per_second:,.0f}/s",
    ]
    if figures.bad_records:
        parts.append(f"{figures.bad_records:,} bad records")
    if figures.lag is not None:
        parts.append(f"lag {figures.lag:,}")
    if figures.lag and figures.left_s is not None:
        parts.append(f"{_duration(figures.left_s)} left")
    return "  ".join(parts)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


class LiveLine:
    """One line that changes, on stderr; where that is no terminal, nothing is shown."""

    def __init__(self, group: str, console: Console | None = None) -> None:
        self._group = group
        console = console or Console(stderr=True)
        self._live = Live(console=console, transient=False) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, figures: Figures) -> None:
        if self._live is not None:
            self._live.update(Text(progress_text(self._group, figures)))


def require_plots(path: str) -> None:
    """Say early that a plot cannot be made."""
    try:
        importlib.import_module("matplotlib")
    except ImportError:
        reason = "plots need matplotlib: pip install matplotlib"
        raise InvalidSetting("plot", path, reason) from None
    parent = Path(path).resolve().parent
    if not parent.is_dir():
        raise InvalidSetting("plot", path, f"there is no directory {parent}")


def plot(points: Sequence[BatchFigures], path: str, title: str) -> None:
    """Rate and lag over time, as a PNG."""
    figure_class: Any = importlib.import_module("matplotlib.figure").Figure
    figure = figure_class(figsize=(9, 5), layout="constrained")
    rate, lag = figure.subplots(2, 1, sharex=True)
    times = [datetime.fromisoformat(each.time) for each in points]
    rate.plot(times, [each.per_second for each in points], marker=".")
    rate.set_ylabel("messages a second")
    rate.set_title(title)
    known = [(time, each.lag) for time, each in zip(times, points, strict=True)]
    shown = [(time, value) for time, value in known if value is not None]
    lag.plot([time for time, _ in shown], [value for _, value in shown], marker=".", color="C1")
    lag.set_ylabel("lag, messages")
    for axis in (rate, lag):
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    figure.autofmt_xdate()
    figure.savefig(path, format="png", dpi=120)
