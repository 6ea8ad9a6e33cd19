"""Filter push-down: filters of a query that say which queues and offsets need not be read.

    topic, broker, queue_id, partition   choose queues             exact
    queue_offset, offset                 cut spans                 exact
    store_time, timestamp                cut spans, with a margin  Spark filters the rows again

Times have a margin because a broker's clock may have been set back: messages of a queue are
nearly in the order of their store times, not quite.

Invariant: no row that passes the filters is cut off.  A filter for which `push_down` returns
True holds for every row that is read, so Spark need not evaluate it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from typing import Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from flintmq.arrow.reading.queue_source import QueueSource
from flintmq.arrow.schema import Form
from flintmq.model.group import without_namespace
from flintmq.model.queue import QueueOffset, QueueRef, Span
from flintmq.spark.source.partitions import partition_numbers

TIME_ROOM_MS: Final = 60_000
"""How far a clock may have been set back without a row being missed."""

_OFFSETS: Final = {Form.ROCKETMQ: "queue_offset", Form.KAFKA: "offset"}
_TIMES: Final = {Form.ROCKETMQ: "store_time", Form.KAFKA: "timestamp"}


class Conditions:
    """The filters of one query; a row has to pass all of them."""

    def __init__(self, form: Form, namespace: str = "") -> None:
        self._form = form
        self._namespace = namespace
        self._allowed: list[tuple[str, frozenset[object]]] = []
        self._from = 0
        self._to: int | None = None
        self._from_ms: int | None = None
        self._to_ms: int | None = None

    def push_down(self, condition: Filter) -> bool:
        """Use a filter; whether it is exact, so that Spark need not evaluate it."""
        attribute: tuple[str, ...] = getattr(condition, "attribute", ())
        if len(attribute) != 1:
            return False
        [column] = attribute
        if column in self._queue_columns:
            return self._take_values(column, condition)
        if column == _OFFSETS[self._form]:
            return self._take_offsets(condition)
        if column == _TIMES[self._form]:
            self._take_times(condition)
        return False

    def narrow(self, queues: QueueSource, spans: Collection[Span]) -> Iterable[Span]:
        """The parts of the spans that may hold rows of the query."""
        numbers = partition_numbers(span.queue for span in spans)
        left = [
            span
            for span in spans
            if all(
                self._value(name, span.queue, numbers) in values for name, values in self._allowed
            )
        ]
        left = [_cut(span, self._from, self._to) for span in left]
        refs = [span.queue for span in left if len(span)]
        if self._from_ms is not None and refs:
            starts = queues.offsets_at(refs, max(0, self._from_ms - TIME_ROOM_MS))
            left = [_cut(span, starts.get(span.queue, 0), None) for span in left]
        if self._to_ms is not None and refs:
            stops = queues.offsets_at(refs, max(0, self._to_ms + TIME_ROOM_MS))
            left = [_cut(span, 0, stops.get(span.queue)) for span in left]
        return left

    @property
    def _queue_columns(self) -> Collection[str]:
        if self._form is Form.KAFKA:
            return ("topic", "partition")
        return ("topic", "broker", "queue_id")

    def _value(self, column: str, queue: QueueRef, numbers: dict[QueueRef, int]) -> object:
        match column:
            case "topic":
                return without_namespace(self._namespace, queue.topic)
            case "broker":
                return queue.broker
            case "queue_id":
                return queue.queue_id
            case _:
                return numbers[queue]

    def _take_values(self, column: str, condition: Filter) -> bool:
        wanted: type = str if column in ("topic", "broker") else int
        if isinstance(condition, EqualTo):
            values: tuple[object, ...] = (condition.value,)
        elif isinstance(condition, In):
            values = tuple(condition.value)
        else:
            return False
        if not all(type(value) is wanted for value in values):
            return False
        self._allowed.append((column, frozenset(values)))
        return True

    def _take_offsets(self, condition: Filter) -> bool:
        number = getattr(condition, "value", None)
        if type(number) is not int:
            return False
        match condition:
            case EqualTo():
                self._between(number, number + 1)
            case GreaterThan():
                self._between(number + 1, None)
            case GreaterThanOrEqual():
                self._between(number, None)
            case LessThan():
                self._between(0, number)
            case LessThanOrEqual():
                self._between(0, number + 1)
            case _:
                return False
        return True

    def _between(self, start: int, stop: int | None) -> None:
        self._from = max(self._from, start)
        if stop is not None:
            self._to = stop if self._to is None else min(self._to, stop)

    def _take_times(self, condition: Filter) -> None:
        when = getattr(condition, "value", None)
        if not isinstance(when, datetime):
            return
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        time_ms = int(when.timestamp() * 1000)
        if isinstance(condition, EqualTo | GreaterThan | GreaterThanOrEqual):
            self._from_ms = _chosen(max, self._from_ms, time_ms)
        if isinstance(condition, EqualTo | LessThan | LessThanOrEqual):
            self._to_ms = _chosen(min, self._to_ms, time_ms + 1)


def _cut(span: Span, start: int, stop: int | None) -> Span:
    last = span.stop if stop is None else min(span.stop, max(0, stop))
    first = max(span.start, start)
    return Span(span.queue, QueueOffset(min(first, max(last, 0))), QueueOffset(max(last, 0)))


def _chosen(choose: Callable[[int, int], int], known: int | None, given: int) -> int:
    return given if known is None else choose(known, given)
