"""When the function that pulls a queue runs again.

    gained ──► due ──due()──► running ──finished: after the delay it set──► due …
                                 │      failed: after 1 s
      lost at any time: forgotten; a run that is under way ends and is not repeated

Invariant: the function runs at most once at a time for each queue.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from flintmq.core.consumer.due_queue import Agenda
from flintmq.core.group.consumer_settings import check_range
from flintmq.model.queue import QueueRef

NEXT_DELAY_MS: Final = 200
"""Until the next run, unless the function says otherwise."""

FAILED_DELAY_MS: Final = 1_000
"""Until the next run of a function that raised."""

DELAY_MS_MAX: Final = 24 * 60 * 60_000


@dataclass(eq=False, slots=True)
class PullRun:
    """The runs of one queue's function, one after the other.

    A queue that was lost and came back has another: the two are told apart by identity.
    """

    queue: QueueRef
    is_running: bool = False
    is_lost: bool = False
    changed_ms: int = 0
    """Since when it runs, or when it will run next."""
    has_failed: bool = False
    """Whether the last run raised."""


class PullSchedule:
    """All queues whose functions are to run."""

    def __init__(self) -> None:
        self._runs: dict[QueueRef, PullRun] = {}
        self._agenda: Agenda[PullRun] = Agenda()

    @property
    def queues(self) -> frozenset[QueueRef]:
        return frozenset(self._runs)

    def runs(self) -> list[PullRun]:
        """Every queue's, by queue."""
        return [self._runs[queue] for queue in sorted(self._runs)]

    def queues_changed(self, topic: str, own: Iterable[QueueRef], now_ms: int) -> None:
        """These queues of a topic are ours; new ones are due at once."""
        wanted = set(own)
        for queue, run in list(self._runs.items()):
            if queue.topic == topic and queue not in wanted:
                run.is_lost = True
                self._agenda.drop(run)
                del self._runs[queue]
        for queue in sorted(wanted - self._runs.keys()):
            run = self._runs[queue] = PullRun(queue, changed_ms=now_ms)
            self._agenda.schedule(run, now_ms)

    def due(self, now_ms: int) -> list[PullRun]:
        """What to run now.  Every one is reported to `finished` or `failed`."""
        found = self._agenda.pop_due(now_ms)
        for run in found:
            assert not run.is_running
            run.is_running, run.changed_ms = True, now_ms
        return found

    def finished(self, run: PullRun, next_delay_ms: int, now_ms: int) -> None:
        run.is_running, run.has_failed = False, False
        run.changed_ms = now_ms + next_delay_ms
        if not run.is_lost:
            self._agenda.schedule(run, run.changed_ms)

    def failed(self, run: PullRun, now_ms: int) -> None:
        """The function of a queue raised."""
        self.finished(run, FAILED_DELAY_MS, now_ms)
        run.has_failed = True

    def next_due_ms(self) -> int | None:
        return self._agenda.next_due_ms()


def check_delay(delay_ms: object) -> int:
    """The delay a function chose, or `InvalidSetting`."""
    check_range("next_delay_ms", delay_ms, (0, DELAY_MS_MAX))
    assert isinstance(delay_ms, int)
    return delay_ms
