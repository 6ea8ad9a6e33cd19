"""The sends of one read that the fast path stored: they are written and answered together."""

from __future__ import annotations

from collections.abc import Callable

from flintmq.access.quotas import Meters, Quotas, QuotaUse
from flintmq.broker.requests.peer import Peer


class SentGroup:
    """The fast sends of one read of a connection; ``write`` takes all their answers at once."""

    __slots__ = (
        "batches",
        "body_bytes",
        "came_ms",
        "code",
        "fifo_sizes",
        "frames",
        "meters",
        "opaques",
        "peer",
        "producer_group",
        "sizes",
        "stop",
        "write",
    )

    def __init__(self, peer: Peer, write: Callable[[list[bytes]], object], came_ms: int) -> None:
        self.peer = peer
        self.came_ms = came_ms
        self.write = write
        self.producer_group: str | None = None
        self.meters: Meters = ()  # what sends of this producer group are paid from
        self.frames: list[bytes] = []
        self.opaques: list[bytes] = []
        self.sizes: dict[str, list[int]] = {}  # of records, by topic
        self.fifo_sizes: dict[str, list[int]] = {}  # of those with a sharding key
        self.batches: list[tuple[str, int, int]] = []  # topic, number of records, bytes
        self.body_bytes = 0
        self.stop: int = 0
        self.code = 0  # what the answers say instead of success

    def may_pay(self, quotas: Quotas, producer_group: str, now_ms: int) -> bool:
        """Whether account and producer group have something left for one more send."""
        if self.producer_group != producer_group:
            self.producer_group = producer_group
            account = self.peer.account
            self.meters = quotas.meters(QuotaUse.SEND, account, producer_group, now_ms)
        for meter in self.meters:  # noqa: SIM110  # all() with a generator costs twice as much
            if not meter.has_any(now_ms):
                return False
        return True

    @property
    def single_count(self) -> int:
        """Sends of one message."""
        count = sum(map(len, self.sizes.values()))
        return count + sum(map(len, self.fifo_sizes.values())) if self.fifo_sizes else count

    def __len__(self) -> int:
        return self.single_count + len(self.batches)
