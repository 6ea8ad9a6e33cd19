"""The driver of a Spark query, as a console sees it: figures, and no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from flintmq.metrics.client_metrics import ClientMetrics
from flintmq.metrics.run_counts import BatchCounts, CallTimes
from flintmq.net.address import Address
from flintmq.net.clock import wall_ms

BATCHES = 60
STEP_MS = 5_000


@contextmanager
def spark_driver() -> Iterator[tuple[ClientMetrics, Address]]:
    """Listeners that ran for five minutes and catch up, and a lake that ended."""
    metrics = ClientMetrics()
    start_ms = wall_ms() - BATCHES * STEP_MS
    counts = metrics.spark_run("billing", "listeners", start_ms)
    lake = metrics.spark_run("/data/lake", "lake", start_ms)
    left = 40_000
    for number in range(BATCHES):
        messages = 800 + (number * 137) % 400
        left = max(0, left - messages + 300)
        retried = number % 4
        batch = BatchCounts(
            messages,
            2_000 + (number * 53) % 700,
            {"orders": left, "%RETRY%billing": retried},
            {"consumed": messages - retried - number % 2, "sent back": retried, "dead": number % 2},
            CallTimes((messages // 64, messages // 32, 3, 0, 0, 0, 0), messages / 10),
        )
        at_ms = start_ms + (number + 1) * STEP_MS
        counts.batch(batch, at_ms)
        if number % 10 == 0:
            lake.batch(BatchCounts(9_000, 1_500, {"payments": 0}), at_ms)
    lake.ended()
    try:
        yield metrics, Address.parse(metrics.serve("127.0.0.1:0"))
    finally:
        metrics.close()
