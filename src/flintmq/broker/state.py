"""All a processor may touch, in one place.

A processor is a plain function ``(request, state, peer, now_ms) -> Outcome``.  It changes
tables at once and appends to the log; what it appended is written at the end of the turn, so
an answer that depends on it is `Stored`.  What must happen only then, or must be undone when
the write fails, goes to ``after_write``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from flintmq.broker.clients import Clients
from flintmq.broker.compile_budget import CompileBudget
from flintmq.broker.config import BrokerConfig
from flintmq.broker.delays import DelaySchedule
from flintmq.broker.filters import ConsumerFilters
from flintmq.broker.groups import Groups
from flintmq.broker.half_messages import HalfMessages
from flintmq.broker.held_pulls import HeldPulls
from flintmq.broker.hooks import Hooks
from flintmq.broker.offsets import Offsets
from flintmq.broker.outcome import Outcome, Tell
from flintmq.broker.own_ids import OwnIds
from flintmq.broker.peer import Peer
from flintmq.broker.put_times import PutTimes
from flintmq.broker.queue_locks import QueueLocks
from flintmq.broker.registration import Told
from flintmq.broker.stats import Stats
from flintmq.broker.timers import Timers
from flintmq.broker.topics import Topics
from flintmq.errors import DiskFailed
from flintmq.model.host import Host
from flintmq.net.watchdog import Stalls
from flintmq.protocol.bodies.version import DataVersion
from flintmq.protocol.typed_request import TypedRequest
from flintmq.store.message_log import MessageLog

AfterWrite: TypeAlias = Callable[[DiskFailed | None], None]
"""Told how the write of its turn ended: None when everything is stored."""


@dataclass(slots=True)
class BrokerState:
    """One broker, without its sockets."""

    config: BrokerConfig
    """Replaced as a whole when an admin changes a setting."""
    address: str
    """``host:port`` as clients are told."""
    host: Host
    """The same as records and ids hold it."""
    log: MessageLog
    topics: Topics
    groups: Groups
    offsets: Offsets
    clients: Clients
    locks: QueueLocks
    filters: ConsumerFilters
    held: HeldPulls
    delays: DelaySchedule
    timers: Timers
    halves: HalfMessages
    stats: Stats
    put_times: PutTimes
    pick: Callable[[int], int]
    """A random number from 0 to below the argument."""
    started_ms: int
    own_ids: OwnIds
    """For messages whose sender gave them none."""
    compiling: CompileBudget = field(default_factory=CompileBudget)
    hooks: Hooks = field(default_factory=Hooks)
    outbox: list[Tell] = field(default_factory=list)
    after_write: list[AfterWrite] = field(default_factory=list)
    pull_ms_max: int = 0
    """How long the slowest pull took to be served."""
    unsynced_count: int = 0
    unsynced_bytes: int = 0
    """Sends that wait for the medium now."""
    config_version: DataVersion = field(default_factory=DataVersion)
    """Which settings are in force, for tools that ask."""
    told: Told | None = None
    """What the name servers were told last, so that it need not be encoded again."""
    failed_saves: int = 0
    """How often names or tables could not be saved."""
    stalls: Stalls = field(default_factory=Stalls)
    """How often the loop was blocked."""
    is_stopping: bool = False
    """No new sends: the broker is about to stop."""

    @property
    def has_new_names(self) -> bool:
        """Whether topics or groups changed since they were last saved."""
        return self.topics.is_dirty or self.groups.is_dirty

    def carry(self, delta_ms: int) -> None:
        """The clock is about to move by so much: what is alive stays as alive as it was."""
        self.clients.carry(delta_ms)
        self.locks.carry(delta_ms)
        self.stats.carry(delta_ms)
        self.put_times.carry(delta_ms)


Processor: TypeAlias = Callable[[TypedRequest[Any], BrokerState, Peer, int], Outcome]
"""What serves requests of one code: request, state, who asks, and the time."""
