"""What a task counts of its outcomes and calls; it travels with the report of the task.

Spark could count the same from the rows, but does so for each row and each figure anew: that costs
more than to consume a message.  So a task counts, and the driver adds up.

Invariant: the outcomes add up to the rows of the task, and the buckets to the calls.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from flintmq.metrics.run_counts import CALL_BOUNDS_MS, CallTimes
from flintmq.spark.outcomes.outcome_rows import CONSUMED, Fate, OutcomeKind

OUTCOMES: Final = "outcomes"
CALLS: Final = "calls"
BUCKETS: Final = "buckets"
SUM_MS: Final = "sum_ms"


class OutcomeCounts:
    """The outcomes and calls of a task, or of all tasks of a micro-batch."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        """Calls of listeners, by topic."""
        self._buckets = [0] * (len(CALL_BOUNDS_MS) + 1)
        self._sum_ms = 0.0

    @property
    def times(self) -> CallTimes:
        return CallTimes(tuple(self._buckets), self._sum_ms)

    @property
    def bad_records(self) -> int:
        return self.outcomes[OutcomeKind.BAD_RECORD.value]

    def add_rows(self, count: int, fates: Sequence[Fate] | None) -> None:
        """Rows were made; all of them consumed, unless ``fates`` says otherwise."""
        if fates is None:
            self.outcomes[CONSUMED.kind.value] += count
        else:
            self.outcomes.update(fate.kind.value for fate in fates)

    def add_call(self, topic: str, spent_ms: float) -> None:
        """A listener was called."""
        self.calls[topic] += 1
        self._buckets[bisect_left(CALL_BOUNDS_MS, spent_ms)] += 1
        self._sum_ms += spent_ms

    def tree(self) -> dict[str, Any] | None:
        """As JSON; None where there is nothing."""
        if not self.outcomes:
            return None
        return {
            OUTCOMES: dict(self.outcomes),
            CALLS: dict(self.calls),
            BUCKETS: self._buckets,
            SUM_MS: round(self._sum_ms, 3),
        }

    def add_tree(self, tree: Mapping[str, Any]) -> None:
        """Add what `tree` gave in a task."""
        self.outcomes.update(tree[OUTCOMES])
        self.calls.update(tree[CALLS])
        self._buckets = [a + b for a, b in zip(self._buckets, tree[BUCKETS], strict=True)]
        self._sum_ms += tree[SUM_MS]
