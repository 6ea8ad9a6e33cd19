"""What tasks report to the driver: listeners that failed, and messages that became dead letters.

    task    failure, dead letter, counts ──► `TaskReports` ──► column ``report`` of one outcome row
    driver  progress of the query ──► `DriverReports` ──► warnings, with the traceback once

The log of a task is in the process of an executor, perhaps on another machine; the log of the
driver is on the terminal or in the notebook of the user.  Spark collects the column with the counts
of a micro-batch, so the warnings come when it ends.

Refuses to pass on every failure: a task has one report for each kind of error, with a count, and
the driver logs `LINES_A_MINUTE` lines of a kind.

Invariant: what one task reports is limited, however many of its messages fail.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from flintmq.core.group.listener_failures import (
    LINES_A_MINUTE,
    Failing,
    failure_kind,
    failure_text,
)
from flintmq.core.group.listener_results import shown
from flintmq.logs import logger
from flintmq.net.clock import monotonic_ms
from flintmq.spark.outcomes.outcome_counts import OutcomeCounts

KINDS_MAX: Final = 20
"""Different errors that one task reports."""

DEAD_MAX: Final = 10
"""Dead letters of one task that are reported one by one; the others are counted."""

LOGGED_MAX: Final = 1_000
"""Kinds that the driver counts; the oldest is forgotten, and its traceback is logged again."""

TRACE_CHARACTERS_MAX: Final = 8_000
"""The end of a traceback that travels."""

DEAD: Final = "dead letter"
OTHERS: Final = "other errors"

COUNTS: Final = "counts"
"""The counts of a task, once for all its rows.  Not logged."""

RAISED: Final = "raised"
"""Calls of a listener that raised: the topic is the text, the last error the trace.  Not logged."""

_MINUTE_MS: Final = 60_000

log = logger("flintmq.spark")


@dataclass(slots=True)
class Report:
    """One kind of event in one task: the text of the first, and how many there were."""

    kind: str
    text: str = ""
    trace: str = ""
    count: int = 0
    counts: dict[str, Any] | None = None
    """Of the kind `COUNTS`: what `OutcomeCounts.tree` gave."""


class TaskReports:
    """The events of one task that are not reported yet."""

    def __init__(self) -> None:
        self._failures: dict[str, Report] = {}
        self._raised: dict[str, Report] = {}
        self._dead: list[Report] = []
        self.counts = OutcomeCounts()

    def add_failure(self, failing: Failing) -> None:
        """A listener raised."""
        topic = failing.messages[0].topic
        raised = self._raised.setdefault(topic, Report(RAISED, topic))
        raised.count += 1
        raised.trace = shown(failing.error)
        error_type, file, line = failure_kind(failing.error)
        report = self._count(f"{error_type.__qualname__} at {file}:{line}")
        if report.count == 1:
            report.text = failure_text(failing)
            report.trace = "".join(traceback.format_exception(failing.error))
            report.trace = report.trace[-TRACE_CHARACTERS_MAX:]

    def add_fault(self, topic: str, fault: object) -> None:
        """A listener returned something that means nothing."""
        report = self._count(f"result of the listener of {topic}")
        report.text = report.text or f"listener of topic {topic!r}: {fault}"

    def add_dead(self, text: str) -> None:
        """A message became a dead letter."""
        if len(self._dead) < DEAD_MAX:
            self._dead.append(Report(DEAD, text, count=1))
        else:
            self._dead[-1].count += 1

    def drain(self) -> str | None:
        """All reports as text, once; None when there are none."""
        reports = [*self._failures.values(), *self._dead, *self._raised.values()]
        if (counts := self.counts.tree()) is not None:
            reports.append(Report(COUNTS, counts=counts))
        self._failures, self._raised, self._dead = {}, {}, []
        self.counts = OutcomeCounts()
        return json.dumps([asdict(each) for each in reports]) if reports else None

    def _count(self, kind: str) -> Report:
        if kind not in self._failures and len(self._failures) >= KINDS_MAX:
            kind = OTHERS
        report = self._failures.setdefault(kind, Report(kind))
        report.count += 1
        return report


def read_reports(texts: Iterable[str]) -> Iterator[Report]:
    """What `TaskReports.drain` wrote."""
    for text in texts:
        for tree in json.loads(text):
            yield Report(**tree)


def counts_of(texts: Iterable[str]) -> OutcomeCounts:
    """What all tasks of one micro-batch counted."""
    found = OutcomeCounts()
    for report in read_reports(texts):
        if report.counts is not None:
            found.add_tree(report.counts)
    return found


def raised_by_topic(texts: Iterable[str]) -> dict[str, tuple[int, str]]:
    """Calls that raised in one micro-batch, and the last error, by topic."""
    found: dict[str, tuple[int, str]] = {}
    for report in read_reports(texts):
        if report.kind == RAISED:
            before, _ = found.get(report.text, (0, ""))
            found[report.text] = (before + report.count, report.trace)
    return found


class TaskTraceback(Exception):
    """The traceback of an exception in a task, which stayed there."""

    def __str__(self) -> str:
        return f"in a task of Spark\n{self.args[0]}"


@dataclass(slots=True)
class _Logged:
    count: int = 0
    minute: int = -1
    lines: int = 0


class DriverReports:
    """Logs the reports of all tasks of a run, in the program that started it."""

    def __init__(self) -> None:
        self._kinds: dict[str, _Logged] = {}

    def log_all(self, texts: Iterable[str]) -> None:
        """Log what the tasks of one micro-batch reported."""
        for report in read_reports(texts):
            if report.kind not in (RAISED, COUNTS):
                self._log(report)

    def _log(self, report: Report) -> None:
        if report.kind not in self._kinds and len(self._kinds) == LOGGED_MAX:
            del self._kinds[next(iter(self._kinds))]
        known = self._kinds.setdefault(report.kind, _Logged())
        is_first, minute = not known.count, monotonic_ms() // _MINUTE_MS
        known.count += report.count
        if minute != known.minute:
            known.minute, known.lines = minute, 0
        if known.lines == LINES_A_MINUTE:
            return
        known.lines += 1
        if report.kind == DEAD:
            counted = f" ({known.count} dead letters by now)" if known.count > 1 else ""
            log.warning("%s%s", report.text, counted)
        elif is_first:
            more = f" (and {report.count - 1} times more)" if report.count > 1 else ""
            trace = TaskTraceback(report.trace) if report.trace else None
            log.warning("%s%s", report.text, more, exc_info=trace)
        else:
            log.warning("%s (this error %d times by now)", report.text, known.count)
