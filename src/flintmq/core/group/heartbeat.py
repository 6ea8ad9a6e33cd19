"""The heartbeat of a client: when, to whom, and what it says.

    every 30 s, or woken ──► one heartbeat with all groups of the client ──► every broker

Masters get it always; slaves only when the client consumes, since only consumers talk to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from flintmq.model.route import MASTER_ID
from flintmq.protocol.bodies.client import ConsumerGroup, Heartbeat, ProducerGroup

INTERVAL_MS: Final = 30_000
"""A quarter of the time after which a broker gives a silent client up."""

FIRST_MS: Final = 1_000
"""After the start, for brokers that are known only then."""

TIMEOUT_MS: Final = 3_000


class HeartbeatClock:
    """When the next heartbeat is due.  One that is woken starts the interval again."""

    def __init__(self, now_ms: int, interval_ms: int = INTERVAL_MS) -> None:
        self._interval_ms = interval_ms
        self.due_ms = now_ms + min(FIRST_MS, interval_ms)

    def wake(self, now_ms: int) -> None:
        self.due_ms = min(self.due_ms, now_ms)

    def take(self, now_ms: int) -> bool:
        """Whether to send one now; the next is due an interval later then."""
        if now_ms < self.due_ms:
            return False
        self.due_ms = now_ms + self._interval_ms
        return True


def heartbeat_body(
    client_id: str, producers: Iterable[str], consumers: Iterable[ConsumerGroup]
) -> bytes:
    """The body of request 34."""
    return Heartbeat(
        client_id=client_id,
        producer_data_set=tuple(ProducerGroup(group_name=group) for group in producers),
        consumer_data_set=tuple(consumers),
        heartbeat_fingerprint=0,
        without_sub=False,
    ).to_body()


def heartbeat_addresses(
    brokers: Mapping[str, Mapping[int, str]], *, has_consumers: bool
) -> list[str]:
    """Whom to tell, each address once; ``brokers`` has addresses by broker name and id."""
    addresses = [
        address
        for replicas in brokers.values()
        for broker_id, address in sorted(replicas.items())
        if has_consumers or broker_id == MASTER_ID
    ]
    return list(dict.fromkeys(addresses))
