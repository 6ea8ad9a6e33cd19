"""The first questions of a consumer to its name servers, asked until one answers.

    routes asked for ──answered──► start goes on
         ▲   └─ no name server answers: a WARNING, once
         └── again, until ``start_timeout_ms`` is over ──► Unreachable, with what to do

Any answer ends the wait, also "no such topic": `client.joining.missing_topics` sees to that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from flintmq.client.engine.client_engine import ClientEngine
from flintmq.errors import Unreachable

ASK_AGAIN_S: Final = 0.25
"""Often enough to go on soon after a name server is there."""


async def first_routes(engine: ClientEngine, topics: Sequence[str]) -> None:
    """Ask for the routes of all topics; wait for a name server that is not there yet."""
    start_ms, timeout_ms = engine.stopwatch(), engine.config.start_timeout_ms
    tries = 0
    while True:
        tries += 1
        try:
            await asyncio.gather(*map(engine.refresh_route, topics))
        except Unreachable as error:
            spent_ms = engine.stopwatch() - start_ms
            if spent_ms >= timeout_ms:
                raise _given_up(error, tries, spent_ms) from error
            if tries == 1:
                text = f"{error.reason}; the start waits up to {timeout_ms} ms (start_timeout_ms)"
                engine.events.add("start", error.address, text, logging.WARNING)
        else:
            return
        await asyncio.sleep(ASK_AGAIN_S)


def _given_up(error: Unreachable, tries: int, spent_ms: int) -> Unreachable:
    advice = "see that a name server listens there, or let the start wait longer (start_timeout_ms)"
    times = "once" if tries == 1 else f"{tries} times"
    return Unreachable(error.address, f"{error.reason}; asked {times} in {spent_ms} ms: {advice}")
