"""What a report on topics holds, whoever counted it: numbers, steps of time, names, retries.

    summary.csv     one line for each topic, and one for all together
    over_time.csv   the same in steps of time
    tags.csv        messages of each tag
    keys.csv        the keys that most messages have
    retries.csv     second and later deliveries, and dead letters, of each group

Times are store times, in UTC.  Sizes are those of bodies, unpacked.  Latency is from the sender's
clock to the broker's: where the two differ it is off by as much, and may be negative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from flintmq.errors import InvalidSetting
from flintmq.reports.report_output import ReportTable, utc_text

STEPS_MAX: Final = 200
"""Steps of time unless told otherwise; more cannot be seen in a picture."""

STEPS_ASKED_MAX: Final = 100_000
"""Steps of time that may be asked for."""

STEPS_MS: Final = tuple(
    1_000 * seconds
    for seconds in (
        *(1, 2, 5, 10, 15, 30),
        *(60 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
        *(3_600 * hours for hours in (1, 2, 3, 6, 12)),
        *(86_400 * days for days in (1, 7, 28, 364)),
    )
)

NAMES_MAX: Final = 100
"""Tags and keys that are listed for each topic, the most frequent ones."""

QUANTILES: Final = (0.5, 0.9, 0.99)

ALL: Final = "*"
"""What stands in place of a topic for all together; no topic is called so."""

RETRY: Final = "retry"
DEAD: Final = "dead letter"


@dataclass(frozen=True, slots=True)
class RetryCount:
    """In one step of time: retries or dead letters of messages that one group got from a topic."""

    start_ms: int
    topic: str
    group: str
    kind: str
    messages: int


@dataclass(frozen=True, slots=True)
class Numbers:
    """Messages that have a topic, and perhaps a step of time, in common.

    Quantiles are those of `QUANTILES` and then the largest; sizes in bytes, latencies in
    milliseconds, null where no message says when it was born.
    """

    topic: str
    messages: int
    body_bytes: int
    first_ms: int | None
    last_ms: int | None
    sizes: tuple[int, ...]
    latencies_ms: tuple[int | None, ...]
    clock_ahead: int
    """Messages that were stored before they were born."""
    untagged: int
    without_key: int
    bad_records: int = 0
    """Messages that cannot be decoded; what is said of bodies is said of the others."""


@dataclass(frozen=True, slots=True)
class Step:
    """What was stored in one step of time."""

    start_ms: int
    numbers: Numbers


@dataclass(frozen=True, slots=True)
class NameCount:
    """How many messages of a topic have a tag or a key; ``name`` None is none."""

    topic: str
    name: str | None
    messages: int


@dataclass(frozen=True, slots=True)
class TopicCounts:
    """Everything that was counted.  Topic `ALL` is all of them together."""

    summary: tuple[Numbers, ...]
    step_ms: int
    steps: tuple[Step, ...]
    tags: tuple[NameCount, ...]
    keys: tuple[NameCount, ...]
    retries: tuple[RetryCount, ...]

    @property
    def total(self) -> Numbers:
        return next(each for each in self.summary if each.topic == ALL)

    def tables(self) -> tuple[ReportTable, ...]:
        """The tables, as they are written to files."""
        return (
            ReportTable("summary", _SUMMARY_HEAD, tuple(map(self._summary_row, self.summary))),
            ReportTable("over_time", _STEP_HEAD, tuple(map(self._step_row, self.steps))),
            ReportTable("tags", ("topic", "tag", "messages"), _names(self.tags)),
            ReportTable("keys", ("topic", "key", "messages"), _names(self.keys)),
            ReportTable(
                "retries",
                ("start", "topic", "consumer_group", "what", "messages"),
                tuple(
                    (utc_text(each.start_ms), each.topic, each.group, each.kind, each.messages)
                    for each in self.retries
                ),
            ),
        )

    def _summary_row(self, of: Numbers) -> tuple[object, ...]:
        first, last = of.first_ms, of.last_ms
        spent_s = 0.0 if first is None or last is None else (last - first) / 1000
        peak = max(
            (each.numbers.messages for each in self.steps if each.numbers.topic == of.topic),
            default=0,
        )
        average = _rate(of.messages, spent_s)  # a step may be longer than that
        return (
            of.topic,
            of.messages,
            of.body_bytes,
            utc_text(first),
            utc_text(last),
            average,
            max(filter(None, (average, _rate(peak, self.step_ms / 1000))), default=0.0),
            *of.sizes,
            *of.latencies_ms,
            of.clock_ahead,
            of.untagged,
            of.without_key,
            self._retried(of.topic, "retry"),
            self._retried(of.topic, "dead letter"),
            of.bad_records,
        )

    def _retried(self, topic: str, kind: str) -> int:
        return sum(
            each.messages
            for each in self.retries
            if each.kind == kind and topic in (ALL, each.topic)
        )

    def _step_row(self, step: Step) -> tuple[object, ...]:
        of, step_s = step.numbers, self.step_ms / 1000
        return (
            utc_text(step.start_ms),
            step_s,
            of.topic,
            of.messages,
            _rate(of.messages, step_s),
            _rate(of.body_bytes, step_s),
            *of.sizes,
            *of.latencies_ms,
        )


_QUANTILE_NAMES: Final = (*(f"p{round(100 * each)}" for each in QUANTILES), "max")
_SIZE_NAMES: Final = tuple(f"size_{each}_bytes" for each in _QUANTILE_NAMES)
_LATENCY_NAMES: Final = tuple(f"latency_{each}_ms" for each in _QUANTILE_NAMES)
_SUMMARY_HEAD: Final = (
    *("topic", "messages", "body_bytes", "first", "last", "per_second", "peak_per_second"),
    *_SIZE_NAMES,
    *_LATENCY_NAMES,
    *("stored_before_born", "untagged", "without_key", "retries", "dead_letters", "bad_records"),
)
_STEP_HEAD: Final = (
    *("start", "seconds", "topic", "messages", "per_second", "bytes_per_second"),
    *_SIZE_NAMES,
    *_LATENCY_NAMES,
)


_NO_SIZES: Final = (0,) * (len(QUANTILES) + 1)
_NO_LATENCIES: Final = (None,) * (len(QUANTILES) + 1)
NOTHING: Final = Numbers(ALL, 0, 0, None, None, _NO_SIZES, _NO_LATENCIES, 0, 0, 0)


def choose_step_ms(first_ms: int | None, last_ms: int, asked_ms: int | None) -> int:
    """A step that people use, of which there are not too many."""
    spent_ms = 0 if first_ms is None else last_ms - first_ms
    if asked_ms is not None:
        if spent_ms // asked_ms > STEPS_ASKED_MAX:
            reason = f"would make more than {STEPS_ASKED_MAX} steps"
            raise InvalidSetting("step_ms", str(asked_ms), reason)
        return asked_ms
    return next((each for each in STEPS_MS if spent_ms <= each * STEPS_MAX), STEPS_MS[-1])


def _names(counts: Sequence[NameCount]) -> tuple[tuple[object, ...], ...]:
    return tuple((each.topic, each.name, each.messages) for each in counts)


def _rate(amount: int, seconds: float) -> float | None:
    return round(amount / seconds, 3) if seconds > 0 else None
