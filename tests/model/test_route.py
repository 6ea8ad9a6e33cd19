"""A route names the queues to write and the queues to share out, and never too many."""

from __future__ import annotations

import pytest

from flintmq.model.queue import QueueRef
from flintmq.model.route import (
    BROKERS_MAX,
    QUEUES_MAX,
    REPLICAS_MAX,
    BrokerReplicas,
    QueueCounts,
    Route,
)
from flintmq.model.topic import READ_WRITE, Permission

A = BrokerReplicas("c", "a", {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"})
B = BrokerReplicas("c", "b", {0: "10.0.0.3:10911"})
ORPHAN = BrokerReplicas("c", "o", {1: "10.0.0.4:10911"})


def queues(*parts: tuple[str, int]) -> list[QueueRef]:
    return [QueueRef("t", broker, queue_id) for broker, queue_id in parts]


def test_producers_use_the_writable_queues_by_broker_name() -> None:
    route = Route(
        brokers=(B, A),
        queues=(
            QueueCounts("b", 1, 1, READ_WRITE),
            QueueCounts("a", 4, 2, READ_WRITE),
            QueueCounts("a", 9, 9, Permission.READ),
        ),
    )

    assert route.publish_queues("t") == queues(("a", 0), ("a", 1), ("b", 0))


def test_a_broker_without_a_master_takes_no_messages_but_gives_them() -> None:
    route = Route(brokers=(ORPHAN,), queues=(QueueCounts("o", 2, 2, READ_WRITE),))

    assert route.publish_queues("t") == []
    assert route.subscribe_queues("t") == queues(("o", 0), ("o", 1))


def test_consumers_share_the_readable_queues_in_one_order() -> None:
    route = Route(
        brokers=(A, B),
        queues=(
            QueueCounts("b", 2, 1, Permission.READ),
            QueueCounts("a", 1, 1, READ_WRITE),
            QueueCounts("o", 3, 3, Permission.WRITE),
        ),
    )

    assert route.subscribe_queues("t") == queues(("a", 0), ("b", 0), ("b", 1))


def test_an_ordered_topic_has_its_queues_fixed() -> None:
    route = Route(brokers=(), queues=(), order="b:1;a:2")

    assert route.publish_queues("t") == queues(("b", 0), ("a", 0), ("a", 1))


def test_addresses_are_found_by_broker_and_id() -> None:
    route = Route(brokers=(A, ORPHAN), queues=())

    assert route.address("a") == A.master == "10.0.0.1:10911"
    assert route.address("a", 1) == "10.0.0.2:10911"
    assert route.address("o") is ORPHAN.master is None
    assert route.address("x") is None


@pytest.mark.parametrize("order", ["a", "a:", ":4", "a:-1", "a:x", f"a:{QUEUES_MAX + 1}"])
def test_an_order_that_makes_no_sense_is_refused(order: str) -> None:
    with pytest.raises(ValueError, match=r"broker:count|more than"):
        Route(brokers=(), queues=(), order=order)


@pytest.mark.parametrize(("read", "write"), [(QUEUES_MAX, 1), (1, QUEUES_MAX)])
def test_a_route_cannot_have_endless_queues(read: int, write: int) -> None:
    one = QueueCounts("a", 1, 1, READ_WRITE)
    many = QueueCounts("b", read, write, READ_WRITE)

    Route(brokers=(), queues=(many,))
    with pytest.raises(ValueError, match="more than"):
        Route(brokers=(), queues=(one, many))


@pytest.mark.parametrize(("read", "write"), [(-1, 0), (0, -1)])
def test_a_broker_cannot_have_fewer_than_no_queues(read: int, write: int) -> None:
    with pytest.raises(ValueError, match="fewer"):
        QueueCounts("a", read, write, READ_WRITE)


def test_a_route_of_too_many_brokers_is_refused() -> None:
    """A client connects to each of them; a bad name server could send it anywhere."""
    brokers = tuple(
        BrokerReplicas("c", f"b{number}", {0: f"10.0.0.1:{number}"})
        for number in range(BROKERS_MAX + 1)
    )
    counts = tuple(QueueCounts(each.broker, 1, 1, READ_WRITE) for each in brokers)

    assert len(Route(brokers[1:], counts[1:]).publish_queues("t")) == BROKERS_MAX
    with pytest.raises(ValueError, match="brokers"):
        Route(brokers, ())
    with pytest.raises(ValueError, match="brokers"):
        Route((), counts)


def test_a_broker_of_too_many_replicas_is_refused() -> None:
    addresses = {number: f"10.0.0.1:{number}" for number in range(REPLICAS_MAX + 1)}

    with pytest.raises(ValueError, match="replicas"):
        Route((BrokerReplicas("c", "a", addresses),), ())
