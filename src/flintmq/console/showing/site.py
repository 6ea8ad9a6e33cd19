"""What all pages of one console share: its settings, its sessions, its samples, its audit log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from flintmq.console.guard.sessions import Session, Sessions
from flintmq.console.watching.account_login import AccountLogin
from flintmq.console.watching.cluster_view import ClusterView
from flintmq.console.watching.history import History
from flintmq.console.watching.spark_runs import SparkRuns
from flintmq.embedded.audit_log import AuditLog

STREAMS_MAX: Final = 64
"""Live parts and tails that are open at once, of all viewers."""

REPLAYS_KEPT: Final = 64
"""Replays whose end is shown on the page of their group."""

LIVE_S: Final = 5.0
"""Between two updates of a live part."""


@dataclass(slots=True)
class RunningReplay:
    """How far a replay of dead letters is."""

    group: str
    to: str
    rate: int
    total: int
    sent: int = 0
    error: str = ""
    is_stopped: bool = False
    is_over: bool = False
    task: asyncio.Task[None] | None = None


@dataclass(slots=True, kw_only=True)
class Site:
    """One console."""

    cluster: ClusterView
    history: History
    spark_runs: SparkRuns
    sessions: Sessions
    token: str
    token_in_links: bool
    """Whether the token may come in the address: only one that was made for this start."""
    accounts: AccountLogin | None = None
    """How people sign in with accounts of the brokers; None where they do with the token."""
    cookie: str
    namesrv: str
    may_change: bool
    shows_bodies: bool
    is_secure: bool = False
    """Whether browsers reach it by TLS: then cookies go no other way."""
    wall: Callable[[], int]
    audit: AuditLog | None = None
    """Where changes are written down; None where nothing may be changed."""
    live_s: float = LIVE_S
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    streams: int = 0
    replays: dict[str, RunningReplay] = field(default_factory=dict)
    """The last replay of each group."""

    closing: set[asyncio.Task[None]] = field(default_factory=set)
    """Connections of sessions that ended."""

    def close_view(self, session: Session) -> None:
        """A session is over: its own connections end with it."""
        if session.cluster is not self.cluster:
            task = asyncio.get_running_loop().create_task(session.cluster.close())
            self.closing.add(task)
            task.add_done_callback(self.closing.discard)

    def keep_replay(self, replay: RunningReplay) -> None:
        """Remember a replay; the oldest that are over make room."""
        self.replays.pop(replay.group, None)
        self.replays[replay.group] = replay
        over = [name for name, each in self.replays.items() if each.is_over]
        for name in over[: max(0, len(self.replays) - REPLAYS_KEPT)]:
            del self.replays[name]
