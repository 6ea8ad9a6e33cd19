"""How fast a consumer pulls and consumes: rates of the last minute, failures of the last hour.

Everything is counted up from the start; every ten seconds the counts are noted.  A rate is the
difference to what was noted a minute ago.

Invariant: of each topic at most an hour of notes is kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

from flintmq.core.group.actions import Deliver

SAMPLE_MS: Final = 10_000
MINUTE_MS: Final = 60_000
SAMPLES_MAX: Final = 360
"""An hour of notes."""


class Counts(NamedTuple):
    """Messages and time of one topic since the start."""

    at_ms: int = 0
    ok: int = 0
    failed: int = 0
    batches: int = 0
    spent_us: int = 0
    pulled: int = 0
    pulls: int = 0
    pull_ms: int = 0


@dataclass(frozen=True, slots=True)
class TopicRates:
    """Messages a second and milliseconds a call, over the last minute."""

    topic: str
    ok: int
    failed: int
    ok_per_s: float
    failed_per_s: float
    consume_ms: float
    pulled_per_s: float
    pull_ms: float
    failed_last_hour: int


class _TopicCounts:
    __slots__ = ("batches", "failed", "ok", "pull_ms", "pulled", "pulls", "samples", "spent_us")

    def __init__(self, now_ms: int) -> None:
        self.ok = self.failed = self.batches = self.spent_us = 0
        self.pulled = self.pulls = self.pull_ms = 0
        self.samples: deque[Counts] = deque([Counts(now_ms)], SAMPLES_MAX)

    def counts(self, now_ms: int) -> Counts:
        return Counts(
            now_ms,
            self.ok,
            self.failed,
            self.batches,
            self.spent_us,
            self.pulled,
            self.pulls,
            self.pull_ms,
        )


class ConsumerStats:
    """The counts of one consumer, by topic.  Used on the loop alone."""

    def __init__(self) -> None:
        self._topics: dict[str, _TopicCounts] = {}

    def add_topic(self, topic: str, now_ms: int) -> None:
        self._topics.setdefault(topic, _TopicCounts(now_ms))

    def consumed(self, topic: str, ok: int, failed: int, spent_ns: int) -> None:
        """A listener ended: how many of its messages are consumed, and how many are not."""
        counts = self._topics[topic]
        counts.ok += ok
        counts.failed += failed
        counts.batches += 1
        counts.spent_us += spent_ns // 1_000

    def consumed_whole(self, ended: Iterable[tuple[Deliver, int]]) -> None:
        """Listeners ended whose messages are all consumed: batches and their times."""
        for topic, some in groupby(ended, _topic_of):
            counts, spent_ns = self._topics[topic], 0
            for batch, took_ns in some:
                counts.ok += len(batch.messages)
                counts.batches += 1
                spent_ns += took_ns
            counts.spent_us += spent_ns // 1_000

    def pulled(self, topic: str, count: int, spent_ms: int) -> None:
        """A pull brought messages."""
        counts = self._topics[topic]
        counts.pulled += count
        counts.pulls += 1
        counts.pull_ms += spent_ms

    def sample(self, now_ms: int) -> None:
        """Note where the counts are; to be called every `SAMPLE_MS`."""
        for topic in self._topics.values():
            topic.samples.append(topic.counts(now_ms))

    def rates(self, now_ms: int) -> Iterator[TopicRates]:
        for name, topic in self._topics.items():
            now = topic.counts(now_ms)
            hour = topic.samples[0]
            minute = next((s for s in topic.samples if s.at_ms > now_ms - MINUTE_MS), now)
            seconds = max(now_ms - minute.at_ms, SAMPLE_MS) / 1_000
            batches, pulls = now.batches - minute.batches, now.pulls - minute.pulls
            spent_us, pull_ms = now.spent_us - minute.spent_us, now.pull_ms - minute.pull_ms
            if not batches:  # a quiet minute: what it took before
                batches, spent_us = now.batches - hour.batches, now.spent_us - hour.spent_us
            yield TopicRates(
                topic=name,
                ok=now.ok,
                failed=now.failed,
                ok_per_s=(now.ok - minute.ok) / seconds,
                failed_per_s=(now.failed - minute.failed) / seconds,
                consume_ms=spent_us / batches / 1_000 if batches else 0.0,
                pulled_per_s=(now.pulled - minute.pulled) / seconds,
                pull_ms=pull_ms / pulls if pulls else 0.0,
                failed_last_hour=now.failed - hour.failed,
            )


def _topic_of(ended: tuple[Deliver, int]) -> str:
    return ended[0].queue.topic
