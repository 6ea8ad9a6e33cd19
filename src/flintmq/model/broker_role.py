"""What a broker is to its replicas: a master that waits for slaves or does not, or a slave."""

from __future__ import annotations

from enum import Enum


class BrokerRole(Enum):
    """RocketMQ's brokerRole."""

    ASYNC_MASTER = "ASYNC_MASTER"
    """Answers a send when it is stored here."""
    SYNC_MASTER = "SYNC_MASTER"
    """Answers a send when a slave has it too."""
    SLAVE = "SLAVE"
    """Stores what its master stores, and takes no sends."""

    @property
    def is_master(self) -> bool:
        return self is not BrokerRole.SLAVE
