"""Tells whoever wants to know that the queues of a topic, or our own of them, changed.

Listeners run one after the other, never two at once.  While one runs, only the newest change of
each topic is kept for later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import TypeAlias

from flintmq.client.engine.client_engine import ClientEngine
from flintmq.core.group.actions import QueuesChanged
from flintmq.logs import logger
from flintmq.model.queue import QueueRef

log = logger(__name__)

QueueListener: TypeAlias = Callable[
    [str, Sequence[QueueRef], Sequence[QueueRef]], Awaitable[object] | object
]
"""Called with a topic, all its queues, and those of them that are ours."""


class QueueListeners:
    """The listeners of one consumer, by topic as the user names it."""

    def __init__(self, engine: ClientEngine) -> None:
        self._engine = engine
        self._listeners: dict[str, QueueListener] = {}
        self._changes: dict[str, QueuesChanged] = {}
        self._told: dict[str, tuple[Sequence[QueueRef], Sequence[QueueRef]]] = {}
        self._telling: asyncio.Task[None] | None = None

    def add(self, topic: str, listener: QueueListener) -> None:
        """Set the listener of a topic, in place of an earlier one."""
        self._listeners[topic] = listener
        self._told.pop(topic, None)

    def notify(self, change: QueuesChanged) -> None:
        """Call the listener of a topic.  Called on the loop of the engine."""
        if change.topic not in self._listeners:
            return
        known = (change.queues, change.own)
        if self._told.get(change.topic) == known:
            return
        self._told[change.topic] = known
        self._changes[change.topic] = change
        if self._telling is None or self._telling.done():
            self._telling = self._engine.spawn(self._call_listeners(), "queue listeners")

    async def _call_listeners(self) -> None:
        while self._changes:
            topic = next(iter(self._changes))
            change = self._changes.pop(topic)
            listener = self._listeners.get(topic)
            if listener is None:
                continue
            try:
                outcome = listener(topic, change.queues, change.own)
                if isawaitable(outcome):
                    await outcome
            except Exception as error:
                log.exception("the listener on the queues of %s failed", topic)
                text = f"the listener on queues failed: {type(error).__name__}: {error}"
                self._engine.events.add("listener", topic, text, logging.ERROR)
