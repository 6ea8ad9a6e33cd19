"""What a watcher of the story sees: a scene every quarter of a second, and the samples of all."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from flintmq.cli.demo.orders import GROUP
from flintmq.cli.demo.story import Story
from flintmq.cli.demo.tally import SPARK, THREADS, Totals
from flintmq.errors import FlintError
from flintmq.logs import logger

log = logger(__name__)

RATE_OVER_S: Final = 5.0
"""Rates are taken over so long: batches of Spark come all at once."""

OWNERS_EVERY_S: Final = 1.0

Owners = Mapping[str, Mapping[str, tuple[int, ...]]]
"""Queues by runner and by topic."""


class Sample(NamedTuple):
    """How it stood at one time, in seconds since 1970."""

    time_s: float
    sent: int
    by_spark: int
    by_threads: int
    lag: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Scene:
    """All that is shown of one moment."""

    act: str
    elapsed_s: float
    count: int
    totals: Totals
    now: Sample
    sent_rate: float
    spark_rate: float
    threads_rate: float
    lags: tuple[int, ...]
    owners: Owners


class Watcher:
    """Looks at a story.  One thread calls `look`; who owns which queue is asked on another."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._began_s = time.time()
        self._owners: Owners = {}
        self._ended = threading.Event()
        self._asking = threading.Thread(target=self._ask, name="flintmq-demo-owners", daemon=True)
        self.samples: list[Sample] = []
        self._asking.start()

    def close(self) -> None:
        self._ended.set()
        self._asking.join()

    def look(self) -> Scene:
        """Take a sample, and what it means."""
        story = self._story
        totals = story.tally.totals()
        now = Sample(
            time.time(),
            story.sender.acknowledged,
            totals.by.get(SPARK, 0),
            totals.by.get(THREADS, 0),
            story.lag(),
            story.broker.delayed(),
        )
        self.samples.append(now)
        before = next(each for each in self.samples if each.time_s >= now.time_s - RATE_OVER_S)
        span_s = now.time_s - before.time_s or 1.0
        return Scene(
            story.act,
            now.time_s - self._began_s,
            story.count,
            totals,
            now,
            (now.sent - before.sent) / span_s,
            (now.by_spark - before.by_spark) / span_s,
            (now.by_threads - before.by_threads) / span_s,
            tuple(each.lag for each in self.samples),
            self._owners,
        )

    def _ask(self) -> None:
        """Ask the members themselves which queues they have, as `flintmq group show` does."""
        with self._story.broker.admin() as admin:
            while not self._ended.wait(OWNERS_EVERY_S):
                with suppress(FlintError):  # they come and go
                    found: dict[str, dict[str, list[int]]] = {}
                    for told in admin.diagnose(GROUP).members:
                        runner = self._runner(told.member.client_id)
                        table = {} if told.running is None else told.running.mq_table
                        for queue, state in table.items():
                            if not state.dropped:
                                topics = found.setdefault(runner, {})
                                topics.setdefault(queue.topic, []).append(queue.queue_id)
                    self._owners = {
                        runner: {topic: tuple(sorted(ids)) for topic, ids in topics.items()}
                        for runner, topics in found.items()
                    }

    def _runner(self, client_id: str) -> str:
        return THREADS if client_id == self._story.threads_id else SPARK
