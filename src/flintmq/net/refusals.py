"""How often each limit of a server refused something.

A broker has one of these, in `BrokerState.refusals`; the servers of its ports, its tables and its
quotas count into it.  ``counts`` has an entry for each limit that ever refused something.  The name
of a limit is that of its setting (``connectionsMax``), of its constant where it has no setting
(``LOCKS_MAX``), or ``quota.account.send`` and the like; docs/security.md lists them.  Whoever shows
figures reads ``counts``.

Invariant: names come from our code, never from peers, so there are as many as there are limits.
"""

from __future__ import annotations

from typing import Final

USUAL_LIMITS: Final = (
    "connectionsMax",
    "connectionsPerAddressMax",
    "requestsPerSecondMax",
    "unreadBytesMax",
    "namesPerAddressMax",
    "quota.account.send",
    "quota.account.consume",
    "quota.group.send",
    "quota.group.consume",
)
"""Limits that monitoring shows from the start: a rate needs a value before the first refusal."""


class Refusals:
    """Counters by the name of a limit."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def count(self, limit: str) -> None:
        """A limit refused something, or closed a connection."""
        self.counts[limit] = self.counts.get(limit, 0) + 1

    @property
    def total(self) -> int:
        return sum(self.counts.values())
