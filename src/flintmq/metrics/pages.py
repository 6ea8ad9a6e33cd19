"""The pages for those who watch a process: /metrics, /healthz and /readyz.

    GET /metrics ─► samples, on the loop, a few milliseconds at a time ─► text, in a thread
    GET /healthz ─► 200: the process lives and its loop answers
    GET /readyz  ─► 200, or 503 and the reasons why nobody should send anything here yet

A program may have pages of its own beside them, as JSON.

One scrape is made at a time.  The text is written in a thread of its own, so a long one holds up
nobody.

Invariant: samples are taken on the loop that owns the counters; the thread only sees copies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import TypeAlias

import msgspec

from flintmq.logs import logger
from flintmq.metrics.exposition import exposition, require_prometheus
from flintmq.metrics.families import Samples, Snapshot, Work
from flintmq.net.address import Address
from flintmq.net.servers.http_listener import HttpAnswer, HttpListener, listen_http

log = logger(__name__)

PART_S = 0.002
"""How long a scrape may use the loop before others have their turn."""

Probe: TypeAlias = Callable[[], Sequence[str]]
"""Why a server is not ready; nothing when it is."""

Pages: TypeAlias = Mapping[str, Callable[[], bytes]]
"""More paths, and who writes their JSON."""

_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Source:
    """A server whose metrics are served: its labels, its samples, and whether it is ready."""

    common: Callable[[], Mapping[str, str]]
    samples: Callable[[], Work]
    why_not_ready: Probe


class MetricsServer:
    """The pages on their listener.  `serve_metrics` makes one; it belongs to that loop."""

    def __init__(self, sources: Sequence[Source], pages: Pages | None = None) -> None:
        self.sources = list(sources)
        """May change while it runs, as servers come and go."""
        self._pages = dict(pages or {})
        self._thread = ThreadPoolExecutor(1, "flintmq-metrics")
        self._one_at_a_time = asyncio.Lock()
        self._listener: HttpListener | None = None

    @property
    def address(self) -> Address:
        """Where it listens."""
        assert self._listener is not None
        return self._listener.address

    async def listen(self, where: Address) -> None:
        self._listener = await listen_http(where, self._answer)

    async def stop(self) -> None:
        if self._listener is not None:
            await self._listener.stop()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _answer(self, path: str, headers: Mapping[str, str]) -> HttpAnswer:
        if path == "/metrics":
            return await self._scrape(headers.get("accept", ""))
        if path == "/healthz":
            return HttpAnswer(200, _status("ok", ()), _JSON)
        if path == "/readyz":
            reasons = [reason for source in self.sources for reason in source.why_not_ready()]
            if not self.sources:
                reasons = ["the server is not started"]
            if reasons:
                return HttpAnswer(503, _status("not ready", reasons), _JSON)
            return HttpAnswer(200, _status("ready", ()), _JSON)
        if path in self._pages:
            return HttpAnswer(200, self._pages[path](), _JSON)
        return HttpAnswer(404, b"/metrics, /healthz and /readyz are here\n")

    async def _scrape(self, accept: str) -> HttpAnswer:
        async with self._one_at_a_time:
            snapshots = [
                Snapshot(dict(source.common()), await _taken(source.samples()))
                for source in list(self.sources)
            ]
            loop = asyncio.get_running_loop()
            text = await loop.run_in_executor(self._thread, exposition, snapshots, accept)
        return HttpAnswer(200, text.body, text.content_type)


async def serve_metrics(
    where: Address, sources: Sequence[Source], pages: Pages | None = None
) -> MetricsServer:
    """Serve the pages.  Raises `MissingExtra`, or `InvalidSetting` when it cannot listen."""
    require_prometheus()
    server = MetricsServer(sources, pages)
    await server.listen(where)
    log.info("metrics are served at http://%s/metrics", server.address)
    return server


async def _taken(work: Work) -> list[Samples]:
    """Run the work that makes samples, with pauses in which others are served."""
    found = []
    end_s = perf_counter() + PART_S
    for samples in work:
        if samples is not None:
            found.append(samples)
        if perf_counter() >= end_s:
            await asyncio.sleep(0)
            end_s = perf_counter() + PART_S
    return found


def _status(status: str, reasons: Sequence[str]) -> bytes:
    return msgspec.json.encode({"status": status, "reasons": list(reasons)}) + b"\n"
