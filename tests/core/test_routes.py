"""Routes are asked of one name server after the other, and addresses follow from them."""

from __future__ import annotations

import pytest

from flintmq.core.routes import (
    BORROWED_QUEUES_MAX,
    FoundRoute,
    NameServers,
    Routes,
    ask_name_servers,
    fetch_route,
    no_route,
)
from flintmq.errors import BrokerRefused, MalformedBody, Overloaded, Unreachable
from flintmq.model.queue import QueueRef
from flintmq.model.route import BrokerReplicas, Route
from flintmq.model.topic import Permission
from flintmq.protocol.bodies.route import BrokerEntry, QueueEntry, TopicRoute
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import request
from flintmq.protocol.headers.route import RouteOf
from support.core.routing import route
from support.core.talk import Talk, reply

QUESTION = request(RequestCode.GET_BROKER_CLUSTER_INFO)


def route_body(name: str) -> bytes:
    return TopicRoute(
        broker_datas=(BrokerEntry(broker_name=name, broker_addrs={0: f"{name}:0"}),),
        queue_datas=(QueueEntry(broker_name=name, perm=6, read_queue_nums=1, write_queue_nums=1),),
    ).to_body()


def test_a_name_server_that_fails_is_passed_over_and_the_next_asked_first_from_then_on() -> None:
    servers = NameServers(["x:1", "y:1", "z:1"])
    first = Talk([Unreachable("x:1", "refused"), reply(0)])
    second = Talk([reply(0)])

    first.hold(ask_name_servers(servers, QUESTION, 3_000))
    second.hold(ask_name_servers(servers, QUESTION, 3_000))

    assert first.addresses == ["x:1", "y:1"]
    assert second.addresses == ["y:1"]
    assert {call.timeout_ms for call in first.calls} == {3_000}


def test_when_no_name_server_answers_the_last_error_comes_out() -> None:
    talk = Talk([Unreachable("x:1", "refused"), Unreachable("y:1", "too late")])

    with pytest.raises(Unreachable, match="too late"):
        talk.hold(ask_name_servers(NameServers(["x:1", "y:1"]), QUESTION, 1))


def test_a_route_is_fetched_by_its_topic() -> None:
    talk = Talk([reply(0, body=route_body("a"))])

    fetched = talk.hold(fetch_route(NameServers(["x:1"]), "orders", 3_000))

    assert fetched is not None
    assert fetched.address("a") == "a:0"
    assert talk.calls[0].request.header(RouteOf).topic == "orders"


def test_no_such_topic_is_an_answer_and_no_other_name_server_is_asked() -> None:
    talk = Talk([reply(ResponseCode.TOPIC_NOT_EXIST)])

    assert talk.hold(fetch_route(NameServers(["x:1", "y:1"]), "orders", 3_000)) is None
    assert talk.addresses == ["x:1"]


def test_a_refusal_and_an_unreadable_route_are_errors() -> None:
    with pytest.raises(BrokerRefused, match="no permission"):
        Talk([reply(1, remark="no permission")]).hold(fetch_route(NameServers(["x:1"]), "t", 1))
    with pytest.raises(MalformedBody):
        Talk([reply(0, body=b"<html>")]).hold(fetch_route(NameServers(["x:1"]), "t", 1))


def test_a_route_is_new_once_and_then_only_when_it_differs() -> None:
    routes = Routes()

    assert routes.update("t", route("a", "b"))
    assert not routes.update("t", route("b", "a")), "the order does not matter"
    assert routes.update("t", route("a", "b", queues=3))
    assert routes.update("t", route("a"))


def test_publish_queues_are_made_once_for_a_route() -> None:
    routes = Routes()
    routes.update("t", route("a"))
    queues = routes.publish_queues("t")
    routes.update("t", route("a"))

    assert queues == (QueueRef("t", "a", 0), QueueRef("t", "a", 1))
    assert routes.publish_queues("t") is queues
    assert routes.publish_queues("other") is None


def test_queues_that_may_not_be_written_are_no_publish_queues() -> None:
    routes = Routes()
    routes.update("t", route("a", permission=Permission.READ))

    assert routes.publish_queues("t") == ()


def test_a_topic_that_does_not_exist_borrows_at_most_four_queues_of_the_template() -> None:
    routes = Routes()
    routes.borrow("new", route("a", queues=8))

    assert routes.publish_queues("new") == tuple(
        QueueRef("new", "a", number) for number in range(BORROWED_QUEUES_MAX)
    )
    assert routes.find("new") is None
    assert routes.topics == ["new"]
    assert routes.address("a") == "a:0"


def test_a_retry_topic_borrows_only_the_queue_that_every_retry_topic_has() -> None:
    """A broker that made it with one queue refuses a copy for another, and its reason with it."""
    routes = Routes()
    routes.borrow("%RETRY%billing", route("a", queues=8))

    assert routes.publish_queues("%RETRY%billing") == (QueueRef("%RETRY%billing", "a", 0),)


def test_a_real_route_takes_the_place_of_a_borrowed_one() -> None:
    routes = Routes()
    routes.borrow("new", route("a", queues=8))

    assert routes.update("new", route("b", queues=1))
    routes.borrow("new", route("a", queues=8))

    assert routes.publish_queues("new") == (QueueRef("new", "b", 0),)
    assert routes.topics == ["new"]


def test_a_replica_is_found_by_its_id_the_next_one_or_any() -> None:
    routes = Routes()
    routes.update(
        "t",
        Route(
            brokers=(
                BrokerReplicas("c", "a", {0: "a:0", 2: "a:2"}),
                BrokerReplicas("c", "slave", {3: "s:3"}),
            ),
            queues=(),
        ),
    )

    assert routes.locate("a") == FoundRoute("a:0", 0)
    assert routes.locate("a", 1) == FoundRoute("a:2", 2), "the next id stands in"
    assert routes.locate("a", 5) == FoundRoute("a:0", 0)
    assert routes.locate("a", 5, only=True) is None
    assert routes.locate("slave") == FoundRoute("s:3", 3)
    assert routes.locate("slave", only=True) is None
    assert routes.locate("nobody") is None
    assert FoundRoute("s:3", 3).is_slave
    assert routes.address("slave") is None, "a producer needs a master"
    assert routes.brokers_of("slave") == {3: "s:3"}


def test_any_broker_of_a_topic_is_given_master_first() -> None:
    routes = Routes()
    routes.update("t", route("a", "b"))
    routes.update("s", Route(brokers=(BrokerReplicas("c", "x", {1: "x:1", 2: "x:2"}),), queues=()))

    assert {routes.some_address("t", pick) for pick in range(4)} == {"a:0", "b:0"}
    assert {routes.some_address("s", pick) for pick in range(4)} == {"x:1", "x:2"}
    assert routes.some_address("unknown", 0) is None


def test_heartbeats_know_masters_and_all_replicas() -> None:
    routes = Routes()
    routes.update("t", route("a", "b"))

    assert routes.masters == ["a:0", "b:0"]
    assert routes.addresses == ["a:0", "a:1", "b:0", "b:1"]


def test_brokers_that_no_route_names_any_more_are_cleaned() -> None:
    routes = Routes()
    routes.update("t", route("a", "b"))
    routes.update("u", route("b"))
    routes.update("t", route("a"))

    assert routes.clean() == []
    routes.update("u", route("a"))

    assert sorted(routes.clean()) == ["b:0", "b:1"]
    assert routes.brokers == {"a": {0: "a:0", 1: "a:1"}}


def test_a_forgotten_topic_has_no_queues() -> None:
    routes = Routes()
    routes.update("t", route("a"))
    routes.forget("t")

    assert routes.publish_queues("t") is None
    assert routes.topics == []


def test_the_number_of_topics_is_limited() -> None:
    routes = Routes(topics_max=2)
    routes.update("t", route("a"))
    routes.borrow("u", route("a"))

    with pytest.raises(Overloaded):
        routes.update("v", route("a"))
    with pytest.raises(Overloaded):
        routes.borrow("v", route("a"))
    assert routes.update("u", route("a")), "a known one still changes"


def test_a_topic_can_be_lent_queues_again_when_the_template_changed() -> None:
    routes = Routes()
    routes.borrow("new", route("a"))
    routes.borrow("new", route("b"))

    assert {queue.broker for queue in routes.publish_queues("new") or ()} == {"b"}


def test_a_broker_without_addresses_is_no_broker_to_ask() -> None:
    routes = Routes()
    routes.update("t", Route(brokers=(BrokerReplicas("c", "a", {}),), queues=()))

    assert routes.some_address("t", 0) is None
    assert repr(routes) == "<Routes of 1 topics, 1 brokers>"


def test_a_missing_route_says_who_was_asked_and_what_to_do() -> None:
    error = no_route("orders", name_servers=("x:1", "y:1"))

    assert error.topic == "orders"
    assert "x:1;y:1" in str(error)
    assert "create the topic first" in str(error)
