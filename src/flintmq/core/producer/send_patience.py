"""How often one send is tried, and how long it waits before it asks the same broker again.

    failed try ─┬─ passing: unreachable, restarting, busy ─► again until the time is up
                └─ any other refusal worth another try ────► again, ``retries`` times at most
    next broker ─┬─ not asked in this send ─► at once
                 └─ failed before ──────────► after a pause that grows

A passing failure is one that ends by itself: a broker that is restarted is refused, then not there,
then not ready, then there.  Other brokers are asked first; where there is none the send waits for
this one, within its timeout.  With ``retries=0`` nothing is tried twice.

Chance takes up to half off each pause, so that producers do not come back in step.

Invariant: a send is tried at most `TRIES_MAX` times, whatever its timeout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from flintmq.errors import BrokerRefused, FlintError, RemoteProtocolError, Unreachable
from flintmq.protocol.codes import ResponseCode

BUSY_FIRST_MS: Final = 100
BUSY_MAX_MS: Final = 1_000
"""How long a busy broker is left alone: twice as long each time, up to this."""

LOST_FIRST_MS: Final = 50
LOST_MAX_MS: Final = 500
"""The same for one that is not there: asking it costs it nothing, so it is asked sooner."""

TRIES_MAX: Final = 10_000
"""More than an hour of asking every `LOST_MAX_MS`."""

TOO_LATE_MS: Final = 10
"""With no more time than this left there is no further try: an answer would hardly come."""

_PASSING: Final = frozenset(
    {
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.GO_AWAY,
    }
)


def is_passing(error: object) -> bool:
    """Whether a failure ends by itself, when the broker is back or less busy."""
    if isinstance(error, BrokerRefused):
        return error.code in _PASSING
    return isinstance(error, Unreachable | RemoteProtocolError)


class SendPatience:
    """The failed tries of one send.  It is made when the first try fails."""

    def __init__(self, retries: int, chance: Callable[[], float]) -> None:
        self._retries = retries
        self._chance = chance
        self._tries = 0
        self._counted = 0
        self._is_stored = False  # not as safely as asked for: nothing is lost without another try
        self._failed: dict[str, tuple[int, bool]] = {}

    def failed(self, broker: str, outcome: object) -> bool:
        """A try came to nothing; whether there may be another."""
        self._tries += 1
        if not isinstance(outcome, FlintError):
            self._is_stored = True
        if is_passing(outcome) and not self._is_stored:
            times, _ = self._failed.get(broker, (0, False))
            is_busy = isinstance(outcome, BrokerRefused)
            self._failed[broker] = times + 1, is_busy
            return self._retries > 0 and self._tries < TRIES_MAX
        self._counted += 1
        return self._counted <= self._retries

    def wait_ms(self, broker: str, left_ms: int) -> int:
        """How long to wait before this broker is asked, so that there is time for its answer."""
        if broker not in self._failed:
            return 0
        times, is_busy = self._failed[broker]
        first_ms, max_ms = (BUSY_FIRST_MS, BUSY_MAX_MS) if is_busy else (LOST_FIRST_MS, LOST_MAX_MS)
        longest_ms = min(max_ms, first_ms << min(times - 1, 10))
        wait_ms = round(longest_ms * (1 + self._chance()) / 2)
        if left_ms <= TOO_LATE_MS:
            return max(1, left_ms)
        return max(1, min(wait_ms, left_ms // 2))  # half: there is time for one more try
