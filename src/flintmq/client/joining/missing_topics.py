"""Subscribed topics that no name server knows: each is a warning, repeated, with a guess.

    no route ──after 1 s──► WARNING "topic 'ordrs' has no route …; did you mean 'orders'?"
       ▲                        └──every minute, and in `status()`──► …
       └── asked for again, less and less often ──► route ──► forgotten

A name server that does not answer is reported in the same way.

A topic without a route is no reason to refuse a start: its first message may create it.  The retry
topic of a new group is created by its first heartbeat, and is never reported.

While a topic is missing the brokers that would create it are met, by the route of the template
topic: so the group is known to them, and `flintmq group show` can show what it waits for.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from flintmq.client.engine.client_engine import ClientEngine
from flintmq.core.group.missing_topic import describe_missing
from flintmq.core.routes import NameServers, fetch_topic_names
from flintmq.errors import FlintError
from flintmq.model.group import is_retry_topic
from flintmq.model.topic import AUTO_CREATE_TOPIC

SEEK_MS: Final = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000)
"""How long to wait before each question; the last one repeats."""

PATIENCE_MS: Final = 1_000
"""A topic may be created at the same moment as its consumer starts."""

REPEAT_MS: Final = 60_000
"""How often a topic that is still missing is reported."""

KIND: Final = "no route"
"""The kind of the events."""


class MissingTopics:
    """The topics of one consumer without a route.  Names are those of the wire."""

    def __init__(self, engine: ClientEngine) -> None:
        self._engine = engine
        self._due_ms: dict[str, int] = {}
        self._failed_due_ms: dict[str, int] = {}
        self._texts: dict[str, str] = {}

    @property
    def troubles(self) -> dict[str, str]:
        """What was reported of each topic that is missing now, by topic."""
        find = self._engine.routes.find
        return {topic: text for topic, text in self._texts.items() if find(topic) is None}

    async def seek(self, topics: Sequence[str]) -> None:
        """Refresh routes until every topic has one; `ClientEngine.on_route_change` reports each."""
        engine, tries = self._engine, 0
        while missing := [topic for topic in topics if engine.routes.find(topic) is None]:
            await engine.timing.sleep(SEEK_MS[min(tries, len(SEEK_MS) - 1)])
            tries += 1
            for topic in missing:
                try:
                    if await engine.refresh_route(topic) is None:
                        await self.missed(topic)
                except FlintError as error:
                    self.failed(topic, error)

    def failed(self, topic: str, error: FlintError) -> None:
        """No name server answered: a warning at once and every minute, an event each time."""
        engine, now_ms = self._engine, self._engine.clock()
        is_due = now_ms >= self._failed_due_ms.get(topic, now_ms)
        if is_due:
            self._failed_due_ms[topic] = now_ms + REPEAT_MS
        level = logging.WARNING if is_due else logging.DEBUG
        self._texts[topic] = str(error)
        engine.events.add("route", engine.user_name(topic), str(error), level)

    async def missed(self, topic: str) -> None:
        """A name server answered that it has no such topic: report it, if it is time to."""
        engine = self._engine
        if is_retry_topic(topic):
            return
        now_ms = engine.clock()
        due_ms = self._due_ms.setdefault(topic, now_ms + PATIENCE_MS)
        if now_ms < due_ms:
            return
        self._due_ms[topic] = now_ms + REPEAT_MS
        if not engine.routes.addresses:
            await engine.refresh_route(AUTO_CREATE_TOPIC)
        name = engine.user_name(topic)
        servers = NameServers(engine.name_servers)
        known = await engine.hold(fetch_topic_names(servers, engine.config.call_timeout_ms))
        text = describe_missing(name, map(engine.user_name, known))
        self._texts[topic] = text
        engine.events.add(KIND, name, text, logging.WARNING)
