"""How a slave is getting on with its master, for operators."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Following(Enum):
    """What a slave is doing."""

    OFF = "off"
    """This broker is no slave."""
    NO_MASTER = "no master is known"
    CONNECTING = "connecting"
    COMPARING = "comparing its last bytes with the master's"
    FOLLOWING = "following"
    STOPPED = "stopped"
    """The master's log does not continue its own; it compares again from time to time."""


@dataclass(slots=True)
class FollowStatus:
    """The state of one slave."""

    phase: Following = Following.OFF
    master: str | None = None
    """The master's HA address."""
    reason: str | None = None
    """Why it is not following."""
    received_to: int = 0
    """The next byte the master will send."""
    received_bytes: int = 0
    """Since the start, from all masters."""
    received_ms: int | None = None
    """When something last came from the master; milliseconds since 1970."""
    reported_ms: int | None = None
    """When it last reported."""
    connections: int = 0
    """How often it has connected."""
