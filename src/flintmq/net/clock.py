"""The clock of everything that waits: milliseconds that only go forward."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns
from typing import TypeAlias

Clock: TypeAlias = Callable[[], int]


def monotonic_ms() -> int:
    return monotonic_ns() // 1_000_000
