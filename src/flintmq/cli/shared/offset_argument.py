"""Places in a topic as people type them: the start, the end, an offset, the last few, a time.

What they mean is read by `core.admin.spans`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flintmq.core.admin.spans import LocatedSpan, read_target
from flintmq.model.queue import QueueOffset, Span
from flintmq.net.clock import wall_ms

if TYPE_CHECKING:
    from flintmq.core.admin.spans import Target

PLACES = "start|end|OFFSET|TIME"
PLACES_HELP = "a time is 2026-11-16T08:30, milliseconds, or 10m for ten minutes ago"

_LAST = re.compile(r"-([0-9]{1,10})")


@dataclass(frozen=True, slots=True)
class Last:
    """The last messages of each queue."""

    count: int

    def of(self, spans: Iterable[LocatedSpan]) -> tuple[LocatedSpan, ...]:
        """The last messages of each of these spans."""
        return tuple(
            LocatedSpan(
                Span(
                    each.span.queue,
                    QueueOffset(max(each.span.start, each.span.stop - self.count)),
                    each.span.stop,
                ),
                each.address,
            )
            for each in spans
        )


def parse_target(text: str) -> Target:
    """``start``, ``end``, an offset, or a time; `InvalidSetting` for anything else."""
    return read_target(text, wall_ms())


def parse_beginning(text: str) -> Target | Last:
    """What `parse_target` takes, or ``-5`` for the last five messages of each queue."""
    if last := _LAST.fullmatch(text):
        return Last(int(last[1]))
    return parse_target(text)
