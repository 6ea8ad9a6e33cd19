"""Which queues are ours: the driver of `core.group.rebalance` for consumers that pull.

    topic added ──► route ──► Rebalance ──► members asked ──► Share ──► ``on_share``

Topics come and go while the consumer runs, so each has a `Rebalance` of its own.  A topic that
has no route is asked for again, less and less often, and reported by
`client.joining.missing_topics`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from flintmq.client.engine.broker_calls import BrokerCalls
from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.engine.machine_driver import Actions, MachineDriver
from flintmq.client.joining.missing_topics import MissingTopics
from flintmq.core.group.actions import AskMembers
from flintmq.core.group.rebalance import Rebalance, Share
from flintmq.core.pull.lite_settings import PullSettings
from flintmq.errors import FlintError
from flintmq.model.route import Route

ROUTE_FIRST_MS: Final = 500
ROUTE_MAX_MS: Final = 30_000
"""How long a topic without a route is left alone: twice as long each time, up to this."""


@dataclass(slots=True)
class _AssignedTopic:
    rebalance: Rebalance
    has_route: bool = False
    route_due_ms: int = 0
    route_wait_ms: int = ROUTE_FIRST_MS
    is_asking: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _AskRoute:
    """Ask the name servers for the route of a topic."""

    topic: str
    found: _AssignedTopic


class QueueAssignment(MachineDriver):
    """The shares of one consumer.  Topics are named as on the wire."""

    def __init__(
        self,
        engine: ClientEngine,
        pulling: BrokerCalls,
        settings: PullSettings,
        on_share: Callable[[Share], None],
    ) -> None:
        super().__init__(engine, f"the assignment of {engine.client_id}")
        self.is_open = False
        self._settings = settings
        self._on_share = on_share
        self._topics: dict[str, _AssignedTopic] = {}
        self._shares: dict[str, Share] = {}
        self._missing = MissingTopics(engine)
        self.on(_AskRoute, lambda ask: self.begin(ask, self._ask_route(ask.topic, ask.found)))
        self.on(Share, self._apply)
        self.on_call(
            AskMembers,
            lambda ask: pulling.members(ask.topic),
            self._members_known,
            self._members_failed,
        )
        engine.on_route_change(self._route_changed)

    @property
    def topics(self) -> list[str]:
        return list(self._topics)

    def start(self) -> None:
        """Begin to share out; until then topics are only remembered."""
        self.is_open = True
        self.event(())

    def add(self, topic: str) -> None:
        if topic in self._topics:
            return
        settings, now_ms = self._settings, self._clock()
        rebalance = Rebalance(
            self._engine.client_id,
            [topic],
            settings.strategy,
            settings.rebalance_interval_ms,
            now_ms,
            is_broadcasting=not settings.is_clustering,
        )
        found = self._topics[topic] = _AssignedTopic(rebalance, route_due_ms=now_ms)
        route = self._engine.routes.find(topic)
        if route is not None:
            found.has_route = True
            rebalance.route_known(topic, route.subscribe_queues(topic), now_ms)
        self.event(())

    def remove(self, topic: str) -> None:
        self._topics.pop(topic, None)
        self._shares.pop(topic, None)

    def share(self, topic: str) -> Share | None:
        """What is ours of a topic; None before it was shared out the first time."""
        return self._shares.get(topic)

    def trouble(self, topic: str) -> str:
        """Why a topic could not be shared out, or nothing."""
        found = self._topics.get(topic)
        return "not subscribed" if found is None else found.rebalance.trouble(topic)

    def troubles(self) -> dict[str, str]:
        """The topics that could not be shared out, and why."""
        told = {topic: self.trouble(topic) for topic in self._topics}
        reported = {topic: text for topic, text in told.items() if text}
        return {**reported, **self._missing.troubles}

    def wake(self) -> None:
        """Rebalance every topic now: members joined or left."""
        for found in self._topics.values():
            found.rebalance.wake(self._clock())
        self.event(())

    # Inside

    def tick(self, now_ms: int) -> Actions:
        """Ask for the routes and members that are due."""
        out: list[object] = []
        for topic, found in self._topics.items():
            if not found.has_route and not found.is_asking and found.route_due_ms <= now_ms:
                found.is_asking = True
                out.append(_AskRoute(topic, found))
            out += found.rebalance.due(now_ms)
        return out

    def next_due_ms(self) -> int | None:
        times = [found.rebalance.next_due_ms() for found in self._topics.values()]
        times += [
            found.route_due_ms
            for found in self._topics.values()
            if not found.has_route and not found.is_asking
        ]
        return min((time for time in times if time is not None), default=None)

    async def _ask_route(self, topic: str, found: _AssignedTopic) -> None:
        try:
            route = await self._engine.refresh_route(topic)
            if route is not None:
                self._route_changed(topic, route)
            else:
                await self._missing.missed(topic)
        except FlintError as error:
            self._missing.failed(topic, error)
        finally:
            found.is_asking = False
            found.route_due_ms = self._clock() + found.route_wait_ms
            found.route_wait_ms = min(2 * found.route_wait_ms, ROUTE_MAX_MS)
            self.event(())

    def _route_changed(self, topic: str, route: Route) -> None:
        found = self._topics.get(topic)
        if found is not None:
            found.has_route = True
            queues = route.subscribe_queues(topic)
            found.rebalance.route_known(topic, queues, self._clock())
            self.event(())

    def _members_known(self, ask: AskMembers, members: tuple[str, ...], now_ms: int) -> Actions:
        found = self._topics.get(ask.topic)
        return () if found is None else found.rebalance.members_known(ask, members, now_ms)

    def _members_failed(self, ask: AskMembers, reason: str, now_ms: int) -> Actions:
        self._engine.doubt_route(ask.topic)
        found = self._topics.get(ask.topic)
        return () if found is None else found.rebalance.members_failed(ask, reason, now_ms)

    def _apply(self, share: Share) -> None:
        if self._shares.get(share.topic) != share:
            self._shares[share.topic] = share
            text = f"{len(share.own)} of {len(share.queues)} queues are ours"
            self._engine.events.add("rebalance", share.topic, text)
            self._on_share(share)
