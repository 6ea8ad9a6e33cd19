"""The queues of a cluster, asked over the network: `Queues` for everything that is not a store.

Names are as the brokers know them, with their namespace.

Routes are kept for a short while.  A broker that does not answer may have moved: its topics are
looked up again and it is asked once more, a few times, before its error is raised.  A topic that
the name servers forgot keeps its last route, because a name server that was just started knows
nothing; whether the topic is gone its brokers will say.

Not for several threads at once.

Invariant: of what `commit` told the brokers itself it never takes anything back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from flintmq.core.admin.cluster import readable_brokers
from flintmq.core.admin.topics import TopicKind, groups_of_topic, list_topics
from flintmq.core.ask import ASK_MS, ask
from flintmq.core.conversation import Conversation
from flintmq.core.group.group_introduction import introduce
from flintmq.core.reading.broker_offsets import Extent, commit_offset, extent, group_offset
from flintmq.core.reading.time_search import first_at
from flintmq.core.routes import fetch_route
from flintmq.errors import BrokerRefused, FlintError, NoRoute, Unreachable
from flintmq.model.group import retry_topic
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.model.route import Route
from flintmq.net.clock import monotonic_ms
from flintmq.net.side_by_side import hold_all
from flintmq.protocol.bodies.stats import TopicStats
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.common_headers import OfTopic
from flintmq.spark.reading.access import CLIENT_ID, Access

T = TypeVar("T")
K = TypeVar("K")

ROUTE_MS: Final = 5_000
"""How old a route may be.  Queues that are added are found within this time."""

MISSED_ROUTE_MS: Final = 500
"""The same for a route in which queues are missing that were there: their broker may be back."""

TRIES: Final = 3
"""How often a broker that does not answer is asked."""

PAUSE_MS: Final = 100
"""Before the second try; twice as long before the third."""


@dataclass(frozen=True, slots=True)
class Survey:
    """Where queues begin and end, and which brokers did not say, with the reason."""

    extents: Mapping[QueueRef, Extent]
    silent: Mapping[str, FlintError]


class Cluster:
    """The queues behind name servers."""

    def __init__(self, access: Access) -> None:
        self._line = access.open()
        self._routes: dict[str, tuple[Route, int]] = {}
        self._committed: dict[tuple[str, QueueRef], QueueOffset] = {}
        self._known: set[tuple[str, str]] = set()

    def close(self) -> None:
        self._line.close()

    # What there is

    def topics(self) -> tuple[str, ...]:
        listed = self._line.hold(list_topics(self._line.namesrv))
        return tuple(topic.name for topic in listed if topic.kind is TopicKind.NORMAL)

    def queues(self, topics: Collection[str]) -> tuple[QueueRef, ...]:
        self._look_up({*topics})
        return tuple(sorted(self._readable(topics)))

    def origin(self, queue: QueueRef) -> str:
        self._look_up({queue.topic})
        address = readable_brokers(self._routes[queue.topic][0]).get(queue.broker)
        if address is None:
            raise NoRoute(queue.topic, f"nothing is known of its broker {queue.broker}")
        return address

    # Where queues begin and end

    def extents(self, queues: Collection[QueueRef]) -> Mapping[QueueRef, Extent]:
        survey = self.survey(queues)
        for error in survey.silent.values():
            raise error
        return survey.extents

    def survey(self, queues: Collection[QueueRef]) -> Survey:
        """What every broker says that answers.  One question for each topic and broker."""
        known = self._still_there(queues)
        places = sorted({(queue.topic, queue.broker) for queue in known})
        asked = self._ask_all(
            [QueueRef(topic, broker, 0) for topic, broker in places], _topic_extents
        )
        found: dict[QueueRef, Extent] = {}
        silent: dict[str, FlintError] = {}
        untold: list[QueueRef] = []
        tables = {(place.topic, place.broker): table for place, table in asked.items()}
        for queue in known:
            table = tables[queue.topic, queue.broker]
            if isinstance(table, FlintError):
                if not _is_gone(table):
                    silent[queue.broker] = table
            elif queue.queue_id in table:
                found[queue] = table[queue.queue_id]
            else:  # 4.9 tells only of queues that can be written
                untold.append(queue)
        for queue, outcome in self._ask_all(untold, extent).items():
            if isinstance(outcome, Extent):
                found[queue] = outcome
            elif not _is_gone(outcome):
                silent[queue.broker] = outcome
        return Survey(found, silent)

    def offsets_at(
        self, queues: Collection[QueueRef], time_ms: int
    ) -> Mapping[QueueRef, QueueOffset]:
        bounds = self.extents(queues)

        def search(address: str, queue: QueueRef) -> Conversation[QueueOffset]:
            return first_at(address, queue, time_ms, bounds[queue])

        return self._require(self._ask_all(list(bounds), search))

    # Where a group stands

    def group_offsets(
        self, queues: Collection[QueueRef], group: str
    ) -> Mapping[QueueRef, QueueOffset]:
        def look(address: str, queue: QueueRef) -> Conversation[QueueOffset | None]:
            offset = yield from group_offset(address, group, queue, zero_if_young=False)
            if offset == 0 and group not in (yield from groups_of_topic(address, queue.topic)):
                return None  # 4.9 says 0 for a group that was never there
            return offset

        asked = self._require(self._ask_all(self._still_there(queues), look))
        return {queue: offset for queue, offset in asked.items() if offset is not None}

    def commit(self, group: str, offsets: Mapping[QueueRef, QueueOffset]) -> None:
        """Tell the brokers how far the group got.  What they know from here is not repeated.

        All are told before the error of one is raised; what failed is told again next time.
        """
        ahead = {
            queue: offset
            for queue, offset in offsets.items()
            if offset > self._committed.get((group, queue), -1)
        }

        def tell(address: str, queue: QueueRef) -> Conversation[None]:
            try:
                yield from commit_offset(address, group, queue, ahead[queue])
            except BrokerRefused as error:
                if error.code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                    raise
                yield from introduce(address, group, CLIENT_ID)  # it was deleted there
                yield from commit_offset(address, group, queue, ahead[queue])

        self._introduce(group, ahead)
        outcomes = self._ask_all(self._still_there(ahead), tell)
        for queue, outcome in outcomes.items():
            if not isinstance(outcome, FlintError):
                self._committed[group, queue] = ahead[queue]
        self._require(outcomes)

    def _introduce(self, group: str, queues: Collection[QueueRef]) -> None:
        """See that these brokers know the group, so that tools find its offsets there."""
        new = {queue.broker: queue for queue in queues if (group, queue.broker) not in self._known}
        if not new:
            return
        try:
            route = self._line.hold(fetch_route(self._line.namesrv, retry_topic(group), ASK_MS))
        except FlintError:
            return  # it only serves others, and there is a next time
        there = set() if route is None else {each.broker for each in route.brokers}
        strangers = [queue for broker, queue in new.items() if broker not in there]
        told = self._ask_all(strangers, lambda address, _: introduce(address, group, CLIENT_ID))
        failed = {queue.broker for queue, error in told.items() if error is not None}
        self._known |= {(group, broker) for broker in new if broker not in failed}

    # Asking

    def _ask_all(
        self, queues: Collection[QueueRef], ask_one: Callable[[str, QueueRef], Conversation[T]]
    ) -> dict[QueueRef, T | FlintError]:
        """Ask about each queue where it is; those whose broker is silent again, elsewhere."""
        outcomes: dict[QueueRef, T | FlintError] = {}
        left = list(queues)
        for attempt in range(TRIES):
            reachable: list[tuple[QueueRef, str]] = []
            for queue in left:
                try:
                    reachable.append((queue, self.origin(queue)))
                except (NoRoute, Unreachable) as error:
                    outcomes[queue] = error
            conversations = [ask_one(address, queue) for queue, address in reachable]
            for (queue, _), outcome in zip(
                reachable, hold_all(self._line, conversations), strict=True
            ):
                outcomes[queue] = outcome
            left = [queue for queue in left if isinstance(outcomes[queue], NoRoute | Unreachable)]
            if not left or attempt == TRIES - 1:
                break
            time.sleep((PAUSE_MS << attempt) / 1000)
            self._doubt({queue.topic for queue in left})
        return outcomes

    def _require(self, outcomes: Mapping[K, T | FlintError]) -> dict[K, T]:
        """All results; the first error when there is one.  Queues that are gone are left out."""
        found: dict[K, T] = {}
        for queue, outcome in outcomes.items():
            if not isinstance(outcome, FlintError):
                found[queue] = outcome
            elif not _is_gone(outcome):
                raise outcome
        return found

    def _still_there(self, queues: Collection[QueueRef]) -> list[QueueRef]:
        topics = {queue.topic for queue in queues}
        self._look_up(topics)
        there = self._readable(topics)
        if missing := {queue.topic for queue in queues if queue not in there}:
            self._look_up(missing, MISSED_ROUTE_MS)
            there = self._readable(topics)
        return [queue for queue in queues if queue in there]

    def _readable(self, topics: Collection[str]) -> set[QueueRef]:
        return {
            queue for topic in topics for queue in self._routes[topic][0].subscribe_queues(topic)
        }

    # Routes

    def _look_up(self, topics: Collection[str], age_ms_max: int | None = None) -> None:
        """See that a route is known of each of them that is not too old."""
        now_ms = monotonic_ms()
        age_ms_max = ROUTE_MS if age_ms_max is None else age_ms_max
        stale = sorted(
            topic
            for topic in topics
            if topic not in self._routes or now_ms - self._routes[topic][1] >= age_ms_max
        )
        if not stale:
            return
        asked = [fetch_route(self._line.namesrv, topic, ASK_MS) for topic in stale]
        for topic, outcome in zip(stale, hold_all(self._line, asked), strict=True):
            if isinstance(outcome, Route):
                self._routes[topic] = outcome, now_ms
            elif topic in self._routes:
                self._routes[topic] = self._routes[topic][0], now_ms
            elif isinstance(outcome, FlintError):
                raise outcome
            else:
                raise NoRoute(topic, "no broker has such a topic")

    def _doubt(self, topics: Collection[str]) -> None:
        """Look these up again before they are used next."""
        for topic in topics:
            if topic in self._routes:
                self._routes[topic] = self._routes[topic][0], monotonic_ms() - ROUTE_MS - 1


def _topic_extents(address: str, place: QueueRef) -> Conversation[dict[int, Extent]]:
    """202: every queue that the topic has on one broker."""
    header = OfTopic(topic=place.topic)
    reply = yield from ask(address, RequestCode.GET_TOPIC_STATS_INFO, header)
    return {
        queue.queue_id: Extent(
            QueueOffset(max(0, told.min_offset)),
            QueueOffset(max(0, told.min_offset, told.max_offset)),
        )
        for queue, told in TopicStats.from_body(reply.body).offset_table.items()
    }


def _is_gone(error: FlintError) -> bool:
    return isinstance(error, BrokerRefused) and error.code == ResponseCode.TOPIC_NOT_EXIST
