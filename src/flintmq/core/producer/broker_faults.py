"""Which brokers a producer leaves alone for a while because they were slow or failed.

Every send says how long its broker took.  A slow answer makes the broker unavailable for a time
that a table gives; a failure counts as a very slow answer.  RocketMQ has two tables, the second
of which forgives sooner, and two rules for when nobody is available.

    4.9: one of the better half of the brokers that had trouble, in turn
    5.x: one that could be reached at all, else any

Nothing here chooses a queue: `core.producer.publisher` does and asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

BROKERS_MAX: Final = 1_024
"""Brokers remembered; the one whose last send is oldest goes first."""


class Avoidance(StrEnum):
    """Which table to go by."""

    OFF = "off"
    RELEASE_4 = "4.9"
    RELEASE_5 = "5.x"


class Rules(NamedTuple):
    """From which latency on a broker is left alone, and for how long."""

    steps: tuple[tuple[int, int], ...]
    failure_ms: int
    """The latency that a failure counts as."""

    def pause_ms(self, latency_ms: int) -> int:
        for from_ms, pause_ms in reversed(self.steps):
            if latency_ms >= from_ms:
                return pause_ms
        return 0


RULES_4: Final = Rules(
    steps=(
        (50, 0),
        (100, 0),
        (550, 30_000),
        (1_000, 60_000),
        (2_000, 120_000),
        (3_000, 180_000),
        (15_000, 600_000),
    ),
    failure_ms=30_000,
)
RULES_5: Final = Rules(
    steps=(
        (50, 0),
        (100, 0),
        (550, 2_000),
        (1_800, 5_000),
        (3_000, 6_000),
        (5_000, 10_000),
        (15_000, 30_000),
    ),
    failure_ms=10_000,
)


@dataclass(slots=True)
class _Trouble:
    """The last thing known of one broker."""

    latency_ms: int
    available_from_ms: int
    reachable: bool


class BrokerFaults:
    """What is remembered of the brokers of one producer."""

    def __init__(self, avoidance: Avoidance) -> None:
        self.avoidance = avoidance
        self.is_on = avoidance is not Avoidance.OFF
        self._rules = RULES_4 if avoidance is Avoidance.RELEASE_4 else RULES_5
        self._troubles: dict[str, _Trouble] = {}
        self._turn = 0

    def __repr__(self) -> str:
        return f"<Faults {self.avoidance}, {len(self._troubles)} brokers>"

    def answered(self, broker: str, latency_ms: int, now_ms: int) -> None:
        """A broker answered, whatever it said."""
        self._remember(broker, latency_ms, self._rules.pause_ms(latency_ms), now_ms, reachable=True)

    def failed(self, broker: str, latency_ms: int, now_ms: int, *, reachable: bool) -> None:
        """A try failed; ``reachable`` when the broker answered that it does not want it."""
        pause_ms = self._rules.pause_ms(self._rules.failure_ms)
        self._remember(broker, latency_ms, pause_ms, now_ms, reachable=reachable)

    def is_available(self, broker: str, now_ms: int) -> bool:
        trouble = self._troubles.get(broker)
        return trouble is None or now_ms >= trouble.available_from_ms

    def is_reachable(self, broker: str) -> bool:
        trouble = self._troubles.get(broker)
        return trouble is None or trouble.reachable

    def least_bad(self, now_ms: int) -> str | None:
        """By the rule of 4.9 one of the better half of those with trouble, in turn."""
        if not self._troubles:
            return None
        order = sorted(
            self._troubles,
            key=lambda broker: (
                not self.is_available(broker, now_ms),
                self._troubles[broker].latency_ms,
                self._troubles[broker].available_from_ms,
            ),
        )
        self._turn += 1
        return order[self._turn % max(1, len(order) // 2)]

    def forget(self, broker: str) -> None:
        self._troubles.pop(broker, None)

    def _remember(
        self, broker: str, latency_ms: int, pause_ms: int, now_ms: int, *, reachable: bool
    ) -> None:
        self._troubles.pop(broker, None)  # so that the order is by when they were heard of
        self._troubles[broker] = _Trouble(latency_ms, now_ms + pause_ms, reachable)
        if len(self._troubles) > BROKERS_MAX:
            del self._troubles[next(iter(self._troubles))]
