"""The sinks of a run of listeners, and how each gets the rows without a second call of listeners.

    "none"                             rows are only counted
    "console"                          the first rows of each micro-batch are shown
    {"format": "parquet", "path": …}   appended to a table or to files; other keys are options
    {…, "rows": "listeners"}           the same with a row for each listener and micro-batch
    function(frame, batch_id)          called with the rows of each micro-batch
    several of these                   each gets every micro-batch

Spark computes a row, and so calls its listener, each time that the row is read.  So a micro-batch
that is read more than once is persisted first, and all sinks read the persisted rows.

Invariant: when a function or one of several sinks gets a micro-batch, all its listeners have run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from flintmq.errors import InvalidSetting
from flintmq.spark.outcomes.outcome_rows import HIDDEN
from flintmq.spark.outcomes.outcome_summary import SummaryOf, write_summary

SHOWN_MAX: Final = 20
"""Rows of a micro-batch that the console shows."""

SinkFunction: TypeAlias = Callable[[DataFrame, int], object]
Sink: TypeAlias = str | Mapping[str, Any] | SinkFunction

ROWS: Final = "rows"
MESSAGES: Final = "messages"
LISTENERS: Final = "listeners"
"""What a row of a sink is about."""

NONE: Final = "none"
CONSOLE: Final = "console"


def read_sinks(sink: Sink | Sequence[Sink]) -> tuple[Sink, ...]:
    """One sink or several, checked."""
    is_one = isinstance(sink, str | Mapping) or callable(sink)
    sinks: tuple[Sink, ...] = (sink,) if is_one else tuple(sink)  # type: ignore[assignment, arg-type]  # told apart above
    for each in sinks:
        if isinstance(each, str) and each not in (NONE, CONSOLE):
            reason = f'is "{NONE}", "{CONSOLE}", a function, or {{"format": …}}'
            raise InvalidSetting("sink", each, reason)
        if isinstance(each, Mapping) and not isinstance(each.get("format"), str):
            raise InvalidSetting("sink", str(dict(each))[:80], "it names no format")
        if isinstance(each, Mapping) and each.get(ROWS, MESSAGES) not in (MESSAGES, LISTENERS):
            reason = f"a row is about one of {MESSAGES}, {LISTENERS}"
            raise InvalidSetting("sink", f"{ROWS}={each[ROWS]}"[:80], reason)
        if not isinstance(each, str | Mapping) and not callable(each):
            raise InvalidSetting("sink", repr(each)[:80], "is no sink")
    return tuple(each for each in sinks if each != NONE)


def attach(
    frame: DataFrame,
    sinks: Sequence[Sink],
    of: SummaryOf,
    check: Callable[[], None] | None,
    settle: Callable[[DataFrame], None] | None = None,
    on_error: Callable[[str], None] | None = None,
) -> DataStreamWriter:
    """Have a query write to the sinks.

    ``check`` raises if a micro-batch may not be committed; ``settle`` gets its rows, with the
    columns that sinks do not see, when all listeners have run.  ``on_error`` gets the text of what
    went wrong, which Spark does not pass on.
    """
    if check is None and settle is None:
        shown = frame.drop(*HIDDEN).writeStream
        if not sinks:
            return shown.format("noop")
        if len(sinks) == 1 and isinstance(sinks[0], Mapping) and not _is_summary(sinks[0]):
            kind, options = _split(sinks[0])
            return shown.format(kind).options(**options)
    return frame.writeStream.foreachBatch(KeptBatch(tuple(sinks), of, check, settle, on_error))


@dataclass(frozen=True)
class KeptBatch:
    """Persists each micro-batch until all sinks have read it.

    Listeners are called when its rows are first read.  Without a sink they are read once, and so
    nothing is persisted.
    """

    sinks: tuple[Sink, ...]
    of: SummaryOf
    check: Callable[[], None] | None
    settle: Callable[[DataFrame], None] | None = None
    on_error: Callable[[str], None] | None = None

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        if self.sinks:
            frame.persist()
        try:
            if self.sinks or self.settle is None:
                frame.count()
            if self.check is not None:
                self.check()
            for sink in self.sinks:
                self._give(sink, frame, batch_id)
            if self.check is not None and self.sinks:
                self.check()
            if self.settle is not None:
                self.settle(frame)
        except Exception as error:
            if self.on_error is not None:
                self.on_error(str(error))
            raise
        finally:
            if self.sinks:
                frame.unpersist()

    def _give(self, sink: Sink, frame: DataFrame, batch_id: int) -> None:
        shown = frame.drop(*HIDDEN)
        if isinstance(sink, str):
            shown.show(SHOWN_MAX, truncate=False)
        elif not isinstance(sink, Mapping):
            sink(shown, batch_id)
        else:
            kind, options = _split(sink)
            if _is_summary(sink):
                write_summary(frame, batch_id, self.of, kind, options)
            else:
                shown.write.format(kind).mode("append").options(**options).save()


def _is_summary(sink: Mapping[str, Any]) -> bool:
    return sink.get(ROWS) == LISTENERS


def _split(sink: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    options = {name: value for name, value in sink.items() if name != ROWS}
    return options.pop("format"), options
