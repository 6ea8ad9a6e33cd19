"""A rate with a balance: so many a second, saved up for one second, and debts are paid.

    balance > 0 ─► go on, then pay what it cost ─► balance may be below 0 ─► wait until it is above

What something costs is often known only afterwards, as with the bytes of an answer.  So whoever has
anything left may go on, and pays in full.  Over time nobody gets more than the rate, and something
larger than what one second brings is possible all the same.

The clock is an argument.  One that goes back adds nothing and takes nothing.
"""

from __future__ import annotations

BURST_S = 1.0
"""What may be saved up, as the time it takes to fill: a second, so that a rate counted over any
longer time holds."""


class TokenBucket:
    """One rate.  It begins full."""

    __slots__ = ("_balance", "_capacity", "_per_ms", "_seen_ms")

    def __init__(self, per_second: float, now_ms: int, *, capacity: float | None = None) -> None:
        self._per_ms = per_second / 1_000
        self._capacity = max(1.0, per_second * BURST_S) if capacity is None else capacity
        self._balance = self._capacity
        self._seen_ms = now_ms

    def has_any(self, now_ms: int) -> bool:
        """Whether something may go on now."""
        elapsed_ms = now_ms - self._seen_ms
        if elapsed_ms:
            self._seen_ms = now_ms
            if elapsed_ms > 0:
                grown = self._balance + elapsed_ms * self._per_ms
                self._balance = min(self._capacity, grown)
        return self._balance > 0

    def pay(self, cost: float) -> None:
        """Something went on that cost so much."""
        self._balance -= cost

    def wait_ms(self, now_ms: int) -> int:
        """How long until something may go on."""
        return 0 if self.has_any(now_ms) else int(-self._balance / self._per_ms) + 1

    def is_full(self, now_ms: int) -> bool:
        """Whether it is as when it began, so that a fresh one would be the same."""
        return self.has_any(now_ms) and self._balance >= self._capacity
