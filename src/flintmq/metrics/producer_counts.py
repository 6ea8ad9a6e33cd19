"""What a producer counts of its sends.

    a send that went well ─► one number at the end of a queue ─┐ some thousands at once,
    any other try         ─► a table, under a lock             ┴─► or when somebody looks ─► buckets

Times are sorted before they are counted, so that a bucket costs one search and not one for each
send.

Invariant: a producer has series for `SERIES_OF_A_CLIENT_MAX` topics at most.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from typing import Final

from flintmq.metrics.families import Distribution, Family, Samples, counter, histogram

SEND_BOUNDS_MS: Final = (1, 5, 10, 20, 50, 200, 500)
_BOUNDS_NS: Final = tuple(bound * 1_000_000 for bound in SEND_BOUNDS_MS)

SEND_TIME: Final = histogram(
    "rocketmq_send_cost_time_milliseconds",
    "From a request with messages to its answer; each try counts.",
    SEND_BOUNDS_MS,
    *("topic", "client_id", "invocation_status"),
)
SENT: Final = counter(
    "flintmq_client_sent_messages_total",
    "Messages sent; a batch counts each.",
    *("topic", "client_id", "invocation_status"),
)
SEND_RETRIES: Final = counter(
    "flintmq_client_send_retries_total", "Tries after the first.", "topic", "client_id"
)

FAMILIES: tuple[Family, ...] = (SEND_TIME, SENT, SEND_RETRIES)

SERIES_OF_A_CLIENT_MAX: Final = 2_000
"""Topics that one producer may have series for: a program may make up any number of them."""

PENDING_MAX: Final = 4_096
"""Times of a topic that wait to be put into buckets: some hundred kilobytes."""

_STATUS: Final = ("failure", "success")


class ProducerCounts:
    """What one producer counts, on any thread."""

    def __init__(self) -> None:
        self.client_id = ""
        self._lock = threading.Lock()
        self._times: dict[tuple[str, bool], tuple[Distribution, list[int]]] = {}
        self._retries: dict[str, int] = {}
        self._pending: dict[str, deque[int]] = {}  # any thread appends

    def went_well(self, topic: str, took_ns: int) -> None:
        """One message was stored.  It is put into its bucket later, with some thousand others."""
        pending = self._pending.get(topic)
        if pending is None:
            with self._lock:
                if len(self._pending) >= SERIES_OF_A_CLIENT_MAX:
                    return
                pending = self._pending.setdefault(topic, deque())
        pending.append(took_ns)
        if len(pending) > PENDING_MAX:
            with self._lock:
                self._fold(topic, pending)

    def sent(self, topic: str, count: int, took_ns: int, *, is_well: bool) -> None:
        """A try ended, of some messages."""
        with self._lock:
            found = self._find(topic, is_well=is_well)
            if found is not None:
                found[0].add(took_ns / 1e6)
                found[1][0] += count

    def retried(self, topic: str) -> None:
        with self._lock:
            if topic in self._retries or len(self._retries) < SERIES_OF_A_CLIENT_MAX:
                self._retries[topic] = self._retries.get(topic, 0) + 1

    def _find(self, topic: str, *, is_well: bool) -> tuple[Distribution, list[int]] | None:
        found = self._times.get((topic, is_well))
        if found is None and len(self._times) < SERIES_OF_A_CLIENT_MAX:
            found = self._times[topic, is_well] = Distribution(SEND_BOUNDS_MS), [0]
        return found

    def _fold(self, topic: str, pending: deque[int]) -> None:
        """Put the times that wait into their buckets."""
        times = sorted([pending.popleft() for _ in range(len(pending))])
        found = self._find(topic, is_well=True)
        if found is None or not times:
            return
        distribution, messages = found
        start = 0
        for place, bound in enumerate(_BOUNDS_NS):
            stop = bisect_right(times, bound, start)
            distribution.counts[place] += stop - start
            start = stop
        distribution.counts[-1] += len(times) - start
        distribution.sum += sum(times) / 1e6
        messages[0] += len(times)

    def fill(self, samples: dict[Family, Samples]) -> None:
        with self._lock:
            for topic, pending in self._pending.items():
                self._fold(topic, pending)
            for (topic, is_well), (times, (count,)) in self._times.items():
                labels = (topic, self.client_id, _STATUS[is_well])
                samples[SEND_TIME].add(times, *labels)
                samples[SENT].add(count, *labels)
            for topic, count in self._retries.items():
                samples[SEND_RETRIES].add(count, topic, self.client_id)
