"""The two clocks: milliseconds that only go forward, for whatever waits, and those of the wall."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns, time_ns
from typing import TypeAlias

Clock: TypeAlias = Callable[[], int]


def monotonic_ms() -> int:
    return monotonic_ns() // 1_000_000


def wall_ms() -> int:
    """Milliseconds since 1970, as records and tables have them.  It may be moved at any time."""
    return time_ns() // 1_000_000
