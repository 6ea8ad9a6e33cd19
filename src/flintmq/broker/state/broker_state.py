"""All a processor may touch, in one place.

A processor is a plain function ``(request, state, peer, now_ms) -> Outcome``.  It changes
tables at once and appends to the log; what it appended is written at the end of the turn, so
an answer that depends on it is `Stored`.  What must happen only then, or must be undone when
the write fails, goes to ``after_write``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from flintmq.broker.requests.outcome import Outcome
from flintmq.broker.requests.peer import Peer
from flintmq.broker.scheduled.delay_levels import DelaySchedule
from flintmq.broker.scheduled.half_messages import HalfMessages
from flintmq.broker.scheduled.timers import Timers
from flintmq.broker.tables.broker_tables import BrokerTables
from flintmq.protocol.typed_request import TypedRequest


@dataclass(slots=True, kw_only=True)
class BrokerState(BrokerTables):
    """One broker, without its sockets: its tables, and what it delivers by the clock."""

    delays: DelaySchedule
    timers: Timers
    halves: HalfMessages


Processor: TypeAlias = Callable[[TypedRequest[Any], BrokerState, Peer, int], Outcome]
"""What serves requests of one code: request, state, who asks, and the time."""
