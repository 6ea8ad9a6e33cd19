"""What a consumer counts that pulls by itself: `PullConsumer`, `LitePullConsumer`, `ScheduledPull`.

A pull adds one time to a table, under a lock, since any thread may pull.

Invariant: a consumer that stopped leaves its counts and takes its gauges with it.
"""

from __future__ import annotations

import threading
from typing import Final

from flintmq.metrics.families import Distribution, Family, Samples, counter, histogram

PULL_BOUNDS_MS: Final = (1, 5, 10, 50, 100, 500, 1_000, 5_000, 20_000, 30_000)
"""A broker may hold a pull for 20 seconds."""

_WHO: Final = ("topic", "client_id", "consumer_group")

PULL_TIME: Final = histogram(
    "flintmq_client_pull_time_milliseconds",
    "One pull of a pull consumer, from request to answer; a broker may hold it.",
    PULL_BOUNDS_MS,
    *(*_WHO, "invocation_status"),
)
PULLED: Final = counter(
    "flintmq_client_pulled_messages_total",
    "Messages that pull consumers handed to their program.",
    *_WHO,
)

FAMILIES: tuple[Family, ...] = (PULL_TIME, PULLED)

_STATUS: Final = ("failure", "success")


class PullCounts:
    """The pulls of one consumer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._times: dict[tuple[str, bool], Distribution] = {}
        self._messages: dict[str, int] = {}

    def pulled(self, topic: str, took_ns: int, *, is_well: bool) -> None:
        """A pull ended."""
        with self._lock:
            times = self._times.get((topic, is_well))
            if times is None:
                times = self._times[topic, is_well] = Distribution(PULL_BOUNDS_MS)
            times.add(took_ns / 1e6)

    def handed_out(self, topic: str, count: int) -> None:
        """The program got messages."""
        with self._lock:
            self._messages[topic] = self._messages.get(topic, 0) + count

    def fill(self, samples: dict[Family, Samples], who: tuple[str, str]) -> None:
        with self._lock:
            for (topic, is_well), times in self._times.items():
                samples[PULL_TIME].add(times, topic, *who, _STATUS[is_well])
            for topic, count in self._messages.items():
                samples[PULLED].add(count, topic, *who)
