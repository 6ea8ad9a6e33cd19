"""What tasks say of popped messages that were not consumed, on its way to who popped them.

    task ──column ``settle`` of one row──► program ──control file──► source process ──► broker

A message is named by the pop it came with and its place in it.  Messages without a verdict were
consumed, so a micro-batch in which all goes well has none.

Invariant: what is written by `write_verdict` is read by `read_verdicts`, in any process.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

from flintmq.core.group.listener_results import (
    Consumed,
    Dead,
    DeadLetter,
    MessageResult,
    Outcome,
    Retry,
)
from flintmq.model.message import ReceivedMessage

VERDICTS: Final = "verdicts"
"""The control file: the verdicts of a micro-batch whose listeners have all run."""

DEAD: Final = "dead"
AGAIN: Final = "again"


class PoppedSome(NamedTuple):
    """Some messages of one pop, for a task.  ``first`` is the place of the first in the pop."""

    pop: int
    first: int
    messages: tuple[ReceivedMessage, ...]


def write_verdict(pop: int, place: int, outcome: Outcome) -> str | None:
    """A verdict as text; None for a message that was consumed."""
    if isinstance(outcome, Consumed):
        return None
    if isinstance(outcome, Dead):
        return json.dumps([pop, place, DEAD, 0, outcome.reason])
    return json.dumps([pop, place, AGAIN, outcome.delay_level, outcome.reason])


def read_verdicts(texts: Iterable[str]) -> dict[int, dict[int, MessageResult]]:
    """Verdicts as a listener would return them, by pop and place."""
    found: dict[int, dict[int, MessageResult]] = {}
    for text in texts:
        pop, place, kind, delay_level, reason = json.loads(text)
        is_dead = kind == DEAD
        result = DeadLetter(reason) if is_dead else Retry(delay_level, None, reason)
        found.setdefault(pop, {})[place] = result
    return found
