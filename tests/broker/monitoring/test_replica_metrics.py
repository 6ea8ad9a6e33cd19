"""Metrics say how far slaves are behind, and whether a slave follows its master."""

from __future__ import annotations

from flintmq import Message
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.net.address import Address
from support.metrics.scraping import Scrape, scrape

ANYWHERE = Address("127.0.0.1", 0)
PATIENCE_S = 60.0
MASTER, SLAVE = "broker-a", "broker-a/1"


def test_a_slave_that_has_everything_is_not_behind_and_follows() -> None:
    with EmbeddedBroker(slaves=1, metrics=ANYWHERE) as pair:
        with pair.producer("shop") as producer:
            producer.send(Message("orders", b"x"))
        pair.wait_for(lambda: _is_even(scrape(pair.metrics)), PATIENCE_S)

        found = scrape(pair.metrics)

    assert found.value("flintmq_slaves", node_id=MASTER) == 1
    assert found.value("flintmq_slave_behind_bytes", node_id=MASTER, slave="127.0.0.1") == 0
    assert found.value("flintmq_following", node_id=SLAVE) == 1
    assert found.value("flintmq_slaves", node_id=SLAVE) == 0
    assert [*found.find("flintmq_following", node_id=MASTER)] == []


def _is_even(found: Scrape) -> bool:
    """Whether the slave has reported all of a log that has something."""
    ends = found.value("flintmq_commit_log_end_offset", node_id=MASTER)
    behind = [each.value for each in found.find("flintmq_slave_behind_bytes", node_id=MASTER)]
    return ends > 0 and behind == [0]


def test_a_broker_without_replicas_has_no_slaves() -> None:
    with EmbeddedBroker(metrics=ANYWHERE) as broker:
        found = scrape(broker.metrics)

    assert found.value("flintmq_slaves") == 0
    assert [*found.find("flintmq_slave_behind_bytes")] == []
