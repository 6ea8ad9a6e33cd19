"""How far a group is behind is told for each group that committed an offset, live or not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flintmq import Message
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.model.queue import QueueRef
from flintmq.net.address import Address
from support.embedded.asking import pull
from support.metrics.scraping import Scrape, scrape

QUEUE = QueueRef("orders", "broker-a", 0)
BILLING = {"consumer_group": "billing", "topic": "orders"}


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(metrics=Address("127.0.0.1", 0)) as broker:
        with broker.admin() as admin:
            admin.create_topic("orders", queues=1)
        yield broker


def commit(broker: EmbeddedBroker, group: str, offset: int) -> None:
    broker.call(
        lambda servers: servers.brokers["broker-a"].state.offsets.commit(
            group, "orders", 0, offset, "a test"
        )
    )


def note_pull(broker: EmbeddedBroker, group: str, next_offset: int) -> None:
    broker.call(
        lambda servers: servers.brokers["broker-a"].state.offsets.note_pull(
            group, "orders", 0, next_offset
        )
    )


def send(broker: EmbeddedBroker, count: int) -> None:
    with broker.producer("shop") as producer:
        for _ in range(count):
            producer.send(Message("orders", b"x"))


def figures(found: Scrape) -> dict[str, float]:
    """Without the prefix that all have."""
    prefix = "rocketmq_consumer_"
    return {
        each.name.removeprefix(prefix): each.value
        for each in found.series
        if each.name.startswith(prefix) and each.labels.get("consumer_group") == "billing"
    }


def test_lag_in_flight_and_ready_add_up(broker: EmbeddedBroker) -> None:
    """The example that was tried on a real broker: five sent, none committed, two pulled."""
    send(broker, 5)
    commit(broker, "billing", 0)
    note_pull(broker, "billing", 2)
    broker.advance(30)

    found = figures(scrape(broker.metrics))

    assert found["lag_messages"] == 5
    assert found["inflight_messages"] == 2
    assert found["ready_messages"] == 3
    assert 30_000 <= found["lag_latency_milliseconds"] < 90_000
    assert 30_000 <= found["queueing_latency_milliseconds"] < 90_000


def test_a_group_without_members_is_behind_all_the_same(broker: EmbeddedBroker) -> None:
    send(broker, 3)
    commit(broker, "billing", 1)

    found = scrape(broker.metrics)

    assert found.value("rocketmq_consumer_lag_messages", **BILLING) == 2
    assert list(found.find("rocketmq_consumer_connections", consumer_group="billing")) == []


def test_a_group_that_is_done_is_not_behind(broker: EmbeddedBroker) -> None:
    send(broker, 3)
    commit(broker, "billing", 3)

    assert set(figures(scrape(broker.metrics)).values()) == {0}


def test_a_group_that_committed_nothing_is_not_told(broker: EmbeddedBroker) -> None:
    send(broker, 3)
    pull(broker.broker, "orders")

    assert list(scrape(broker.metrics).find("rocketmq_consumer_lag_messages")) == []


def test_an_offset_beyond_the_end_is_no_negative_lag(broker: EmbeddedBroker) -> None:
    send(broker, 1)
    commit(broker, "billing", 10)
    note_pull(broker, "billing", 10)

    assert set(figures(scrape(broker.metrics)).values()) == {0}


def test_a_retry_topic_and_a_system_group_are_marked(broker: EmbeddedBroker) -> None:
    send(broker, 1)
    commit(broker, "cid_rmq_sys_mine", 0)

    found = scrape(broker.metrics)

    (series,) = found.find("rocketmq_consumer_lag_messages", consumer_group="cid_rmq_sys_mine")
    assert series.labels["is_system"] == "true"
    assert series.labels["is_retry"] == "false"


def test_series_of_a_deleted_topic_end(broker: EmbeddedBroker) -> None:
    send(broker, 3)
    commit(broker, "billing", 1)
    before = scrape(broker.metrics)
    with broker.admin() as admin:
        admin.delete_topic("orders")

    after = scrape(broker.metrics)

    assert any("orders" in each.labels.values() for each in before.series)
    assert not any("orders" in each.labels.values() for each in after.series)


def test_members_are_counted_by_language_and_version(broker: EmbeddedBroker) -> None:
    with broker.push_consumer("billing", lambda _: None).subscribe("orders"):
        name = "rocketmq_consumer_connections"
        broker.wait_for(lambda: any(scrape(broker.metrics).find(name)), 60)
        (series,) = scrape(broker.metrics).find(name)

    assert series.value == 1
    assert series.labels["language"] == "python"
    assert series.labels["version"].startswith("v")
    assert series.labels["consume_mode"] == "push"
    assert series.labels["consumer_group"] == "billing"


def test_producers_are_counted_once_their_heartbeat_came(broker: EmbeddedBroker) -> None:
    name = "rocketmq_producer_connections"
    with broker.producer("shop") as producer:
        producer.send(Message("orders", b"x"))
        broker.advance(31)  # a heartbeat is due every 30 seconds
        broker.wait_for(lambda: any(scrape(broker.metrics).find(name)), 60)
        found = scrape(broker.metrics)

    assert found.total(name, language="python", protocol_type="remoting") >= 1


def test_making_a_group_is_timed(broker: EmbeddedBroker) -> None:
    with broker.admin() as admin:
        admin.create_group("billing")

    found = scrape(broker.metrics)

    name = "rocketmq_consumer_group_create_execution_time_milliseconds"
    assert found.value(f"{name}_count", invocation_status="success") == 1
    assert {each.labels["le"] for each in found.find(f"{name}_bucket")} == {
        *("10.0", "100.0", "1000.0", "3000.0", "5000.0", "+Inf")
    }
