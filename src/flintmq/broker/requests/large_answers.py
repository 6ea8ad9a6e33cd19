"""Answers that grow with what is in the broker: at once when they are small, else in parts."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias

from flintmq.broker.requests.outcome import Outcome, Steps

SMALL_ENTRIES = 256
"""Queues, topics, groups or members that an answer may list at once: some 5 ms."""

TOPICS_PER_REQUEST_MAX = 1_000
"""Topics that one request may make or name."""

Work: TypeAlias = Generator[None, None, Outcome]


def answered(work: Work, entries: int) -> Outcome:
    """The outcome of the work for an answer with about so many entries, or the work in parts."""
    if entries > SMALL_ENTRIES:
        return Steps(work)
    while True:
        try:
            next(work)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome
