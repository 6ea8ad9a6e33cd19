"""A topic is made where it is not, left alone where it is as wanted, and never changed by making
it; a change keeps what it does not name.
"""

from __future__ import annotations

import pytest

from flintmq.core.admin.topics import (
    LOOKS_MAX,
    TopicKind,
    create_topic,
    delete_topic,
    describe_topic,
    list_topics,
    topic_settings,
    topic_stats,
    update_topic,
)
from flintmq.errors import BrokerRefused, InvalidName, InvalidSetting, NoRoute
from flintmq.model.queue import QueueRef
from flintmq.model.topic import Permission
from flintmq.protocol.bodies.group import GroupList
from flintmq.protocol.bodies.stats import QueueExtent, TopicStats
from flintmq.protocol.bodies.topic import TopicConfig, TopicList, TopicTable
from flintmq.protocol.codes import RequestCode as Code
from flintmq.protocol.headers.common_headers import OfTopic
from flintmq.protocol.headers.topic import CreateTopic
from support.core.peers import (
    NS,
    A,
    B,
    Peers,
    Reply,
    a_cluster,
    name_servers,
    no,
    ok,
    route,
    routes,
)

NOT_THERE = no(17, "No topic in this broker")


def config(queues: int = 8, **more: object) -> TopicConfig:
    fields = {"topic_name": "orders", "read_queue_nums": queues, "write_queue_nums": queues}
    return TopicConfig(**(fields | more))  # type: ignore[arg-type]


def has(queues: int = 8, **more: object) -> Reply:
    return ok(body=config(queues, **more).to_body())


def world(on_a: Reply, on_b: Reply) -> Peers:
    script: dict[tuple[str, int], Reply | list[Reply]] = {
        (NS, Code.GET_ROUTEINFO_BY_TOPIC): routes(orders=route(8)),
        (NS, Code.DELETE_TOPIC_IN_NAMESRV): ok(),
    }
    for address, there in ((A, on_a), (B, on_b)):
        script[address, Code.GET_TOPIC_CONFIG] = there
        script[address, Code.UPDATE_AND_CREATE_TOPIC] = ok()
        script[address, Code.DELETE_TOPIC_IN_BROKER] = ok()
    return Peers(a_cluster() | script)


def puts(peers: Peers) -> dict[str, CreateTopic]:
    asked = peers.asked(Code.UPDATE_AND_CREATE_TOPIC)
    return {address: request.header(CreateTopic) for address, request in asked}


def test_topics_are_listed_with_what_they_are_for() -> None:
    names = ("orders", "%RETRY%g", "%DLQ%g", "TBW102", "shop", "broker-a", "rmq_sys_x")
    peers = Peers(
        a_cluster()
        | {
            (NS, Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER): ok(
                body=TopicList(topic_list=names).to_body()
            )
        }
    )

    found = peers.hold(list_topics(name_servers()))

    kinds = {topic.name: topic.kind for topic in found}
    assert [topic.name for topic in found] == sorted(names)
    assert kinds["orders"] is TopicKind.NORMAL
    assert kinds["%RETRY%g"] is TopicKind.RETRY
    assert kinds["%DLQ%g"] is TopicKind.DEAD_LETTER
    assert {kinds[name] for name in names[3:]} == {TopicKind.SYSTEM}


def test_a_topic_is_made_on_every_master_that_lacks_it() -> None:
    peers = world(has(8), NOT_THERE)

    made = peers.hold(create_topic(name_servers(), "orders", attributes={"a": "1"}))

    assert list(puts(peers)) == [B]
    put = puts(peers)[B]
    assert (put.read_queue_nums, put.write_queue_nums, put.perm) == (8, 8, 6)
    assert put.attributes == "+a=1"
    assert [one.broker for one in made.brokers] == ["broker-a", "broker-b"]


def test_a_topic_that_is_there_otherwise_is_refused_and_nothing_is_made() -> None:
    peers = world(NOT_THERE, has(4))

    with pytest.raises(InvalidSetting, match="exists on broker-b with 4 queues"):
        peers.hold(create_topic(name_servers(), "orders"))

    assert puts(peers) == {}


def test_making_comes_back_when_the_name_server_knows_the_topic() -> None:
    peers = world(NOT_THERE, NOT_THERE)
    only_a = routes(orders=route(8, addresses={"broker-a": A}))
    knowing: list[Reply] = [routes(), only_a, routes(orders=route(8))]
    peers._script[NS, Code.GET_ROUTEINFO_BY_TOPIC] = knowing

    peers.hold(create_topic(name_servers(), "orders"))

    assert len(peers.pauses) == 2


def test_making_does_not_wait_for_ever() -> None:
    peers = world(NOT_THERE, NOT_THERE)
    peers._script[NS, Code.GET_ROUTEINFO_BY_TOPIC] = routes()

    peers.hold(create_topic(name_servers(), "orders"))

    assert len(peers.pauses) == LOOKS_MAX


@pytest.mark.parametrize("queues", [0, -1, 65_537])
def test_an_absurd_number_of_queues_is_refused(queues: int) -> None:
    peers = world(NOT_THERE, NOT_THERE)

    with pytest.raises(InvalidSetting, match="queues"):
        peers.hold(create_topic(name_servers(), "orders", queues=queues))

    assert puts(peers) == {}


def test_a_bad_name_is_refused_before_anybody_is_asked() -> None:
    peers = Peers({})

    with pytest.raises(InvalidName):
        peers.hold(create_topic(name_servers(), "a/b"))


def test_a_change_keeps_what_it_does_not_name() -> None:
    there = has(8, order=True, attributes={"kept": "1", "gone": "2"})
    peers = world(there, NOT_THERE)

    changed = peers.hold(
        update_topic(name_servers(), "orders", write_queues=4, attributes={"gone": ""})
    )

    put = puts(peers)[A]
    assert list(puts(peers)) == [A]
    assert (put.read_queue_nums, put.write_queue_nums, put.perm, put.order) == (8, 4, 6, True)
    assert put.attributes == "-gone"
    assert changed.brokers[0].attributes == {"kept": "1"}


def test_a_change_may_name_everything() -> None:
    peers = world(has(8), has(8))

    peers.hold(
        update_topic(
            name_servers(),
            "orders",
            read_queues=2,
            permission=Permission.READ,
            is_ordered=True,
            broker="broker-b",
        )
    )

    put = puts(peers)[B]
    assert (put.read_queue_nums, put.perm, put.order, put.attributes) == (2, 4, True, "")


def test_what_nobody_has_cannot_be_changed() -> None:
    with pytest.raises(NoRoute):
        world(NOT_THERE, NOT_THERE).hold(update_topic(name_servers(), "orders", read_queues=2))


def test_a_topic_goes_from_brokers_first_and_then_from_name_servers() -> None:
    peers = world(has(8), NOT_THERE)

    had = peers.hold(delete_topic(name_servers(), "orders"))

    codes = [call.request.code for call in peers.calls]
    assert had == ("broker-a",)
    assert codes.index(Code.DELETE_TOPIC_IN_BROKER) < codes.index(Code.DELETE_TOPIC_IN_NAMESRV)
    assert [address for address, _ in peers.asked(Code.DELETE_TOPIC_IN_BROKER)] == [A]


def test_name_servers_forget_a_topic_even_when_no_broker_had_it() -> None:
    peers = world(NOT_THERE, NOT_THERE)

    with pytest.raises(NoRoute):
        peers.hold(delete_topic(name_servers(), "orders"))

    assert len(peers.asked(Code.DELETE_TOPIC_IN_NAMESRV)) == 1


def test_an_old_broker_is_asked_for_its_whole_table() -> None:
    table = TopicTable(topic_config_table={"orders": config(3)})
    peers = Peers(
        {
            (A, Code.GET_TOPIC_CONFIG): no(3),
            (A, Code.GET_ALL_TOPIC_CONFIG): ok(body=table.to_body()),
        }
    )

    found = peers.hold(topic_settings(A, "broker-a", "orders"))
    missing = peers.hold(topic_settings(A, "broker-a", "bills"))

    assert found is not None
    assert found.read_queues == 3
    assert missing is None


def test_a_broker_that_may_not_say_is_an_error() -> None:
    peers = Peers({(A, Code.GET_TOPIC_CONFIG): no(16, "no right")})

    with pytest.raises(BrokerRefused, match="no right"):
        peers.hold(topic_settings(A, "broker-a", "orders"))


def test_a_topic_is_described_broker_by_broker_with_its_groups() -> None:
    peers = world(has(8), NOT_THERE)
    groups = GroupList(group_list=("orders", "billing"))
    peers._script[A, Code.QUERY_TOPIC_CONSUME_BY_WHO] = ok(body=groups.to_body())

    detail = peers.hold(describe_topic(name_servers(), "orders"))

    assert [one.broker for one in detail.brokers] == ["broker-a"]
    assert detail.groups == ("billing",)  # 5.3 lists the topic among its groups


def test_queues_are_told_in_the_order_consumers_sort_them() -> None:
    def extents(request_of: str) -> Reply:
        rows = {
            QueueRef("orders", request_of, 1): QueueExtent(max_offset=7, min_offset=2),
            QueueRef("orders", request_of, 0): QueueExtent(
                max_offset=5, min_offset=0, last_update_timestamp=9
            ),
        }
        return ok(body=TopicStats(offset_table=rows).to_body())

    peers = Peers(
        {
            (NS, Code.GET_ROUTEINFO_BY_TOPIC): routes(orders=route()),
            (A, Code.GET_TOPIC_STATS_INFO): extents("broker-a"),
            (B, Code.GET_TOPIC_STATS_INFO): extents("broker-b"),
        }
    )

    found = peers.hold(topic_stats(name_servers(), "orders"))

    assert [(str(each.queue), each.count, each.last_ms) for each in found] == [
        ("orders/broker-a/0", 5, 9),
        ("orders/broker-a/1", 5, None),
        ("orders/broker-b/0", 5, 9),
        ("orders/broker-b/1", 5, None),
    ]
    assert peers.asked(Code.GET_TOPIC_STATS_INFO)[0][1].header(OfTopic).topic == "orders"
