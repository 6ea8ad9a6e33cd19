"""Options for times, as people type them: see `core.reading.time_text`."""

from __future__ import annotations

from typing import Annotated

import typer

from flintmq.core.reading.time_text import parse_time
from flintmq.net.clock import wall_ms

FOREVER_MS = 2**63 - 1

Since = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="Stored then or later.", show_default=False),
]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="Stored before that.", show_default=False),
]


def parse_times(since: str | None, until: str | None) -> tuple[int, int]:
    """Start and end in milliseconds; the first and the last possible time where none is given."""
    now_ms = wall_ms()
    start_ms = 0 if since is None else parse_time(since, now_ms)
    return start_ms, FOREVER_MS if until is None else parse_time(until, now_ms)
