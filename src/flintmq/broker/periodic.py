"""Work that comes round: what to do, how often, and when next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from flintmq.broker.state.broker_state import BrokerState

HELD_MS = 1_000
"""How often units of queues and keys that are held in memory are written."""

FEW_MS = 100
"""How often they are while they are few; at a low rate nobody then waits for those of a second."""

FLUSH_MS = 500
"""How often the log is synced when nobody waits for it."""


class Chore:
    """One kind of work.  It is first due one interval after ``now_ms``."""

    __slots__ = ("due_ms", "interval_ms", "run")

    def __init__(self, interval_ms: int, run: Callable[[int], object], now_ms: int) -> None:
        self.interval_ms = interval_ms
        self.run = run
        self.due_ms = now_ms + interval_ms

    def run_if_due(self, now_ms: int) -> None:
        """Rounds that were missed, because the clock jumped, are not made up for."""
        if now_ms >= self.due_ms:
            self.due_ms = now_ms + self.interval_ms
            self.run(now_ms)
        elif self.due_ms - now_ms > self.interval_ms:  # the clock went back
            self.due_ms = now_ms + self.interval_ms


class Upkept(Protocol):
    """The server, as its chores see it."""

    state: BrokerState

    def sync_soon(self, *, thorough: bool = False) -> object: ...

    def save_soon(self) -> None: ...

    def retain(self, now_ms: int) -> None: ...

    def announce_all(self) -> None: ...


def upkeep(server: Upkept, now_ms: int) -> list[Chore]:
    """What a server does whether anybody asks for something or not."""
    config = server.state.config
    return [
        Chore(FEW_MS, lambda _: server.state.log.flush_few(), now_ms),
        Chore(HELD_MS, lambda _: server.state.log.flush(), now_ms),
        Chore(FLUSH_MS, lambda _: server.sync_soon(), now_ms),
        Chore(config.sync_tables_ms, lambda _: server.sync_soon(thorough=True), now_ms),
        Chore(config.save_offsets_ms, lambda _: server.save_soon(), now_ms),
        Chore(config.retain_ms, server.retain, now_ms),
        Chore(config.register_ms, lambda _: server.announce_all(), now_ms),
    ]
