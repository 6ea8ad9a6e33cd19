"""The routes of topics that a source has fetched: their queues, and where their brokers are.

A stream plans on one thread and commits on another, each with connections of its own; both may
use one cache.  Entries are values and are replaced as a whole.

A topic that the name servers do not know keeps its last route, because a name server that was just
started knows none; the brokers decide whether the topic was deleted.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from flintmq.core.admin.cluster import readable_brokers
from flintmq.core.ask import ASK_MS
from flintmq.core.routes import NameServers, fetch_route
from flintmq.errors import FlintError, NoRoute
from flintmq.model.queue import QueueRef
from flintmq.model.route import Route
from flintmq.net.clock import monotonic_ms
from flintmq.net.side_by_side import CallLine, hold_all

ROUTE_MS: Final = 5_000
"""The age at which a route is fetched again.  Added queues are found within this time."""

ROUTE_EACH_MS: Final = 10
"""Added for every topic: thousands of routes are not fetched again while one plan is made."""

LONG_AGO_MS: Final = -(1 << 62)
"""When a route was fetched that has to be fetched again."""


@dataclass(frozen=True, slots=True)
class KnownRoute:
    """What follows from the route of a topic.  A plan needs it for each of its queues."""

    fetched_ms: int
    queues: tuple[QueueRef, ...]
    """Those that can be read, in their order."""
    addresses: Mapping[str, str]
    """An address to ask about each broker."""


class RouteCache:
    """The routes of all topics that were asked for."""

    def __init__(self) -> None:
        self._known: dict[str, KnownRoute] = {}

    def stale(self, topics: Collection[str], age_ms_max: int | None = None) -> list[str]:
        """Topics without a route, or with one that is too old; in their order."""
        if age_ms_max is None:
            age_ms_max = ROUTE_MS + ROUTE_EACH_MS * len(self._known)
        oldest_ms = monotonic_ms() - age_ms_max
        return sorted(
            topic
            for topic in topics
            if (known := self._known.get(topic)) is None or known.fetched_ms <= oldest_ms
        )

    def fetch(self, topics: Collection[str], line: CallLine, namesrv: NameServers) -> None:
        """Fetch the routes of these topics; `NoRoute` for one that never had any."""
        now_ms = monotonic_ms()
        asked = [fetch_route(namesrv, topic, ASK_MS) for topic in topics]
        for topic, outcome in zip(topics, hold_all(line, asked), strict=True):
            before = self._known.get(topic)
            if isinstance(outcome, Route):
                queues = tuple(outcome.subscribe_queues(topic))
                self._known[topic] = KnownRoute(now_ms, queues, readable_brokers(outcome))
            elif before is not None:
                self._known[topic] = replace(before, fetched_ms=now_ms)
            elif isinstance(outcome, FlintError):
                raise outcome
            else:
                raise NoRoute(topic, "no broker has such a topic")

    def queues(self, topics: Collection[str]) -> list[QueueRef]:
        """The readable queues of topics with a route, sorted."""
        return [queue for topic in sorted({*topics}) for queue in self._known[topic].queues]

    def address(self, queue: QueueRef) -> str:
        """Where the broker of a queue is; `NoRoute` when the route does not name it."""
        address = self._known[queue.topic].addresses.get(queue.broker)
        if address is None:
            raise NoRoute(queue.topic, f"nothing is known of its broker {queue.broker}")
        return address

    def expire(self, topics: Collection[str]) -> None:
        """Have the routes of these topics fetched before they are used next."""
        for topic in topics:
            if (known := self._known.get(topic)) is not None:
                self._known[topic] = replace(known, fetched_ms=LONG_AGO_MS)
