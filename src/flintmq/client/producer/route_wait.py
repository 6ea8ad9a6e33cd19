"""The queues a send may go to, waited for within its timeout.

    route known ──────────────────────────────────────► queues
    name server unreachable, or the brokers are away ─► asked again until the time is up
    name server knows no such topic ──────────────────► NoRoute at once

A name server that was unreachable a moment ago may not know its brokers yet, so then "no such
topic" is asked again too.  With ``retries=0`` nothing is asked twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from flintmq.client.engine.client_engine import ClientEngine
from flintmq.core.admin.cluster import fetch_cluster
from flintmq.core.producer.send_patience import TOO_LATE_MS, SendPatience
from flintmq.core.routes import NameServers
from flintmq.errors import FlintError, NoRoute, Unreachable
from flintmq.model.queue import QueueRef

T = TypeVar("T")

_SERVERS: Final = "name servers"


class RouteWait:
    """How long one call waits for a route; `left_ms` is what is left for the rest of it."""

    def __init__(self, engine: ClientEngine, retries: int, timeout_ms: int) -> None:
        self._engine = engine
        self._patience = SendPatience(retries, engine.chance)
        self._timeout_ms = timeout_ms
        self._start_ms = engine.stopwatch()

    @property
    def left_ms(self) -> int:
        """What is left of the time; at least 1."""
        return max(1, self._left_ms())

    async def publish_queues(self, topic: str) -> tuple[QueueRef, ...]:
        """Queues a producer may choose from."""
        return await self._wait(lambda: self._engine.publish_queues(topic), topic)

    async def _wait(self, ask: Callable[[], Coroutine[Any, Any, T]], topic: str) -> T:
        tries, was_away = 0, False
        failure: Unreachable | NoRoute
        while True:
            tries += 1
            try:
                return await ask()
            except Unreachable as error:
                was_away, failure = True, error
            except NoRoute as error:
                if not was_away and not await self._is_broker_away(topic):
                    raise
                failure = error
            may_go_on = self._patience.failed(_SERVERS, _AWAY)
            left_ms = self._left_ms()
            if not may_go_on or left_ms <= TOO_LATE_MS:
                raise self._given_up(topic, failure, tries) from failure
            await asyncio.sleep(self._patience.wait_ms(_SERVERS, left_ms) / 1000)
            self._engine.life.require_running()

    async def _is_broker_away(self, topic: str) -> bool:
        """Whether a broker that comes back may have the topic: no master, or no broker, is known.

        A topic that may not be written has one, and a new topic is refused by brokers that are up.
        """
        engine = self._engine
        route = engine.routes.find(topic)
        if route is not None:
            return all(replicas.master is None for replicas in route.brokers)
        try:
            cluster = await engine.hold(fetch_cluster(NameServers(engine.name_servers)))
        except Unreachable:  # the name server has gone too, just now
            return True
        return not cluster.readable()

    def _left_ms(self) -> int:
        return self._timeout_ms - (self._engine.stopwatch() - self._start_ms)

    def _given_up(self, topic: str, failure: Unreachable | NoRoute, tries: int) -> FlintError:
        """The error of the last attempt, with how long the call waited and what to do."""
        if tries == 1:
            return failure
        name, spent_ms = self._engine.user_name(topic), self._engine.stopwatch() - self._start_ms
        asked = f"asked {tries} times in {spent_ms} ms for the route of {name!r}"
        if isinstance(failure, Unreachable):
            advice = "see that a name server runs there, or give the send more time (timeout_ms)"
            return Unreachable(failure.address, f"{failure.reason} ({asked}; {advice})")
        advice = "see that its broker runs, or give the send more time (timeout_ms)"
        return NoRoute(failure.topic, f"{failure.reason} ({asked}; {advice})")


_AWAY: Final = Unreachable(_SERVERS, "")
