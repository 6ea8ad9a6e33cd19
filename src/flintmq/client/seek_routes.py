"""Topics that no name server knew at the start: asked for until one does.

The retry topic of a new group is made by its first heartbeat, so it is there soon; a topic that
nobody made yet may take for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flintmq.client.engine import Engine
from flintmq.errors import FlintError

SEEK_MS: Final = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000)
"""How long to wait before each question; the last one again and again."""


async def seek_routes(engine: Engine, topics: Sequence[str]) -> None:
    """Come back when every topic has a route; whoever wants to know of it listens for changes."""
    tries = 0
    while missing := [topic for topic in topics if engine.routes.find(topic) is None]:
        await engine.timing.sleep(SEEK_MS[min(tries, len(SEEK_MS) - 1)])
        tries += 1
        for topic in missing:
            try:
                await engine.refresh_route(topic)
            except FlintError as error:
                engine.events.add("route", topic, str(error))
