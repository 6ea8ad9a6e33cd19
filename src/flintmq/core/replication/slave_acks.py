"""What a master knows of its slaves: where each reads, and what each has stored.

A send of a `SYNC_MASTER` is answered when enough slaves have stored it.  Slaves are counted by the
address they come from, and connections of one address at most as often as it has slaves: a slave
that connects again before its old connection is gone counts once.

    a report up to the end of the log     counts
    a report beyond it                    never counts, and ends the connection

RocketMQ 4.9 remembers the highest report ever made, by whomever; here a slave that left has stored
nothing as far as anybody knows.

Invariant: `stored_to` is never beyond what that many connected slaves have reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from flintmq.model.queue import LogOffset

FALL_BEHIND_BYTES_MAX = 256 * 1024 * 1024
"""haSlaveFallbehindMax: a slave further behind than this is not waited for."""


REFUSALS_MAX = 16
"""Refused peers that are remembered."""


class ConnectedSlave:
    """One connection of a slave, as its master sees it."""

    __slots__ = ("acked_to", "address", "connected_ms", "host", "reported_ms", "sent_to")

    def __init__(self, address: str, host: str, now_ms: int) -> None:
        self.address = address
        self.host = host
        self.connected_ms = now_ms
        self.reported_ms: int | None = None
        """When it last reported; None before its first report."""
        self.acked_to = LogOffset(0)
        """It has stored everything before this byte."""
        self.sent_to = LogOffset(0)
        """The next byte to send."""


class SlaveAcks:
    """The slaves of one master.  ``slaves_at`` tells how many slaves an address may have."""

    def __init__(self, slaves_at: Callable[[str], int] = lambda _host: 1) -> None:
        self.slaves: list[ConnectedSlave] = []
        self.slaves_at = slaves_at
        self.refusals: dict[str, str] = {}
        """Who was refused last, and why."""

    def refused(self, address: str, reason: str) -> None:
        """Remember a peer that is not served, for whoever asks for the state of replication."""
        self.refusals[address] = reason
        while len(self.refusals) > REFUSALS_MAX:
            del self.refusals[next(iter(self.refusals))]

    def stored_to(self, needed: int) -> LogOffset:
        """Up to where ``needed`` slaves have stored the log; 0 when there are not so many."""
        acks = self._acks()
        return acks[needed - 1] if len(acks) >= needed else LogOffset(0)

    def near_count(self, end: LogOffset) -> int:
        """How many slaves are connected, have reported, and are not far behind."""
        return sum(end - ack < FALL_BEHIND_BYTES_MAX for ack in self._acks())

    def _acks(self) -> list[LogOffset]:
        """What slaves have stored, the most first, each slave once."""
        counted: Counter[str] = Counter()
        acks = []
        reported = (slave for slave in self.slaves if slave.reported_ms is not None)
        for slave in sorted(reported, key=lambda slave: slave.acked_to, reverse=True):
            counted[slave.host] += 1
            if counted[slave.host] <= self.slaves_at(slave.host):
                acks.append(slave.acked_to)
        return acks
