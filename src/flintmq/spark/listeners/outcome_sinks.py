"""The sinks of a run of listeners, and how each gets the rows without a second call of listeners.

    "none"                             rows are only counted
    "console"                          the first rows of each micro-batch are shown
    {"format": "parquet", "path": …}   appended to a table or to files; other keys are options
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

SHOWN_MAX: Final = 20
"""Rows of a micro-batch that the console shows."""

SinkFunction: TypeAlias = Callable[[DataFrame, int], object]
Sink: TypeAlias = str | Mapping[str, Any] | SinkFunction

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
        if not isinstance(each, str | Mapping) and not callable(each):
            raise InvalidSetting("sink", repr(each)[:80], "is no sink")
    return tuple(each for each in sinks if each != NONE)


def attach(
    writer: DataStreamWriter, sinks: Sequence[Sink], check: Callable[[], None] | None
) -> DataStreamWriter:
    """Have a query write to the sinks.  ``check`` raises if a micro-batch may not be committed."""
    if check is None and not sinks:
        return writer.format("noop")
    if check is None and len(sinks) == 1 and isinstance(sinks[0], Mapping):
        kind, options = _split(sinks[0])
        return writer.format(kind).options(**options)
    return writer.foreachBatch(KeptBatch(tuple(sinks), check))


@dataclass(frozen=True)
class KeptBatch:
    """Persists each micro-batch until all sinks have read it."""

    sinks: tuple[Sink, ...]
    check: Callable[[], None] | None

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        frame.persist()
        try:
            frame.count()  # calls the listeners
            if self.check is not None:
                self.check()
            for sink in self.sinks:
                _give(sink, frame, batch_id)
            if self.check is not None and self.sinks:
                self.check()
        finally:
            frame.unpersist()


def _give(sink: Sink, frame: DataFrame, batch_id: int) -> None:
    if isinstance(sink, str):
        frame.show(SHOWN_MAX, truncate=False)
    elif isinstance(sink, Mapping):
        kind, options = _split(sink)
        frame.write.format(kind).mode("append").options(**options).save()
    else:
        sink(frame, batch_id)


def _split(sink: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    options = dict(sink)
    return options.pop("format"), options
