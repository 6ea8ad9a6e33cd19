"""Settings of masters and slaves, with RocketMQ's defaults."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_network

from flintmq.protocol.replication.ha_frames import TRANSFER_BYTES, TRANSFER_BYTES_MAX

REPLICAS_MAX = 64
"""Copies of a message that a send may wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationConfig:
    """How a master feeds its slaves, and how long it waits for them."""

    transfer_bytes: int = TRANSFER_BYTES
    """What a master puts into one frame (haTransferBatchSize)."""
    heartbeat_ms: int = 5_000
    """How often either side says something when there is nothing to say."""
    silence_ms: int = 20_000
    """A peer that is silent for so long is gone (haHousekeepingInterval)."""
    slave_timeout_ms: int = 3_000
    """How long a send waits for slaves (slaveTimeout)."""
    in_sync_replicas: int = 2
    """Copies of a message, the master's own counted, that a `SYNC_MASTER` waits for."""
    allowed_slaves: tuple[str, ...] = ()
    """Addresses and networks that slaves may come from, beside those that name servers know."""

    def __post_init__(self) -> None:
        if not 1 <= self.transfer_bytes <= TRANSFER_BYTES_MAX:
            raise ValueError(f"transfer_bytes must be 1 to {TRANSFER_BYTES_MAX}")
        if not 1 <= self.in_sync_replicas <= REPLICAS_MAX:
            raise ValueError(f"in_sync_replicas must be 1 to {REPLICAS_MAX}")
        for name in ("heartbeat_ms", "silence_ms", "slave_timeout_ms"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be > 0")
        for text in self.allowed_slaves:
            ip_network(text)  # a ValueError that names it
