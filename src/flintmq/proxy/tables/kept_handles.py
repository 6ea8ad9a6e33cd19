"""Receipts of messages that push consumers work on, renewed until they are settled.

    popped ──► kept ──every `LOOK_MS`: due soon?──► hidden for longer, by steps
                 ├── acknowledged, changed, buried ──► gone
                 ├── client left ──► shown again after `GIVEN_BACK_MS`
                 └── `KEPT_MS` after the pop, or failed `FAILURES_MAX` times ──► left to come back

A client keeps using the handle it was given; here is the one that counts now.

Invariant: at most `HANDLES_MAX` are kept.  A message beyond that is delivered all the same, and
comes back when its time is over.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from flintmq.protocol.pop.receipts import ReceiptHandle

INVISIBLE_MS: Final = 60_000
"""How long a message is hidden at first."""

LOOK_MS: Final = 5_000
AHEAD_MS: Final = 10_000
"""A receipt that ends within this time is renewed."""

STEPS_MS: Final = (60_000, 180_000, 300_000, 600_000, 1_800_000, 3_600_000)
KEPT_MS: Final = 3 * 3_600_000
FAILURES_MAX: Final = 3
GIVEN_BACK_MS: Final = 1_000

HANDLES_MAX: Final = 200_000
"""About half a kilobyte each."""


@dataclass(slots=True, eq=False)
class KeptHandle:
    """One delivery to one client."""

    client_id: str
    group: str
    topic: str
    message_id: str
    first: str
    """The handle the client has."""
    handle: ReceiptHandle
    """The handle that counts."""
    popped_ms: int
    renewals: int = 0
    failures: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while it is renewed or settled, so that neither uses a handle of before."""

    @property
    def next_step_ms(self) -> int:
        return STEPS_MS[min(self.renewals, len(STEPS_MS) - 1)]


class KeptHandles:
    """What is kept, by group and the handle of the client."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], KeptHandle] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, kept: KeptHandle) -> bool:
        """Keep a receipt; False where there are too many."""
        if len(self._kept) >= HANDLES_MAX:
            return False
        self._kept[kept.group, kept.first] = kept
        return True

    def find(self, group: str, text: str) -> KeptHandle | None:
        """The receipt behind a handle of a client."""
        return self._kept.get((group, text))

    def drop(self, kept: KeptHandle) -> None:
        self._kept.pop((kept.group, kept.first), None)

    def has(self, kept: KeptHandle) -> bool:
        return self._kept.get((kept.group, kept.first)) is kept

    def of_client(self, client_id: str) -> list[KeptHandle]:
        return [each for each in self._kept.values() if each.client_id == client_id]

    def ending(self, now_ms: int) -> list[KeptHandle]:
        """Receipts that end soon."""
        return [
            each
            for each in self._kept.values()
            if not each.lock.locked() and each.handle.expires_ms - now_ms <= AHEAD_MS
        ]
