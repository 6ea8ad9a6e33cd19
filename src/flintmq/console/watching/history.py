"""Samples of the last hour, so that a chart starts with a past.

Every `INTERVAL_S` the brokers are asked how they are doing.  Topics and groups are sampled too,
all of them in a cluster with at most `SAMPLED_MAX` of a kind, else those that somebody looked at
in the last minutes: a sweep never asks about thousands.

Invariant: memory is bounded by `SAMPLED_MAX` times `KEPT` samples of each kind.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from flintmq.console.watching.cluster_view import ClusterView
from flintmq.core.admin.broker_status import BrokerStatus
from flintmq.core.admin.lag import GroupLag
from flintmq.core.admin.lag_rates import LagTrend, LagWatch
from flintmq.core.admin.topics import QueueStats, TopicKind
from flintmq.errors import FlintError
from flintmq.logs import logger
from flintmq.net.clock import monotonic_ms, wall_ms

log = logger(__name__)

INTERVAL_S: Final = 10.0
KEPT: Final = 360
"""Samples of a series: an hour."""

SAMPLED_MAX: Final = 100
"""Topics, and groups, of one sweep; in larger clusters those that are looked at."""

WATCHED_MS: Final = 10 * 60_000
"""How long a topic or group is sampled after somebody looked at it."""


class Sample(NamedTuple):
    at_ms: int
    value: float


@dataclass(slots=True)
class TopicHistory:
    """One topic: its newest queues, and messages a second over time."""

    kind: TopicKind
    queues: tuple[QueueStats, ...] = ()
    seen_ms: int = 0
    per_s: deque[Sample] = field(default_factory=lambda: deque(maxlen=KEPT))

    @property
    def messages(self) -> int:
        return sum(each.count for each in self.queues)

    @property
    def last_ms(self) -> int | None:
        return max((each.last_ms for each in self.queues if each.last_ms), default=None)

    def add(self, queues: tuple[QueueStats, ...], now_ms: int, at_ms: int) -> None:
        before, after = _ends(self.queues), _ends(queues)
        if self.seen_ms and now_ms > self.seen_ms:
            grown = max(0, after - before)
            self.per_s.append(Sample(at_ms, grown * 1000 / (now_ms - self.seen_ms)))
        self.queues, self.seen_ms = queues, now_ms


@dataclass(slots=True)
class GroupHistory:
    """One group: its newest lag, and how it changed."""

    watch: LagWatch = field(default_factory=LagWatch)
    lag: GroupLag | None = None
    trend: LagTrend | None = None
    behind: deque[Sample] = field(default_factory=lambda: deque(maxlen=KEPT))

    def add(self, lag: GroupLag, now_ms: int, at_ms: int) -> None:
        self.lag = lag
        self.trend, _ = self.watch.add(lag, now_ms)
        self.behind.append(Sample(at_ms, lag.lag))


class History:
    """Sweeps over a cluster and what they found."""

    def __init__(
        self,
        cluster: ClusterView,
        *,
        clock: Callable[[], int] = monotonic_ms,
        wall: Callable[[], int] = wall_ms,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._wall = wall
        self._sweeping = asyncio.Lock()
        self._watched_topics: dict[str, int] = {}
        self._watched_groups: dict[str, int] = {}
        self.brokers: tuple[BrokerStatus, ...] = ()
        self.sent: deque[Sample] = deque(maxlen=KEPT)
        self.delivered: deque[Sample] = deque(maxlen=KEPT)
        self.topics: dict[str, TopicHistory] = {}
        self.groups: dict[str, GroupHistory] = {}
        self.is_whole = False
        """Whether every topic and group is sampled."""
        self.swept_ms: int | None = None
        self.error: str | None = None
        """Why the last sweep failed."""

    def watch_topic(self, topic: str) -> None:
        """Somebody looks at a topic: it is sampled for some minutes."""
        self._watch(self._watched_topics, topic)

    def watch_group(self, group: str) -> None:
        self._watch(self._watched_groups, group)

    async def run(self) -> None:
        """Sweep until cancelled.  A cluster that is away is asked again."""
        while True:
            try:
                await self.sweep()
            except FlintError as error:
                if self.error is None:
                    log.warning("no samples of the cluster: %s", error)
                self.error = str(error).partition("\n")[0]
            await asyncio.sleep(INTERVAL_S)

    async def sweep(self) -> None:
        """Ask once for everything that is sampled; sweeps never overlap."""
        async with self._sweeping:
            await self._sweep()

    async def _sweep(self) -> None:
        self.brokers = await self._cluster.status()
        at_ms = self._wall()
        figures = [each.figures for each in self.brokers if each.figures is not None]
        self.sent.append(Sample(at_ms, sum(each.sent_per_s or 0 for each in figures)))
        self.delivered.append(Sample(at_ms, sum(each.delivered_per_s or 0 for each in figures)))
        names = await self._cluster.topics()
        kinds: dict[str, TopicKind] = {
            each.name: each.kind for each in names if each.kind is not TopicKind.SYSTEM
        }
        known = {each.name for each in await self._cluster.groups() if not each.is_system}
        self.is_whole = max(len(kinds), len(known)) <= SAMPLED_MAX
        now_ms = self._clock()
        await self._sweep_topics(self._chosen(kinds, self._watched_topics, now_ms), kinds)
        await self._sweep_groups(self._chosen(known, self._watched_groups, now_ms))
        self.swept_ms, self.error = self._wall(), None

    def _chosen(self, known: Iterable[str], watched: dict[str, int], now_ms: int) -> list[str]:
        for name in [name for name, at in watched.items() if now_ms - at > WATCHED_MS]:
            del watched[name]
        names = set(known)
        return sorted(names if len(names) <= SAMPLED_MAX else names & watched.keys())

    async def _sweep_topics(self, topics: list[str], kinds: dict[str, TopicKind]) -> None:
        found = await self._cluster.queues_of(topics)
        kept = {name: self.topics.get(name, TopicHistory(kinds[name])) for name in topics}
        for name, queues in zip(topics, found, strict=True):
            if not isinstance(queues, FlintError):
                kept[name].add(queues, self._clock(), self._wall())
        self.topics = kept

    async def _sweep_groups(self, groups: list[str]) -> None:
        found = await self._cluster.lags(groups)
        kept = {name: self.groups.get(name, GroupHistory()) for name in groups}
        for name, lag in zip(groups, found, strict=True):
            if not isinstance(lag, FlintError):
                kept[name].add(lag, self._clock(), self._wall())
        self.groups = kept

    def _watch(self, watched: dict[str, int], name: str) -> None:
        watched.pop(name, None)
        watched[name] = self._clock()
        while len(watched) > SAMPLED_MAX:
            del watched[next(iter(watched))]


def _ends(queues: tuple[QueueStats, ...]) -> int:
    return sum(each.max_offset for each in queues)
