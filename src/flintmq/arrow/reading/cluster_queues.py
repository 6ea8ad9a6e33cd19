"""The queues of a cluster, asked for over the network: a `QueueSource`.

Names of topics and groups are those of the brokers, with their namespace.

Routes are cached for a short while.  A broker that does not answer may have moved: the routes of
its topics are fetched again and it is asked once more, a few times, before its error is raised.

Not thread-safe.

Invariant: `commit` never sends an offset below one that it committed before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeVar

from flintmq.arrow.reading.access import CLIENT_ID, Access
from flintmq.arrow.reading.queue_source import QueueSurvey
from flintmq.arrow.reading.route_cache import RouteCache
from flintmq.core.admin.cluster import fetch_cluster
from flintmq.core.admin.topics import TopicKind, groups_of_topic, list_topics
from flintmq.core.ask import ASK_MS, ask
from flintmq.core.conversation import Conversation
from flintmq.core.group.group_introduction import introduce
from flintmq.core.group.missing_topic import nearest_topic
from flintmq.core.reading.broker_offsets import commit_offset, extent, group_offset
from flintmq.core.reading.time_search import first_at
from flintmq.core.routes import fetch_route, fetch_topic_names
from flintmq.errors import BrokerRefused, FlintError, NoRoute, Unreachable
from flintmq.model.group import retry_topic
from flintmq.model.queue import Extent, QueueOffset, QueueRef
from flintmq.net.side_by_side import hold_all
from flintmq.protocol.bodies.stats import TopicStats
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.common_headers import OfTopic

T = TypeVar("T")
K = TypeVar("K")

MISSED_ROUTE_MS: Final = 500
"""The age at which a route is fetched again that lacks queues it had: their broker may be back."""

TRIES: Final = 3
"""Attempts for a broker that does not answer."""

PAUSE_MS: Final = 100
"""Before the second attempt; twice as long before the third."""


class ClusterQueues:
    """The queues behind name servers."""

    def __init__(self, access: Access, routes: RouteCache | None = None) -> None:
        self._line = access.open()
        self._routes = RouteCache() if routes is None else routes
        self._committed: dict[tuple[str, QueueRef], QueueOffset] = {}
        self._known: set[tuple[str, str]] = set()

    def close(self) -> None:
        self._line.close()

    # Topics and queues

    def topics(self) -> tuple[str, ...]:
        listed = self._line.hold(list_topics(self._line.namesrv))
        return tuple(topic.name for topic in listed if topic.kind is TopicKind.NORMAL)

    def queues(self, topics: Collection[str]) -> tuple[QueueRef, ...]:
        self._look_up({*topics})
        return tuple(self._routes.queues(topics))

    def origin(self, queue: QueueRef) -> str:
        self._look_up((queue.topic,))
        return self._routes.address(queue)

    # Extents

    def extents(self, queues: Collection[QueueRef]) -> Mapping[QueueRef, Extent]:
        survey = self.survey(queues)
        for error in survey.silent.values():
            raise error
        return survey.extents

    def survey(self, queues: Collection[QueueRef]) -> QueueSurvey:
        """Extents from every broker that answers.  One request for each topic and broker."""
        known = self._still_there(queues)
        places = dict.fromkeys((queue.topic, queue.broker) for queue in known)
        asked = self._ask_all(
            [QueueRef(topic, broker, 0) for topic, broker in places], _topic_extents
        )
        found: dict[QueueRef, Extent] = {}
        silent: dict[str, FlintError] = {}
        unlisted: list[QueueRef] = []
        tables = {(place.topic, place.broker): table for place, table in asked.items()}
        for queue in known:
            table = tables[queue.topic, queue.broker]
            if isinstance(table, FlintError):
                if not _is_deleted(table):
                    silent[queue.broker] = table
            elif queue.queue_id in table:
                found[queue] = table[queue.queue_id]
            else:  # 4.9 reports only queues that can be written
                unlisted.append(queue)
        for queue, outcome in self._ask_all(unlisted, extent).items():
            if isinstance(outcome, Extent):
                found[queue] = outcome
            elif not _is_deleted(outcome):
                silent[queue.broker] = outcome
        return QueueSurvey(found, silent)

    def offsets_at(
        self, queues: Collection[QueueRef], time_ms: int
    ) -> Mapping[QueueRef, QueueOffset]:
        bounds = self.extents(queues)

        def search(address: str, queue: QueueRef) -> Conversation[QueueOffset]:
            return first_at(address, queue, time_ms, bounds[queue])

        return self._require(self._ask_all(list(bounds), search))

    # Offsets of a group

    def group_offsets(
        self, queues: Collection[QueueRef], group: str
    ) -> Mapping[QueueRef, QueueOffset]:
        def committed(address: str, queue: QueueRef) -> Conversation[QueueOffset | None]:
            offset = yield from group_offset(address, group, queue, zero_if_young=False)
            if offset == 0 and group not in (yield from groups_of_topic(address, queue.topic)):
                return None  # 4.9 answers 0 for a group that never committed
            return offset

        asked = self._require(self._ask_all(self._still_there(queues), committed))
        return {queue: offset for queue, offset in asked.items() if offset is not None}

    def commit(self, group: str, offsets: Mapping[QueueRef, QueueOffset]) -> None:
        """Commit offsets of a group.  Offsets that were committed from here are not repeated.

        All queues are tried before the error of one is raised; a failed one is repeated by the
        next call.
        """
        ahead = {
            queue: offset
            for queue, offset in offsets.items()
            if offset > self._committed.get((group, queue), -1)
        }

        def commit_one(address: str, queue: QueueRef) -> Conversation[None]:
            try:
                yield from commit_offset(address, group, queue, ahead[queue])
            except BrokerRefused as error:
                if error.code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                    raise
                yield from introduce(address, group, CLIENT_ID)  # it was deleted there
                yield from commit_offset(address, group, queue, ahead[queue])

        self._introduce(group, ahead)
        outcomes = self._ask_all(self._still_there(ahead), commit_one)
        for queue, outcome in outcomes.items():
            if not isinstance(outcome, FlintError):
                self._committed[group, queue] = ahead[queue]
        self._require(outcomes)

    def _introduce(self, group: str, queues: Collection[QueueRef]) -> None:
        """Create the group on brokers that lack it, so that tools find its offsets there."""
        new = {queue.broker: queue for queue in queues if (group, queue.broker) not in self._known}
        if not new:
            return
        try:
            route = self._line.hold(fetch_route(self._line.namesrv, retry_topic(group), ASK_MS))
        except FlintError:
            return  # only tools need it, and the next commit tries again
        there = set() if route is None else {each.broker for each in route.brokers}
        unaware = [queue for broker, queue in new.items() if broker not in there]
        answers = self._ask_all(unaware, lambda address, _: introduce(address, group, CLIENT_ID))
        failed = {queue.broker for queue, error in answers.items() if error is not None}
        self._known |= {(group, broker) for broker in new if broker not in failed}

    # Requests

    def _ask_all(
        self, queues: Collection[QueueRef], ask_one: Callable[[str, QueueRef], Conversation[T]]
    ) -> dict[QueueRef, T | FlintError]:
        """Ask the broker of each queue; one that does not answer again, by a new route."""
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
            self._routes.expire({queue.topic for queue in left})
        return outcomes

    def _require(self, outcomes: Mapping[K, T | FlintError]) -> dict[K, T]:
        """All results, or the first error raised.  Deleted queues are left out."""
        found: dict[K, T] = {}
        for queue, outcome in outcomes.items():
            if not isinstance(outcome, FlintError):
                found[queue] = outcome
            elif not _is_deleted(outcome):
                raise outcome
        return found

    def _still_there(self, queues: Collection[QueueRef]) -> list[QueueRef]:
        topics = {queue.topic for queue in queues}
        self._look_up(topics)
        there = set(self._routes.queues(topics))
        if missing := {queue.topic for queue in queues if queue not in there}:
            self._look_up(missing, MISSED_ROUTE_MS)
            there = set(self._routes.queues(topics))
        return [queue for queue in queues if queue in there]

    # Routes

    def _look_up(self, topics: Collection[str], age_ms_max: int | None = None) -> None:
        """Fetch the routes of topics that have none, or one that is too old."""
        if stale := self._routes.stale(topics, age_ms_max):
            try:
                self._routes.fetch(stale, self._line, self._line.namesrv)
            except NoRoute as error:
                raise self._missing(error.topic) from None

    def _missing(self, topic: str) -> NoRoute | Unreachable:
        """The error for a topic without a route.  Before any broker is there, no topic has one."""
        namesrv = self._line.namesrv
        if not self._line.hold(fetch_cluster(namesrv)).brokers:
            return Unreachable(next(namesrv.in_turn()), "no broker is registered there yet")
        near = nearest_topic(topic, self._line.hold(fetch_topic_names(namesrv, ASK_MS)))
        guess = f"; did you mean {near!r}?" if near else ""
        return NoRoute(topic, f"no broker has such a topic{guess}")


def _topic_extents(address: str, place: QueueRef) -> Conversation[dict[int, Extent]]:
    """GET_TOPIC_STATS_INFO (202): the extents of all queues of a topic on one broker."""
    header = OfTopic(topic=place.topic)
    reply = yield from ask(address, RequestCode.GET_TOPIC_STATS_INFO, header)
    return {
        queue.queue_id: Extent(
            QueueOffset(max(0, told.min_offset)),
            QueueOffset(max(0, told.min_offset, told.max_offset)),
        )
        for queue, told in TopicStats.from_body(reply.body).offset_table.items()
    }


def _is_deleted(error: FlintError) -> bool:
    return isinstance(error, BrokerRefused) and error.code == ResponseCode.TOPIC_NOT_EXIST
