"""The task of a replay: dead letters in, at a rate, and what became of each out.

    sent          it is stored again
    failed        it could not be, see its error
    not tried     too many failed before it
    passed over   an earlier run sent it

`core.admin.dead_letters` decides what a dead letter keeps and where it goes; here routes are
kept, failures that may pass are tried again, and time is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyspark.sql import Row

from flintmq.arrow.reading.access import Access, Line
from flintmq.core.admin.cluster import require_route
from flintmq.core.admin.dead_letters import ReplayTo, name_letter, new_life, send_again
from flintmq.core.producer.publisher import may_try_again
from flintmq.core.producer.send_patience import BUSY_FIRST_MS
from flintmq.errors import FlintError
from flintmq.model import properties as names
from flintmq.model.route import Route
from flintmq.net.clock import wall_ms

TRIES: Final = 4
"""Of one dead letter."""

FAILURES_MAX: Final = 10
"""In a row, in one task: then something is wrong that more tries do not mend."""

ROUTE_S: Final = 30.0
"""How long a route is used, as by producers."""

LETTER_COLUMNS: Final = (
    "broker",
    "queue_id",
    "queue_offset",
    "message_id",
    "topic",
    "properties",
    "body",
    "flag",
    "store_time",
)

SENT: Final = "sent"
FAILED: Final = "failed"
NOT_TRIED: Final = "not tried"
PASSED_OVER: Final = "passed over"


class SentRow(NamedTuple):
    """The result of one dead letter.  ``topic`` is the topic it was sent to."""

    broker: str
    queue_id: int
    queue_offset: int
    message_id: str
    topic: str | None
    outcome: str
    error: str | None


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The settings of a task.  ``rate`` is its own share of messages a second."""

    access: Access
    group: str
    to: ReplayTo
    rate: float
    done: frozenset[tuple[str, int, int]] = frozenset()


def send_rows(plan: TaskPlan) -> Callable[[Iterable[Row]], Iterator[SentRow]]:
    """A function for the rows of a partition."""

    def run(rows: Iterable[Row]) -> Iterator[SentRow]:
        with plan.access.open() as line:
            sender = Sender(line, plan)
            for row in rows:
                yield sender.send_when_due(row)

    return run


class Sender:
    """The sending side of one task.  Used by one thread."""

    def __init__(self, line: Line, plan: TaskPlan) -> None:
        self._line = line
        self._plan = plan
        self._routes: dict[str, tuple[Route, float]] = {}
        self._failures = 0
        self._next_s = time.monotonic()

    def send_when_due(self, row: Row) -> SentRow:
        """Send one dead letter when it is due."""
        place = row.broker, row.queue_id, row.queue_offset
        if place in self._plan.done:
            return SentRow(*place, row.message_id, None, PASSED_OVER, None)
        if self._failures >= FAILURES_MAX:
            return SentRow(*place, row.message_id, None, NOT_TRIED, None)
        topic, kept = new_life(row.properties, row.topic, self._plan.group, self._plan.to)
        stored_ms = round(row.store_time.timestamp() * 1000)
        kept[names.DLQ_REPLAY_OF] = name_letter(*place, stored_ms)
        self._wait()
        try:
            self._send(topic, kept, row)
        except FlintError as error:
            self._failures += 1
            return SentRow(*place, row.message_id, topic, FAILED, str(error))
        self._failures = 0
        return SentRow(*place, row.message_id, topic, SENT, None)

    def _wait(self) -> None:
        """Wait until the next message may be sent.  Lost time is not made up for."""
        now_s = time.monotonic()
        time.sleep(max(0.0, self._next_s - now_s))
        self._next_s = max(now_s, self._next_s) + 1 / self._plan.rate

    def _send(self, topic: str, properties: dict[str, str], row: Row) -> None:
        for tried in range(1, TRIES + 1):
            try:
                again = send_again(
                    self._route(topic),
                    topic,
                    properties,
                    bytes(row.body),
                    flag=row.flag,
                    broker=row.broker,
                    turn=row.queue_offset,
                    now_ms=wall_ms(),
                )
                self._line.hold(again)
                return
            except FlintError as error:
                if tried == TRIES or not may_try_again(error):
                    raise
                self._routes.pop(topic, None)
                time.sleep((BUSY_FIRST_MS << tried) / 1000)

    def _route(self, topic: str) -> Route:
        route, until_s = self._routes.get(topic, (None, 0.0))
        if route is None or time.monotonic() > until_s:
            route = self._line.hold(require_route(self._line.namesrv, topic))
            self._routes[topic] = route, time.monotonic() + ROUTE_S
        return route
