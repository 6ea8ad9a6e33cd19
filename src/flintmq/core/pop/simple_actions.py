"""What a simple consumer waits for, and the actions of its machine, `core.pop.simple_pop`."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import msgspec

from flintmq.core.group.actions import ReportEvent
from flintmq.core.pop.pop_request import Pop, PoppedBad
from flintmq.errors import FlintError
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import PopSource


@dataclass(slots=True, eq=False)
class Receiving:
    """One call of ``receive`` that waits."""

    count_max: int
    invisible_ms: int
    until_ms: int
    sweep: deque[PopSource] | None = None
    """The sources that are still to be asked without waiting; None before it begins."""
    is_answered: bool = False
    """Whether any broker answered it."""
    renewing: int = 0
    renewed: list[ReceivedMessage] = field(default_factory=list)


class HandOut(NamedTuple):
    """End a receive with these messages, or with an error."""

    to: Receiving
    messages: tuple[ReceivedMessage, ...] = ()
    error: FlintError | None = None


class HideBuffered(msgspec.Struct, frozen=True, eq=False):
    """CHANGE_MESSAGE_INVISIBLETIME (200053) of a buffered message.

    ``to`` gets it when it is done; None returns it to the broker.
    """

    message: ReceivedMessage
    topic: str
    invisible_ms: int
    to: Receiving | None


class AckUnwanted(NamedTuple):
    """Acknowledge messages that only share the hash of a wanted tag."""

    topic: str
    messages: tuple[ReceivedMessage, ...]


class BadPopped(NamedTuple):
    """Lay a record aside that cannot be decoded."""

    topic: str
    popped: PoppedBad


SimpleAction: TypeAlias = Pop | HandOut | HideBuffered | AckUnwanted | BadPopped | ReportEvent
