"""Runs of Spark are shown with their figures, also after their program is gone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.metrics.client_metrics import ClientMetrics
from flintmq.metrics.run_counts import BatchCounts, CallTimes
from flintmq.net.address import Address
from support.console.browsing import Tags, visiting

NOW_MS = 1_789_000_000_000


@pytest.fixture
def driver() -> Iterator[ClientMetrics]:
    """The metrics of a program that runs listeners on Spark."""
    made = ClientMetrics()
    counts = made.spark_run("billing", "listeners", NOW_MS)
    for number in range(3):
        batch = BatchCounts(
            1_000,
            500,
            {"orders": 4_000 - 1_000 * number},
            {"consumed": 990, "sent back": 7, "dead": 3},
            CallTimes((900, 100, 0, 0, 0, 0, 0), 1_500.0),
        )
        counts.batch(batch, NOW_MS + 1_000 * number)
    yield made
    made.close()


def test_a_list_has_all_runs_and_a_page_has_one(
    broker: EmbeddedBroker, driver: ClientMetrics
) -> None:
    address = Address.parse(driver.serve("127.0.0.1:0"))
    with visiting(broker.namesrv, spark_runs=[address]) as visitor:
        visitor.sign_in()
        every = visitor.until("running", "/spark")
        (link,) = [
            tag.attributes["href"]
            for tag in Tags.of(every, "a")
            if (tag.attributes["href"] or "").startswith("/spark/run")
        ]
        assert link is not None
        one = visitor.text(link)

    assert '<a href="/spark" aria-current="page">Spark runs</a>' in every
    assert ">3,000<" in every
    assert ">2,000.0/s<" in every
    assert "running" in every
    assert "<dt>Lag</dt><dd>2,000</dd>" in one
    assert "<dt>A listener&#39;s call</dt><dd>1.5 ms</dd>" in one or "1.5 ms" in one
    assert '<th scope="row">retried</th><td class="number">21</td>' in one
    assert '<th scope="row">dead letter</th><td class="number">9</td>' in one
    assert one.count("<svg") == 2
    assert len(one) < 150_000


def test_the_last_figures_stay_when_the_program_is_gone(
    broker: EmbeddedBroker, driver: ClientMetrics
) -> None:
    address = Address.parse(driver.serve("127.0.0.1:0"))
    with visiting(broker.namesrv, spark_runs=[address]) as visitor:
        visitor.sign_in()
        visitor.until("running", "/spark")
        driver.close()
        page = visitor.until("does not answer", "/spark")

    assert ">3,000<" in page
    assert "no answer" in page


def test_without_a_program_the_page_says_how_to_name_one(broker: EmbeddedBroker) -> None:
    with visiting(broker.namesrv) as visitor:
        visitor.sign_in()
        page = visitor.text("/spark")
        missing = visitor.status("/spark/run", name="billing", kind="listeners", at="x:1")

    assert "--spark-run HOST:PORT" in page
    assert '<a href="/spark"' not in page
    assert missing == 404


def test_an_address_that_serves_something_else_is_told(broker: EmbeddedBroker) -> None:
    with visiting(broker.namesrv, spark_runs=[Address.parse(broker.namesrv)]) as visitor:
        visitor.sign_in()
        page = visitor.text("/spark")

    assert "does not answer" in page
