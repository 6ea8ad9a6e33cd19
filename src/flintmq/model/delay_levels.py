"""The delay levels of RocketMQ, as brokers have them unless they are configured otherwise.

Level 1 is the first.  A level above the last is the last, as in RocketMQ.

Invariant: there is at least one level.
"""

from __future__ import annotations

from typing import Final

DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
"""The default of messageDelayLevel."""

_UNITS: Final = {"s": "s", "m": "min", "h": "h", "d": "d"}
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def delay_text(level: int) -> str:
    """How long a message of a level waits, for people: ``10 s``; by the default table."""
    parts = DELAY_LEVELS.split()
    part = parts[min(max(level, 1), len(parts)) - 1]
    return f"{part[:-1]} {_UNITS[part[-1]]}"


def delay_ms(level: int) -> int:
    """How long a message of a level waits, by the default table."""
    parts = DELAY_LEVELS.split()
    part = parts[min(max(level, 1), len(parts)) - 1]
    return int(part[:-1]) * _SECONDS[part[-1]] * 1_000


def level_of_delay(seconds: float) -> int:
    """The first level that waits at least so long; the last one if none does."""
    for level, part in enumerate(DELAY_LEVELS.split(), 1):
        if int(part[:-1]) * _SECONDS[part[-1]] >= seconds:
            return level
    return len(DELAY_LEVELS.split())
