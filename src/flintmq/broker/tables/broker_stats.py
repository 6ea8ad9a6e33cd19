"""Counters of the broker: by name and key over a minute, an hour and a day, and in total.

Nothing has to be sampled by a clock.  A counter notes what it had at a boundary when it is
first touched after it; since nothing was added in between, that is what it had then, however
long nobody touched it.  A window is the difference to the oldest boundary inside it, so it is
at most as long as its name says and at most one step shorter.

Keys come from peers, so their number is limited: when the table is full, counters nobody
touched for a day are deleted, and if there are none, new keys are not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from flintmq.broker.counters.message_counts import MessageCounts
from flintmq.protocol.bodies.stats import BrokerStats, RateSample

KEYS_MAX = 20_000
"""Counters by name and key that are kept; each has up to 40 samples."""

TOPIC_PUT_NUMS: Final = "TOPIC_PUT_NUMS"
TOPIC_PUT_SIZE: Final = "TOPIC_PUT_SIZE"
GROUP_GET_NUMS: Final = "GROUP_GET_NUMS"
GROUP_GET_SIZE: Final = "GROUP_GET_SIZE"
SNDBCK_PUT_NUMS: Final = "SNDBCK_PUT_NUMS"
BROKER_PUT_NUMS: Final = "BROKER_PUT_NUMS"
BROKER_GET_NUMS: Final = "BROKER_GET_NUMS"
GROUP_GET_LATENCY: Final = "GROUP_GET_LATENCY"
GROUP_GET_FALL_SIZE: Final = "GROUP_GET_FALL_SIZE"
GROUP_GET_FALL_TIME: Final = "GROUP_GET_FALL_TIME"
TIMER_DELIVERED_NUMS: Final = "TIMER_DELIVERED_NUMS"

_SIZE_OF = {TOPIC_PUT_NUMS: TOPIC_PUT_SIZE, GROUP_GET_NUMS: GROUP_GET_SIZE}
"""A counter of sizes knows how many things had them, so it serves for both names."""


class Window(NamedTuple):
    """How far back to look, and in which steps."""

    step_ms: int
    width_ms: int


MINUTE = Window(10_000, 60_000)
HOUR = Window(600_000, 3_600_000)
DAY = Window(3_600_000, 86_400_000)

TEN_SECONDS = Window(1_000, 10_000)
TEN_MINUTES = Window(10_000, 600_000)
TWO_DAYS = Window(86_400_000, 2 * 86_400_000)

_BY_KEY = (MINUTE, HOUR, DAY)
_IN_TOTAL = (TEN_SECONDS, TEN_MINUTES, *_BY_KEY, TWO_DAYS)

SPAN_MS_MIN = 1_000
"""The rate of a counter younger than this is computed as if it were this old."""


class Growth(NamedTuple):
    """What came to a counter in the last ``span_ms``."""

    sum: int
    times: int
    span_ms: int

    @property
    def per_second(self) -> float:
        return self.sum * 1_000 / max(self.span_ms, SPAN_MS_MIN)

    @property
    def counted(self) -> Growth:
        """How many things came in the last ``span_ms``."""
        return Growth(self.times, self.times, self.span_ms)

    @property
    def sample(self) -> RateSample:
        average = self.sum / self.times if self.times else 0.0
        return RateSample(avgpt=average, sum=self.sum, tps=self.per_second)


class Counter:
    """A sum, of how many things, and what they were at boundaries of time."""

    __slots__ = ("_began_ms", "_samples", "_windows", "due_ms", "sum", "times")

    def __init__(self, windows: tuple[Window, ...], now_ms: int) -> None:
        self.sum = 0
        self.times = 0
        self.due_ms = 0
        """From when on `sample` comes before the next change."""
        self._windows = windows
        self._began_ms = now_ms
        self._samples: tuple[list[tuple[int, int, int]], ...] = tuple([] for _ in windows)
        self.sample(now_ms)

    def add(self, total: int, times: int, now_ms: int) -> None:
        if now_ms >= self.due_ms:
            self.sample(now_ms)
        self.sum += total
        self.times += times

    def sample(self, now_ms: int) -> None:
        """Remember what was there at the last boundary of each window."""
        for (step_ms, width_ms), samples in zip(self._windows, self._samples, strict=True):
            at_ms = now_ms - now_ms % step_ms
            if not samples or samples[-1][0] < at_ms:
                samples.append((at_ms, self.sum, self.times))
                while samples[0][0] < at_ms - width_ms:
                    del samples[0]
        first_ms = self._windows[0].step_ms
        self.due_ms = now_ms - now_ms % first_ms + first_ms

    def before(self, window: Window, at_ms: int) -> tuple[int, int]:
        """Sum and times at a boundary; what came since is not in it."""
        for noted_ms, total, times in self._samples[self._windows.index(window)]:
            if noted_ms >= at_ms:
                return total, times
        return self.sum, self.times

    def growth(self, window: Window, now_ms: int, width_ms: int | None = None) -> Growth:
        """What came in a window, or in the last part of it."""
        step_ms, widest_ms = window
        from_ms = -(-(now_ms - (width_ms or widest_ms)) // step_ms) * step_ms
        total, times = self.before(window, from_ms)
        span_ms = now_ms - max(from_ms, self._began_ms)
        return Growth(self.sum - total, self.times - times, span_ms)

    def is_idle(self, now_ms: int) -> bool:
        """Whether nothing came for a day."""
        return now_ms - self.due_ms > DAY.width_ms

    def carry(self, delta_ms: int) -> None:
        """Move along with the clock."""
        self._began_ms += delta_ms
        self.due_ms += delta_ms
        for samples in self._samples:
            samples[:] = [(ms + delta_ms, total, times) for ms, total, times in samples]


_PullCounters: TypeAlias = tuple[Counter, Counter, Counter, Counter]
"""Sizes, latencies, bytes behind and milliseconds behind of a group's pulls of a queue."""


class Stats:
    """All counters of a broker."""

    def __init__(self, now_ms: int, cluster: str = "DefaultCluster") -> None:
        self.dropped_count = 0
        """Changes that were not counted, because the table was full."""
        self.counts = MessageCounts()
        """Messages by type, for metrics."""
        self.puts = Counter(_IN_TOTAL, now_ms)
        """Bytes and number of messages that were sent."""
        self.gets = Counter(_IN_TOTAL, now_ms)
        """Bytes and number of messages that were handed out."""
        self.found = Counter(_IN_TOTAL, now_ms)
        """Pulls that found something …"""
        self.missed = Counter(_IN_TOTAL, now_ms)
        """… and those that did not."""
        self._of_broker = {
            (BROKER_PUT_NUMS, cluster): self.puts,
            (BROKER_GET_NUMS, cluster): self.gets,
        }
        self._by_key: dict[tuple[str, str], Counter] = {}
        self._of_pulls: dict[tuple[str, str, int], _PullCounters] = {}  # of those above
        self._tidied_ms = now_ms

    # Counting

    def add(
        self, name: str, key: str, now_ms: int, *, count: int = 1, total: int | None = None
    ) -> None:
        """``count`` more things happened, which sum up to ``total``, or to their number."""
        counter = self._by_key.get((name, key))
        if counter is None:
            counter = self._make(name, key, now_ms)
            if counter is None:
                self.dropped_count += 1
                return
        counter.add(count if total is None else total, count, now_ms)

    def sent(self, topic: str, count: int, size_bytes: int, now_ms: int) -> None:
        """Messages of a topic were stored."""
        self.puts.add(size_bytes, count, now_ms)
        self.add(TOPIC_PUT_SIZE, topic, now_ms, count=count, total=size_bytes)

    def pulled(self, group: str, topic: str, count: int, size_bytes: int, now_ms: int) -> None:
        """A pull was answered, with ``count`` messages or with none."""
        if not count:
            self.missed.add(1, 1, now_ms)
            return
        self.found.add(1, 1, now_ms)
        self.gets.add(size_bytes, count, now_ms)
        self.add(GROUP_GET_SIZE, f"{topic}@{group}", now_ms, count=count, total=size_bytes)

    def found_behind(
        self,
        place: tuple[str, str, int],
        count: int,
        size_bytes: int,
        fall_bytes: int,
        fall_ms: int,
        now_ms: int,
    ) -> None:
        """A pull of a group, of a topic's queue, found messages, and is that far behind."""
        self.found.add(1, 1, now_ms)
        self.gets.add(size_bytes, count, now_ms)
        counters = self._of_pulls.get(place) or self._pull_counters(place, now_ms)
        sizes, latency, fall_sizes, fall_times = counters
        sizes.add(size_bytes, count, now_ms)
        latency.add(0, 1, now_ms)
        fall_sizes.add(fall_bytes, 1, now_ms)
        fall_times.add(fall_ms, 1, now_ms)

    # Looking

    def growth(self, name: str, key: str, window: Window, now_ms: int) -> Growth | None:
        """What came to a counter, or nothing when nothing ever was."""
        counter = self._by_key.get((name, key))
        if counter is not None:
            return counter.growth(window, now_ms)
        counter = self._of_broker.get((name, key)) or self._by_key.get(
            (_SIZE_OF.get(name, ""), key)
        )
        return None if counter is None else counter.growth(window, now_ms).counted

    def view(self, name: str, key: str, now_ms: int) -> BrokerStats | None:
        """One counter as 315 shows it, or nothing when nothing was counted."""
        minute = self.growth(name, key, MINUTE, now_ms)
        hour = self.growth(name, key, HOUR, now_ms)
        day = self.growth(name, key, DAY, now_ms)
        if minute is None or hour is None or day is None:
            return None
        return BrokerStats(stats_day=day.sample, stats_hour=hour.sample, stats_minute=minute.sample)

    def per_second(self, name: str, key: str, now_ms: int) -> float:
        """How fast a counter grew in the last minute."""
        growth = self.growth(name, key, MINUTE, now_ms)
        return 0.0 if growth is None else growth.per_second

    def totals(self, name: str) -> list[tuple[str, int, int]]:
        """All counters of a name: key, how many things, and their sum."""
        return [
            (key, counter.times, counter.sum)
            for (each, key), counter in self._by_key.items()
            if each == name
        ]

    def __len__(self) -> int:
        return len(self._by_key)

    # Deleting

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted."""
        self.counts.forget_topic(topic)
        self._forget(lambda _, key: topic in key.split("@")[:-1] or key == topic)

    def forget_group(self, group: str) -> None:
        """A consumer group was deleted."""
        self.counts.forget_group(group)
        self._forget(lambda _, key: key.endswith(f"@{group}"))

    def carry(self, delta_ms: int) -> None:
        """Move along with the clock."""
        for counter in self._all():
            counter.carry(delta_ms)

    # Inside

    def _make(self, name: str, key: str, now_ms: int) -> Counter | None:
        if len(self._by_key) >= KEYS_MAX and not self._tidy(now_ms):
            return None
        made = self._by_key[name, key] = Counter(_BY_KEY, now_ms)
        return made

    def _pull_counters(self, place: tuple[str, str, int], now_ms: int) -> _PullCounters:
        """The counters of a group's pulls of a queue; one there is no room for is forgotten."""
        group, topic, queue_id = place
        key = f"{queue_id}@{topic}@{group}"
        keys = [(GROUP_GET_SIZE, f"{topic}@{group}")]
        keys += [(n, key) for n in (GROUP_GET_LATENCY, GROUP_GET_FALL_SIZE, GROUP_GET_FALL_TIME)]
        for each in keys:
            if each not in self._by_key:
                self._make(*each, now_ms)  # others may go
        found = [self._by_key.get(each) for each in keys]
        missing_count = found.count(None)
        sizes, latency, fall_sizes, fall_times = (
            counter or Counter(_BY_KEY, now_ms) for counter in found
        )
        counters = sizes, latency, fall_sizes, fall_times
        if missing_count:
            self.dropped_count += missing_count
        else:
            self._of_pulls[place] = counters
        return counters

    def _tidy(self, now_ms: int) -> bool:
        """Make room, at most once an hour because it is slow; return whether there is some."""
        if now_ms - self._tidied_ms >= DAY.step_ms:
            self._tidied_ms = now_ms
            self._of_pulls.clear()
            for place in [p for p, counter in self._by_key.items() if counter.is_idle(now_ms)]:
                del self._by_key[place]
        return len(self._by_key) < KEYS_MAX

    def _forget(self, goes: Callable[[str, str], bool]) -> None:
        self._of_pulls.clear()
        for place in [place for place in self._by_key if goes(*place)]:
            del self._by_key[place]

    def _all(self) -> Iterator[Counter]:
        yield from (self.puts, self.gets, self.found, self.missed)
        yield from self._by_key.values()
