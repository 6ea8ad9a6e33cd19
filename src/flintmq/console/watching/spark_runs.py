"""Queries of Spark, as the programs that started them tell of them.

    driver with metrics: GET /runs ─► `SparkRuns` ─► pages

A driver is asked when somebody looks, once for all viewers.  It has the past of its queries itself,
so nothing is kept here but the last answer: it is shown, with its time, while a driver is away.

Invariant: only addresses are asked that the console was started with.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from flintmq.errors import FlintError
from flintmq.metrics.run_reports import PATH, RunReport, decode_reports
from flintmq.net.address import Address
from flintmq.net.clock import monotonic_ms, wall_ms
from flintmq.net.http_get import http_get

FRESH_MS: Final = 2_000
"""How long an answer is shared: less than the interval of a live page."""


@dataclass(slots=True)
class Driver:
    """A program that started queries, and what it said last."""

    address: Address
    reports: list[RunReport] = field(default_factory=list)
    heard_ms: int | None = None
    """When it answered last."""
    error: str = ""
    """Why it did not answer now."""


class SparkRuns:
    """The drivers that a console was told of."""

    def __init__(
        self,
        addresses: Iterable[Address],
        *,
        clock: Callable[[], int] = monotonic_ms,
        wall: Callable[[], int] = wall_ms,
    ) -> None:
        self._drivers = [Driver(each) for each in dict.fromkeys(addresses)]
        self._clock = clock
        self._wall = wall
        self._asked_ms: int | None = None
        self._asking = asyncio.Lock()

    def __bool__(self) -> bool:
        return bool(self._drivers)

    async def look(self) -> list[Driver]:
        """All drivers, with what they say now or said last."""
        async with self._asking:
            now_ms = self._clock()
            if self._asked_ms is None or now_ms - self._asked_ms >= FRESH_MS:
                await asyncio.gather(*map(self._ask, self._drivers))
                self._asked_ms = self._clock()
        return self._drivers

    async def _ask(self, driver: Driver) -> None:
        try:
            driver.reports = decode_reports(await http_get(driver.address, PATH))
        except FlintError as error:
            driver.error = str(error).partition("\n")[0]
        else:
            driver.heard_ms, driver.error = self._wall(), ""
