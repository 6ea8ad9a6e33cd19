"""What calls were answered with, how long they took, and which streams are open.

Invariant: a stream is counted once, by its first status; one that its client left before that
counts as cancelled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from flintmq.metrics.families import Distribution
from flintmq.proxy.wire.grpc_codes import Code

BOUNDS_MS: Final = (1, 3, 5, 7, 10, 100, 1_000, 2_000, 3_000)
"""Those of the broker's requests."""

CANCELLED: Final = "CANCELLED"


class CallCounts:
    """The counts of one proxy since its start."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        """By call and the code of its answer."""
        self.times_ms: dict[str, Distribution] = {}
        """Of calls that are no streams."""
        self.open_streams: Counter[str] = Counter()

    def answered(self, call: str, code: int, took_s: float) -> None:
        self.calls[call, Code(code).name] += 1
        times = self.times_ms.get(call)
        if times is None:
            times = self.times_ms[call] = Distribution(BOUNDS_MS)
        times.add(took_s * 1000)

    @contextmanager
    def stream(self, call: str) -> Iterator[Callable[[int], None]]:
        """Count a stream while the block runs; it is told the code of the stream's status."""
        self.open_streams[call] += 1
        codes: list[str] = []
        try:
            yield lambda code: codes.append(Code(code).name)
        finally:
            self.open_streams[call] -= 1
            self.calls[call, codes[0] if codes else CANCELLED] += 1
