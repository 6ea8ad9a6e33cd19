"""How much memory and time one channel may take, blocking or not."""

from __future__ import annotations

from dataclasses import dataclass

from flintmq.protocol.connection import CALLS_MAX
from flintmq.protocol.frame import FRAME_BYTES_MAX

CONNECT_MS = 3_000
"""How long an attempt to connect may take, TLS included; what the Java client allows."""

LINGER_MS = 3_000
"""How long a channel that is being closed waits for its session and for the peer to read."""

CUT_MS = 1_000
"""After that: how long an aborted connection may take to close before it counts as closed."""

ADDRESSES_MAX = 4_096
"""Addresses remembered at once; those without a channel are forgotten first."""

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ChannelLimits:
    """The limits of one channel.  The write limits are for channels on asyncio."""

    idle_ms: int = 120_000
    """Without traffic for so long it is closed, as RocketMQ's own clients and servers do."""
    write_high_bytes: int = 4 * MIB
    """With more than this unsent, callers wait and an accepted channel stops reading …"""
    write_low_bytes: int = 1 * MIB
    """… until no more than this is left."""
    write_bytes_max: int = 64 * MIB
    """Four of the largest frames.  A peer that leaves more than this unread is cut off."""
    frame_bytes_max: int = FRAME_BYTES_MAX
    calls_max: int = CALLS_MAX

    def __post_init__(self) -> None:
        if not 0 <= self.write_low_bytes <= self.write_high_bytes <= self.write_bytes_max:
            raise ValueError(f"write limits must rise from low over high to max: {self}")


LIMITS = ChannelLimits()
