"""The addresses of master brokers, from the routes of topics, fetched when they are needed."""

from __future__ import annotations

from flintmq.arrow.reading.access import Line
from flintmq.core.ask import ASK_MS
from flintmq.core.routes import Routes, fetch_route
from flintmq.errors import NoRoute
from flintmq.model.queue import QueueRef


class Masters:
    """The routes that one task has fetched."""

    def __init__(self, line: Line) -> None:
        self.routes = Routes()
        self._line = line

    def address(self, queue: QueueRef) -> str:
        """The address of the master of a queue's broker; `NoRoute` when there is none now."""
        address = self.routes.address(queue.broker)
        if address is None:
            self.look_up(queue.topic)
            address = self.routes.address(queue.broker)
        if address is None:
            raise NoRoute(queue.topic, f"broker {queue.broker} has no master now")
        return address

    def look_up(self, topic: str) -> bool:
        """Fetch the route of a topic; whether there is one."""
        route = self._line.hold(fetch_route(self._line.namesrv, topic, ASK_MS))
        if route is not None:
            self.routes.update(topic, route)
        return route is not None
