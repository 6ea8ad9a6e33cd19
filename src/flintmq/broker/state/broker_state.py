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

from flintmq.broker.pops.held_pops import HeldPops
from flintmq.broker.pops.in_flight import InFlight
from flintmq.broker.pops.ordered_queues import OrderedQueues
from flintmq.broker.pops.request_modes import ModeTable
from flintmq.broker.requests.outcome import Outcome
from flintmq.broker.requests.peer import Peer
from flintmq.broker.scheduled.delay_levels import DelaySchedule
from flintmq.broker.scheduled.half_messages import HalfMessages
from flintmq.broker.scheduled.pop_journal import PopJournal
from flintmq.broker.scheduled.revival import Revival
from flintmq.broker.scheduled.timers import Timers
from flintmq.broker.tables.broker_tables import BrokerTables
from flintmq.protocol.typed_request import TypedRequest


@dataclass(slots=True, kw_only=True)
class BrokerState(BrokerTables):
    """One broker, without its sockets: its tables, and what it delivers by the clock."""

    delays: DelaySchedule
    timers: Timers
    halves: HalfMessages
    in_flight: InFlight
    """Messages that were popped and are not acknowledged."""
    ordered: OrderedQueues
    """Queues that are popped in order."""
    journal: PopJournal
    revival: Revival
    modes: ModeTable
    """How groups take topics: by pull or by pop."""
    held_pops: HeldPops = field(default_factory=HeldPops)
    held_notices: HeldPops = field(default_factory=HeldPops)
    """Requests that wait until there is something to pop."""
    pop_count: int = 0
    """Pops so far; they use the revive queues in turn."""

    @property
    def has_new_names(self) -> bool:
        """Whether topics, groups or their modes changed since they were last saved."""
        return self.topics.is_dirty or self.groups.is_dirty or self.modes.is_dirty


Processor: TypeAlias = Callable[[TypedRequest[Any], BrokerState, Peer, int], Outcome]
"""What serves requests of one code: request, state, who asks, and the time."""
