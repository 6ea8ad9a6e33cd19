"""A popped message on its way through a listener, and the actions that settle it.

    waiting ──► running ──► consumed ──► AckPopped ──────────────────────────► gone
       │           │    └─► failed ────► HidePopped, for its delay ──────────► gone, comes again
       │           │    └─► given up ──► SendBack to the dead letters, then AckPopped
       │           └─ half of its time is over ──► HidePopped, renewed ──► running
       └─ the consumer stops ──► HidePopped, 0 ms ──► gone, comes again at once

Invariant: at most one of the three actions is under way for a message, since each may replace the
handle that the next one needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import msgspec

from flintmq.core.group.actions import SendBack
from flintmq.core.group.listener_results import Outcome
from flintmq.model.message import ReceivedMessage
from flintmq.protocol.pop.receipts import ReceiptHandle


class HideWhy(StrEnum):
    """Why a message is hidden anew."""

    RENEW = "renew"
    RETRY = "retry"
    RETURN = "return"


@dataclass(slots=True, eq=False)
class PoppedMessage:
    """One popped message.  ``message`` is as listeners see it."""

    message: ReceivedMessage
    handle: ReceiptHandle
    expires_ms: int
    """When it may come again, by our clock."""
    renew_ms: int
    started_ms: int | None = None
    outcome: Outcome | None = None
    under_way: AckPopped | HidePopped | SendBack | None = None
    again_ms: int | None = None
    """When to settle it again, after that failed."""
    waits_for_renewal: bool = False
    is_refused: bool = False
    """Whether its batch came too late for a listener: it is returned."""
    is_overdue: bool = False
    """Whether its listener runs for longer than it may; it is not renewed."""


class AckPopped(msgspec.Struct, frozen=True, eq=False):
    """ACK_MESSAGE (200051), or BATCH_ACK_MESSAGE (200151) of several, of one broker."""

    topic: str
    broker: str
    entries: tuple[PoppedMessage, ...]
    home: object


class HidePopped(msgspec.Struct, frozen=True, eq=False):
    """CHANGE_MESSAGE_INVISIBLETIME (200053)."""

    topic: str
    entry: PoppedMessage
    invisible_ms: int
    why: HideWhy
    home: object
