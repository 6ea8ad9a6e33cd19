"""How many topics and groups one address may make: nobody takes all names there can be.

Topics and groups are made by sends, heartbeats and pulls of anybody, and they stay.  So an address
has an allowance of new names, which fills up again within an hour.  Names that the broker makes for
itself, as retry topics, and those it makes by the clock cost nobody anything.

Invariant: what is remembered of addresses does not grow without limit; an address that is forgotten
has a full allowance.
"""

from __future__ import annotations

from flintmq.access.token_bucket import TokenBucket
from flintmq.broker.config.broker_config import NAMES_PER_ADDRESS_MAX
from flintmq.errors import Overloaded

REFILL_S = 3_600
ADDRESSES_MAX = 10_000
"""Addresses remembered at once; the oldest is forgotten first."""


class NameBudget:
    """The allowances of all addresses."""

    def __init__(self, names_max: int = NAMES_PER_ADDRESS_MAX) -> None:
        self._names_max = names_max
        self._buckets: dict[str, TokenBucket] = {}
        self.maker: str | None = None
        """The address that is served; None while the broker works for itself."""
        self.now_ms = 0

    def configure(self, names_max: int) -> None:
        """Go on with another allowance: everybody begins again."""
        if names_max != self._names_max:
            self._names_max = names_max
            self._buckets.clear()

    def spend(self, count: int = 1) -> None:
        """New names are about to be made.  Raises `Overloaded` when there are too many."""
        if self.maker is None or not count:
            return
        bucket = self._buckets.get(self.maker)
        if bucket is None:
            if len(self._buckets) >= ADDRESSES_MAX:
                del self._buckets[next(iter(self._buckets))]
            size = float(self._names_max)
            bucket = TokenBucket(size / REFILL_S, self.now_ms, capacity=size)
            self._buckets[self.maker] = bucket
        if not bucket.has_any(self.now_ms):
            what = f"new topics and groups of {self.maker} in an hour"
            raise Overloaded(what, self._names_max, "namesPerAddressMax")
        bucket.pay(count)
