"""Which queues are ours: what a route and a list of members come to, and when to look again.

    every 20 s, or woken ──► AskMembers ──► members ──► strategy ──► Share
                                  │ failed                │ raised
                                  └──► again in 1 s       └──► nothing changes, a report

In broadcasting nobody is asked: all queues are ours.  A topic without a route, a group without
members, and a strategy that fails leave everything as it is: a member that knows too little
takes no queue and gives none away.

    AskAssignment ──► queues to pull, places to pop from ──► Share

Topics that are popped, or whose mode the broker decides, are shared out by the broker.

Invariant: at most one question for each topic is under way; whoever is woken meanwhile asks once
more after its answer.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from flintmq.core.group.actions import AskAssignment, AskMembers, ReportEvent
from flintmq.core.group.allocate import Strategy, sorted_members
from flintmq.model.group import is_retry_topic
from flintmq.model.queue import PopSource, QueueRef

AGAIN_MS: Final = 1_000
"""After a question that got no answer: sooner than the usual 20 s."""

MEMBERS_MAX: Final = 100_000
"""A list of members longer than this is a mistake or an attack."""


@dataclass(frozen=True, slots=True)
class Share:
    """What a strategy or a broker gave: all queues of the topic, ours, and where we pop."""

    topic: str
    queues: tuple[QueueRef, ...]
    own: frozenset[QueueRef]
    popped: frozenset[PopSource] = frozenset()


class Assigned(NamedTuple):
    """What a broker assigned: a queue to pull, or a place to pop from."""

    source: PopSource
    is_popped: bool


@dataclass(slots=True)
class _Topic:
    due_ms: int
    queues: tuple[QueueRef, ...] | None = None
    ask: AskMembers | None = None
    is_woken: bool = False
    is_shared: bool = False  # whether a broker has shared it out
    trouble: str = ""


class Rebalance:
    """The shares of one member in all topics of its group."""

    def __init__(
        self,
        client_id: str,
        topics: Iterable[str],
        strategy: Strategy,
        interval_ms: int,
        now_ms: int,
        *,
        is_broadcasting: bool,
        by_broker: Collection[str] = (),
        always_pop: bool = False,
    ) -> None:
        """``by_broker`` are the topics that brokers share out.

        With ``always_pop`` they are popped whatever the broker says: where it gives queues to
        pull, from every broker of the topic.
        """
        self._client_id = client_id
        self._strategy = strategy
        self._interval_ms = interval_ms
        self._is_broadcasting = is_broadcasting
        self._by_broker = frozenset(by_broker)
        self._always_pop = always_pop
        self._topics = {topic: _Topic(now_ms) for topic in topics}

    def route_known(self, topic: str, queues: Iterable[QueueRef], now_ms: int) -> None:
        """A route came or changed; queues that differ are shared out at once."""
        found = self._topics.get(topic)
        known = tuple(sorted(set(queues)))
        if found is not None and known != found.queues:
            found.queues = known
            self._wake(found, now_ms)

    def wake(self, now_ms: int) -> None:
        """Rebalance every topic now."""
        for topic in self._topics.values():
            self._wake(topic, now_ms)

    def due(self, now_ms: int) -> list[AskMembers | Share]:
        """The questions to ask and the shares to apply now."""
        out: list[AskMembers | Share] = []
        for name, topic in self._topics.items():
            if topic.ask is not None or topic.due_ms > now_ms:
                continue
            topic.due_ms = now_ms + self._interval_ms
            if not topic.queues:
                topic.trouble = "the topic has no route"
            elif self._is_broadcasting:
                topic.trouble = ""
                out.append(Share(name, topic.queues, frozenset(topic.queues)))
            else:
                topic.ask = AskAssignment(name) if name in self._by_broker else AskMembers(name)
                out.append(topic.ask)
        return out

    def members_known(
        self, ask: AskMembers, members: Iterable[str], now_ms: int
    ) -> list[Share | ReportEvent]:
        """The broker answered who is in the group."""
        topic = self._answered(ask, now_ms)
        if topic is None or not topic.queues:
            return []
        known = sorted_members(members)
        if not known or len(known) > MEMBERS_MAX:
            return self._unchanged(ask.topic, topic, f"{len(known)} members", now_ms)
        try:
            own = frozenset(self._strategy(self._client_id, topic.queues, tuple(known)))
            if strangers := own.difference(topic.queues):
                raise ValueError(f"queues that the topic does not have: {sorted(strangers)[:3]}")
        except Exception as error:  # whatever a user's strategy does, we keep what we have
            reason = f"the strategy failed: {type(error).__name__}: {error}"
            topic.trouble = reason
            return [ReportEvent("rebalance", ask.topic, reason, logging.ERROR)]
        topic.trouble = ""
        return [Share(ask.topic, topic.queues, own)]

    def assigned(
        self, ask: AskAssignment, found: Iterable[Assigned] | None, now_ms: int
    ) -> list[Share]:
        """The broker answered what is ours; None: what we have stays ours."""
        topic = self._answered(ask, now_ms)
        if topic is None or not topic.queues:
            return []
        topic.trouble = ""
        given = list(found or ())
        popped = frozenset(each.source for each in given if each.is_popped)
        if self._always_pop and not popped:
            if found is None and topic.is_shared:
                return []
            popped = frozenset(PopSource(ask.topic, queue.broker) for queue in topic.queues)
        elif found is None:
            topic.due_ms = min(topic.due_ms, now_ms + AGAIN_MS)
            return []
        topic.is_shared = True
        pulled = {tuple(each.source) for each in given if not each.is_popped}
        own = frozenset(
            queue
            for queue in topic.queues
            if not self._always_pop and (queue.topic, queue.broker, queue.queue_id) in pulled
        )
        return [Share(ask.topic, topic.queues, own, popped)]

    def members_failed(self, ask: AskMembers, reason: str, now_ms: int) -> list[ReportEvent]:
        topic = self._answered(ask, now_ms)
        if topic is None:
            return []
        return [
            report
            for report in self._unchanged(ask.topic, topic, reason, now_ms)
            if isinstance(report, ReportEvent)
        ]

    def trouble(self, topic: str) -> str:
        """Why a topic could not be shared out, or nothing."""
        found = self._topics.get(topic)
        return found.trouble if found is not None else "not subscribed"

    def next_due_ms(self) -> int | None:
        return min((t.due_ms for t in self._topics.values() if t.ask is None), default=None)

    # Inside

    def _wake(self, topic: _Topic, now_ms: int) -> None:
        if topic.ask is None:
            topic.due_ms = now_ms
        else:
            topic.is_woken = True

    def _answered(self, ask: AskMembers, now_ms: int) -> _Topic | None:
        topic = self._topics.get(ask.topic)
        if topic is None or topic.ask is not ask:
            return None
        topic.ask = None
        if topic.is_woken:
            topic.is_woken = False
            topic.due_ms = now_ms
        return topic

    def _unchanged(
        self, name: str, topic: _Topic, reason: str, now_ms: int
    ) -> list[Share | ReportEvent]:
        topic.trouble = f"the members of the group are not known: {reason}"
        topic.due_ms = min(topic.due_ms, now_ms + AGAIN_MS)
        level = logging.DEBUG if is_retry_topic(name) else logging.WARNING
        return [ReportEvent("rebalance", name, topic.trouble, level)]
