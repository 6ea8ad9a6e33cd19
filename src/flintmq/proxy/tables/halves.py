"""Half messages whose transactions have not ended: where they are, for whoever ends them.

A client ends a transaction by its id alone; a broker wants the place of the half message.  Places
come from the answer to the send and from every check, which stores the half message anew.

Invariant: at most `HALVES_MAX` are remembered, each for `KEPT_MS`.  What is forgotten is asked
about by its broker, and remembered again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

HALVES_MAX: Final = 100_000
"""A few hundred bytes each."""

KEPT_MS: Final = 3_600_000
"""The longest time after which a client may ask to be asked."""


class HalfPlace(NamedTuple):
    """Where a half message is."""

    broker: str
    address: str
    queue_offset: int
    log_offset: int
    message_id: str
    is_checked: bool
    """Whether its broker asked for it."""


class Halves:
    """Places of half messages by topic and transaction id, the newest place of each."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._places: OrderedDict[tuple[str, str], tuple[int, HalfPlace]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._places)

    def add(self, topic: str, transaction_id: str, place: HalfPlace) -> None:
        key = topic, transaction_id
        self._places.pop(key, None)
        self._places[key] = self._clock(), place
        while len(self._places) > HALVES_MAX:
            self._places.popitem(last=False)

    def take(self, topic: str, transaction_id: str) -> HalfPlace | None:
        """The place of a half message, which is not remembered any more then."""
        found = self._places.pop((topic, transaction_id), None)
        if found is None or found[0] < self._clock() - KEPT_MS:
            return None
        return found[1]

    def sweep(self) -> None:
        """Forget what is too old."""
        oldest_ms = self._clock() - KEPT_MS
        while self._places:
            key = next(iter(self._places))
            if self._places[key][0] >= oldest_ms:
                return
            del self._places[key]
