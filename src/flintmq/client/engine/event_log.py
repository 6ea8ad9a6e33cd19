"""The last things that happened to a client and that somebody may ask about later.

Every retry, refusal, limit and change of route is one event.  They are also logged, under
``flintmq.client``, at the level their kind has.

Invariant: at most `EVENTS_MAX` are kept; the oldest goes first.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from flintmq.logs import logger

log = logger("flintmq.client")

EVENTS_MAX: Final = 1_000
"""Enough to look back over hours of ordinary trouble, and a few hundred kilobytes."""


class Event(NamedTuple):
    """What happened, when (ms since 1970), and to what: a broker, topic, queue or group."""

    at_ms: int
    kind: str
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}: {self.text}"


class EventLog:
    """The events of one client, oldest first."""

    def __init__(self, wall: Callable[[], int], count_max: int = EVENTS_MAX) -> None:
        self._wall = wall
        self._events: deque[Event] = deque(maxlen=count_max)

    def __len__(self) -> int:
        return len(self._events)

    def __repr__(self) -> str:
        return f"<EventLog, {len(self._events)} events>"

    def add(self, kind: str, subject: str, text: str, level: int = logging.INFO) -> None:
        """Note that something happened.  ``kind`` is a short word: ``retry``, ``route`` …"""
        self._events.append(Event(self._wall(), kind, subject, text))
        log.log(level, "%s %s: %s", kind, subject, text)

    def latest(self, count: int = EVENTS_MAX, *, kind: str | None = None) -> list[Event]:
        """The last ``count`` events, oldest first; only those of a kind, if one is named."""
        chosen = [event for event in list(self._events) if kind is None or event.kind == kind]
        return chosen[-count:] if count > 0 else []
