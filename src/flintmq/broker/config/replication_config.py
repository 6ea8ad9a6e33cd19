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
    is_auto_in_sync: bool = False
    """Wait for the slaves that are in sync where they are fewer (enableAutoInSyncReplicas)."""
    min_in_sync_replicas: int = 1
    """The copies that are waited for in any case, with ``is_auto_in_sync``."""
    has_flow_control: bool = False
    """Whether slaves are sent only so much in a second (haFlowControlEnable)."""
    flow_bytes_a_second: int = 100 * 1024 * 1024
    """What one slave is sent in a second, with flow control (maxHaTransferByteInSecond)."""
    allowed_slaves: tuple[str, ...] = ()
    """Addresses and networks that slaves may come from, beside those that name servers know."""

    def __post_init__(self) -> None:
        if not 1 <= self.transfer_bytes <= TRANSFER_BYTES_MAX:
            raise ValueError(f"transfer_bytes must be 1 to {TRANSFER_BYTES_MAX}")
        if not 1 <= self.in_sync_replicas <= REPLICAS_MAX:
            raise ValueError(f"in_sync_replicas must be 1 to {REPLICAS_MAX}")
        if not 1 <= self.min_in_sync_replicas <= self.in_sync_replicas:
            raise ValueError("min_in_sync_replicas must be 1 to in_sync_replicas")
        for name in ("heartbeat_ms", "silence_ms", "slave_timeout_ms", "flow_bytes_a_second"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be > 0")
        for text in self.allowed_slaves:
            ip_network(text)  # a ValueError that names it

    @property
    def pace(self) -> int | None:
        """Bytes that one slave is sent in a second, or None for as many as it takes."""
        return self.flow_bytes_a_second if self.has_flow_control else None

    def copies_needed(self, in_sync: int) -> int:
        """The copies that a send waits for, where so many replicas are in sync."""
        if not self.is_auto_in_sync:
            return self.in_sync_replicas
        return max(min(self.in_sync_replicas, in_sync), self.min_in_sync_replicas)
