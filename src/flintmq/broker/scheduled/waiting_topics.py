"""Timer messages that wait in memory, counted by the topic they go to."""

from __future__ import annotations

from collections import Counter
from collections.abc import ItemsView, Iterable


class WaitingTopics:
    """How many messages wait for each topic."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def items(self) -> ItemsView[str, int]:
        return self._counts.items()

    def come(self, topic: str) -> None:
        """One more waits."""
        self._counts[topic] += 1

    def leave(self, topics: Iterable[str], *, is_last: bool) -> None:
        """These wait no more; with the last of all nothing is left to count.

        A record that became unreadable does not say where it wanted to.
        """
        left = list(topics)
        self._counts.subtract(left)
        for topic in set(left):
            if self._counts[topic] <= 0:
                del self._counts[topic]
        if is_last:
            self._counts.clear()
