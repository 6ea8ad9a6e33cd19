"""Counts of messages since the start, by topic, for metrics.

The counters of `broker_stats` know rates of a minute, an hour and a day; these know the type of a
message and how large messages are.  A send only appends the sizes of its records to a list; they
are put into buckets some thousand at a time, or when somebody looks.

Topics and groups are those of the broker's own tables; who deletes one calls `forget_topic` or
`forget_group`, and its series end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from flintmq.metrics.families import Distribution
from flintmq.model import properties as names

SIZE_BOUNDS: Final = (1_024, 4_096, 524_288, 1_048_576, 2_097_152, 4_194_304)
FINISH_BOUNDS_S: Final = (5, 60, 600, 3_600, 43_200, 86_400)
DELAY_BOUNDS_S: Final = (60, 600, 3_600, 43_200, 86_400, 259_200)

NORMAL: Final = "normal"
FIFO: Final = "fifo"
DELAY: Final = "delay"
TRANSACTION: Final = "transaction"

PENDING_MAX = 4_096
"""Sizes that wait to be put into buckets, of each topic and type: 32 KB."""

_DELAYED = (
    names.DELAY,
    names.TIMER_DELAY_SEC,
    names.TIMER_DELAY_MS,
    names.TIMER_DELIVER_MS,
)


def type_of(properties: Mapping[str, str]) -> str:
    """The type of a message, as RocketMQ tells it from the properties."""
    if properties.get(names.TRAN_MSG, "").lower() == "true":
        return TRANSACTION
    if not properties.keys().isdisjoint(_DELAYED):
        return DELAY
    return FIFO if names.SHARDING_KEY in properties else NORMAL


class MessageCounts:
    """All counts of one broker."""

    def __init__(self) -> None:
        self._stored: dict[tuple[str, str], Distribution] = {}
        self._pending: dict[tuple[str, str], list[int]] = {}  # of those, not in buckets yet
        self.dead: dict[tuple[str, str], int] = {}
        """Dead letters by original topic and group."""
        self.committed: dict[str, Distribution] = {}
        """Seconds from a half message to its commit, by topic."""
        self.rolled_back: dict[str, int] = {}
        self.half_open: dict[str, int] = {}
        """Half messages that came since the start and did not end, by topic."""
        self.schedule_read = [0, 0]
        """Messages and bytes that were read from the schedule topic to be delivered."""
        self.timers_in: dict[str, Distribution] = {}
        """Seconds that timer messages asked to wait, by topic."""
        self.timers_out: dict[str, int] = {}

    @property
    def stored(self) -> dict[tuple[str, str], Distribution]:
        """Sizes of records by topic and type."""
        for place in self._pending:
            self._fold(place)
        return self._stored

    def add(self, topic: str, kind: str, sizes: Sequence[int]) -> None:
        """Messages with records of these sizes were stored."""
        pending = self._pending.get((topic, kind))
        if pending is None:
            pending = self._pending[topic, kind] = []
        pending += sizes
        if len(pending) > PENDING_MAX:
            self._fold((topic, kind))

    def add_alike(self, topic: str, kind: str, count: int, total_bytes: int) -> None:
        """Messages of about the same size were stored: those of a batch."""
        found = self._stored.get((topic, kind)) or self._make((topic, kind))
        found.add(total_bytes / count, count)

    def buried(self, topic: str, group: str) -> None:
        """A message became a dead letter."""
        self.dead[topic, group] = self.dead.get((topic, group), 0) + 1

    def half_came(self, topic: str) -> None:
        """A half message was stored."""
        self.half_open[topic] = self.half_open.get(topic, 0) + 1

    def half_ended(self, topic: str, *, after_ms: int | None) -> None:
        """A half message was committed ``after_ms``, or rolled back."""
        self.half_open[topic] = max(self.half_open.get(topic, 0) - 1, 0)
        if after_ms is None:
            self.rolled_back[topic] = self.rolled_back.get(topic, 0) + 1
        else:
            times = self.committed.get(topic)
            if times is None:
                times = self.committed[topic] = Distribution(FINISH_BOUNDS_S)
            times.add(max(after_ms, 0) // 1_000)

    def timer_came(self, topic: str, delay_ms: int) -> None:
        """A timer message was taken that is to wait for so long."""
        delays = self.timers_in.get(topic)
        if delays is None:
            delays = self.timers_in[topic] = Distribution(DELAY_BOUNDS_S)
        delays.add(delay_ms // 1_000)

    def timers_went(self, topic: str, count: int) -> None:
        """Timer messages were delivered."""
        self.timers_out[topic] = self.timers_out.get(topic, 0) + count

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted."""
        for kind in (NORMAL, FIFO, DELAY, TRANSACTION):
            self._stored.pop((topic, kind), None)
            self._pending.pop((topic, kind), None)
        for table in self._by_topic():
            table.pop(topic, None)
        self.dead = {place: count for place, count in self.dead.items() if place[0] != topic}

    def forget_group(self, group: str) -> None:
        """A consumer group was deleted."""
        self.dead = {place: count for place, count in self.dead.items() if place[1] != group}

    def _fold(self, place: tuple[str, str]) -> None:
        """Put the sizes that wait into their buckets."""
        pending = self._pending[place]
        if pending:
            found = self._stored.get(place) or self._make(place)
            sizes = np.array(pending)
            pending.clear()
            buckets = np.searchsorted(SIZE_BOUNDS, sizes)
            counts = np.bincount(buckets, minlength=len(found.counts)).tolist()
            found.counts = [old + new for old, new in zip(found.counts, counts, strict=True)]
            found.sum += int(sizes.sum())

    def _make(self, place: tuple[str, str]) -> Distribution:
        made = self._stored[place] = Distribution(SIZE_BOUNDS)
        return made

    def _by_topic(self) -> Iterator[dict[str, Distribution] | dict[str, int]]:
        yield self.committed
        yield self.rolled_back
        yield self.half_open
        yield self.timers_in
        yield self.timers_out
