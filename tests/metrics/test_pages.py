"""The pages take samples on the loop in short parts, and say why a server is not ready."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Sequence
from time import perf_counter
from typing import Any

import pytest

from flintmq.errors import MissingExtra
from flintmq.metrics import exposition as text
from flintmq.metrics.families import Distribution, Family, Samples, Work, counter, gauge, histogram
from flintmq.metrics.pages import PART_S, MetricsServer, Source, serve_metrics
from flintmq.net.address import Address
from support.metrics.scraping import Scrape, page, page_and_type, scrape

HERE = Address("127.0.0.1", 0)
SENT = counter("test_sent_total", "Sent.", "topic")
OPEN = gauge("test_open", "Open.")
TOOK = histogram("test_took_seconds", "Took.", (0.1, 1, 10))


def one(family: Family, value: float | Distribution, *labels: str) -> Samples:
    samples = Samples(family)
    samples.add(value, *labels)
    return samples


def source(
    *samples: Samples, node: str = "a", reasons: Callable[[], Sequence[str]] = list
) -> Source:
    return Source(lambda: {"node_id": node}, lambda: iter(samples), reasons)


def served(
    sources: Sequence[Source], act: Callable[[MetricsServer], Coroutine[Any, Any, Any]]
) -> Any:
    async def run() -> Any:
        server = await serve_metrics(HERE, sources)
        try:
            return await act(server)
        finally:
            await server.stop()

    return asyncio.run(run())


def asked(sources: Sequence[Source], path: str, accept: str = "") -> tuple[int, str, str]:
    async def ask(server: MetricsServer) -> tuple[int, str, str]:
        return await asyncio.to_thread(page_and_type, str(server.address), path, "GET", accept)

    found: tuple[int, str, str] = served(sources, ask)
    return found


def test_samples_are_written_with_their_type_and_their_common_labels() -> None:
    took = Distribution(TOOK.bounds)
    took.add(0.05)
    took.add(5, times=2)
    took.add(50)

    _, body, kind = asked(
        [source(one(SENT, 3, "orders"), one(OPEN, 1.5), one(TOOK, took))], "/metrics"
    )
    found = Scrape(body)

    assert kind.startswith("text/plain; version=")
    assert "# TYPE test_sent_total counter" in body
    assert found.value("test_sent_total", topic="orders", node_id="a") == 3
    assert found.value("test_open") == 1.5
    buckets = {s.labels["le"]: s.value for s in found.find("test_took_seconds_bucket")}
    assert buckets == {"0.1": 1, "1.0": 1, "10.0": 3, "+Inf": 4}
    assert found.value("test_took_seconds_count") == 4
    assert found.value("test_took_seconds_sum") == pytest.approx(60.05)
    assert "process_cpu_seconds_total" in found.names or sys.platform != "linux"


def test_a_scraper_that_wants_openmetrics_gets_it() -> None:
    _, body, kind = asked(
        [source(one(OPEN, 1))], "/metrics", "application/openmetrics-text; version=1.0.0"
    )

    assert kind.startswith("application/openmetrics-text; version=1.0.0")
    assert body.endswith("# EOF\n")


def test_servers_of_one_process_share_the_families() -> None:
    _, body, _ = asked([source(one(OPEN, 1)), source(one(OPEN, 2), node="b")], "/metrics")

    assert body.count("# TYPE test_open gauge") == 1
    assert [s.value for s in Scrape(body).find("test_open")] == [1, 2]


def test_a_server_is_ready_or_says_why_not() -> None:
    reasons: list[str] = []
    both = [source(), source(reasons=lambda: reasons)]

    ready = asked(both, "/readyz")
    reasons += ["the disk is full"]
    full = asked(both, "/readyz")
    alive = asked(both, "/healthz")
    none = asked([], "/readyz")

    assert ready[0] == 200
    assert json.loads(ready[1]) == {"status": "ready", "reasons": []}
    assert full[0] == 503
    assert json.loads(full[1]) == {"status": "not ready", "reasons": ["the disk is full"]}
    assert alive[0] == 200
    assert none[0] == 503


def test_other_pages_are_not_found() -> None:
    assert asked([source()], "/")[0] == 404


def test_a_long_scrape_lets_others_have_their_turn() -> None:
    """Between any two steps that take long, another task of the loop runs."""
    turns = 0
    seen = []

    def slow() -> Work:
        for _ in range(10):
            end_s = perf_counter() + 2 * PART_S
            while perf_counter() < end_s:
                pass
            seen.append(turns)
            yield None
        yield one(OPEN, 1)

    async def others(server: MetricsServer) -> None:
        nonlocal turns
        asking = asyncio.create_task(asyncio.to_thread(scrape, str(server.address)))
        while not asking.done():
            await asyncio.sleep(0)
            turns += 1
        assert asking.result().value("test_open") == 1

    served([Source(dict, slow, list)], others)

    assert len(set(seen)) == 10


def test_what_is_over_the_limit_is_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "SERIES_MAX", 10)
    many = Samples(SENT)
    for number in range(15):
        many.add(1, f"topic-{number}")

    _, body, _ = asked([source(many)], "/metrics")

    assert len(list(Scrape(body).find("test_sent_total"))) == 10
    assert Scrape(body).value("flintmq_metrics_left_out") == 5


def test_a_label_may_have_any_characters() -> None:
    odd = 'a"b\\c\nd'

    _, body, _ = asked([source(one(SENT, 1, odd))], "/metrics")

    assert Scrape(body).value("test_sent_total", topic=odd) == 1


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)

    with pytest.raises(MissingExtra, match=r"pip install 'flintmq\[metrics\]'"):
        asked([source()], "/metrics")


def test_a_sample_is_a_copy() -> None:
    took = Distribution(TOOK.bounds)
    samples = one(TOOK, took)

    took.add(1)

    ((_, kept),) = samples.rows
    assert isinstance(kept, Distribution)
    assert kept.count == 0


def test_a_page_can_be_asked_with_head() -> None:
    async def ask(server: MetricsServer) -> tuple[int, str]:
        return await asyncio.to_thread(page, str(server.address), "/healthz", "HEAD")

    assert served([source()], ask) == (200, "")
