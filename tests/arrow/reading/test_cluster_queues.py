"""The driver sees a cluster as it is: where queues begin and end, by time, and for a group."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flintmq.arrow.reading.access import Access
from flintmq.arrow.reading.cluster_queues import ClusterQueues
from flintmq.client.admin import Admin
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.errors import NoRoute, Unreachable
from flintmq.model.queue import Extent, QueueOffset, QueueRef
from support.spark.support import BROKER, create_topic, forget_old, forgetful, send, wait_for


@pytest.fixture
def cluster(broker: EmbeddedBroker) -> Iterator[ClusterQueues]:
    found = ClusterQueues(Access((broker.namesrv,)))
    yield found
    found.close()


def extent(start: int, stop: int) -> Extent:
    return Extent(QueueOffset(start), QueueOffset(stop))


def queue(topic: str, queue_id: int = 0, broker: str = BROKER) -> QueueRef:
    return QueueRef(topic, broker, queue_id)


def test_lists_the_topics_of_users_only(broker: EmbeddedBroker, cluster: ClusterQueues) -> None:
    create_topic(broker, "listed")

    found = cluster.topics()

    assert "listed" in found
    assert not [name for name in found if name.startswith(("%", "SCHEDULE", "RMQ_SYS", "broker"))]
    assert list(found) == sorted(found)


def test_a_topic_that_nobody_has_is_an_error(cluster: ClusterQueues) -> None:
    with pytest.raises(NoRoute):
        cluster.queues(["nobodys"])


def test_knows_where_every_queue_begins_and_ends(
    broker: EmbeddedBroker, cluster: ClusterQueues
) -> None:
    create_topic(broker, "known", 3)
    send(broker, "known", map(str, range(5)), queue_id=1)

    queues = cluster.queues(["known"])
    found = cluster.extents(queues)

    assert queues == tuple(queue("known", number) for number in range(3))
    assert found == {queues[0]: extent(0, 0), queues[1]: extent(0, 5), queues[2]: extent(0, 0)}
    assert cluster.origin(queues[0]) == broker.broker


def test_a_queue_that_is_not_there_is_left_out(
    broker: EmbeddedBroker, cluster: ClusterQueues
) -> None:
    create_topic(broker, "small", 1)

    found = cluster.extents([queue("small", 0), queue("small", 7)])

    assert set(found) == {queue("small", 0)}


def test_tells_of_queues_that_can_only_be_read(
    broker: EmbeddedBroker, cluster: ClusterQueues
) -> None:
    create_topic(broker, "shrinking", 2)
    send(broker, "shrinking", ["a", "b"], queue_id=1)
    with Admin(namesrv=broker.namesrv) as admin:
        admin.update_topic("shrinking", write_queues=1)

    assert cluster.extents([queue("shrinking", 1)]) == {queue("shrinking", 1): extent(0, 2)}


def test_finds_the_first_message_of_a_time_exactly(own_broker: EmbeddedBroker) -> None:
    create_topic(own_broker, "timed")
    for _ in range(4):
        send(own_broker, "timed", ["x"] * 50)
        own_broker.advance(10)
    place = queue("timed")
    with Admin(namesrv=own_broker.namesrv) as admin:
        [located] = admin.locate_spans("timed")
        times = [message.store_ms for message in admin.read(located)]
    cluster = ClusterQueues(Access((own_broker.namesrv,)))

    for time_ms in {t + d for t in times for d in (-1, 0, 1)} | {0, times[-1] + 10_000_000}:
        first = next((n for n, stored in enumerate(times) if stored >= time_ms), len(times))
        assert cluster.offsets_at([place], time_ms) == {place: first}
    cluster.close()


def test_the_end_is_found_where_all_messages_are_older(
    broker: EmbeddedBroker, cluster: ClusterQueues
) -> None:
    create_topic(broker, "older", 2)
    send(broker, "older", ["a", "b"], queue_id=0)

    found = cluster.offsets_at([queue("older", 0), queue("older", 1)], 9_999_999_999_999)

    assert found == {queue("older", 0): 2, queue("older", 1): 0}


def test_deleted_messages_are_before_every_time() -> None:
    with forgetful() as servers:
        create_topic(servers, "fading")
        send(servers, "fading", ["x" * 100] * 200, batch=10)
        forget_old(servers)
        cluster = ClusterQueues(Access((servers.namesrv,)))

        start = cluster.extents([queue("fading")])[queue("fading")].start

        assert start > 0
        assert cluster.offsets_at([queue("fading")], 0) == {queue("fading"): start}
        cluster.close()


def test_a_group_that_never_committed_has_no_offsets(
    broker: EmbeddedBroker, cluster: ClusterQueues
) -> None:
    create_topic(broker, "untouched", 2)

    assert cluster.group_offsets(cluster.queues(["untouched"]), "nobody") == {}


def test_commits_and_never_goes_back(broker: EmbeddedBroker, cluster: ClusterQueues) -> None:
    create_topic(broker, "committed", 2)
    send(broker, "committed", ["a"] * 5)
    first, second = cluster.queues(["committed"])

    cluster.commit("members", {first: QueueOffset(4), second: QueueOffset(0)})
    cluster.commit("members", {first: QueueOffset(3)})

    assert cluster.group_offsets([first, second], "members") == {first: 4, second: 0}


def test_a_group_that_commits_is_known_to_tools_but_is_nobodys(
    two_brokers: EmbeddedBroker,
) -> None:
    create_topic(two_brokers, "shown", 1)
    cluster = ClusterQueues(Access((two_brokers.namesrv,)))
    try:
        cluster.commit("shown", {each: QueueOffset(0) for each in cluster.queues(["shown"])})
    finally:
        cluster.close()

    with Admin(namesrv=two_brokers.namesrv) as admin:
        # Tools ask the brokers that have this topic how far the group is.
        route = admin.route("%RETRY%shown")
        assert {each.broker for each in route.brokers} == {"broker-a", "broker-b"}
        assert admin.members("shown") is None


def test_one_silent_broker_does_not_hide_the_others(two_brokers: EmbeddedBroker) -> None:
    create_topic(two_brokers, "shared", 1)
    send(two_brokers, "shared", ["a"], broker="broker-a")
    send(two_brokers, "shared", ["a", "b"], broker="broker-b")
    a, b = queue("shared", broker="broker-a"), queue("shared", broker="broker-b")
    cluster = ClusterQueues(Access((two_brokers.namesrv,)))
    assert cluster.extents([a, b]) == {a: extent(0, 1), b: extent(0, 2)}

    two_brokers.stop_broker("broker-b")
    during = cluster.survey([a, b])
    two_brokers.start_broker("broker-b")

    assert during.extents == {a: extent(0, 1)}
    wait_for(lambda: cluster.survey([a, b]).extents == {a: extent(0, 1), b: extent(0, 2)})
    cluster.close()


def test_nobody_there_is_an_error_after_some_tries() -> None:
    with EmbeddedBroker() as servers:
        create_topic(servers, "left")
        cluster = ClusterQueues(Access((servers.namesrv,)))
        queues = cluster.queues(["left"])

    with pytest.raises(Unreachable):
        cluster.extents(queues)
    assert cluster.survey(queues).silent.keys() == {BROKER}
    cluster.close()
