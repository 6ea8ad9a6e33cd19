"""Routes and assignments as clients are told them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.model.route import BrokerReplicas, QueueCounts, Route
from flintmq.model.topic import Permission
from flintmq.proxy.calls.routing import queues_of
from flintmq.proxy.wire.grpc_codes import Code, MessageType, QueuePermission
from support.proxy.grpc_client import GrpcClient, new


def asked(topic: str, *hosts: str) -> Any:
    request = new("QueryRoute")
    request.topic.name = topic
    for host in hosts:
        request.endpoints.addresses.add(host=host, port=1)
    return request


def test_a_route_has_every_queue_and_what_the_topic_takes(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str]
) -> None:
    name = topic("FIFO", queues=3)

    answer = client.call("QueryRoute", asked(name))

    assert (answer.status.code, answer.status.message) == (Code.OK, "OK")
    assert [queue.id for queue in answer.message_queues] == [0, 1, 2]
    for queue in answer.message_queues:
        assert queue.topic.name == name
        assert queue.permission == QueuePermission.READ_WRITE
        assert queue.broker.name == "broker-a"
        assert list(queue.accept_message_types) == [MessageType.FIFO]
        [where] = queue.broker.endpoints.addresses
        assert f"{where.host}:{where.port}" == broker.grpc


def test_a_client_is_told_the_name_by_which_it_came(
    broker: EmbeddedBroker, client: GrpcClient, topic: Callable[..., str]
) -> None:
    answer = client.call("QueryRoute", asked(topic(), "mq.example", "other.example"))

    endpoints = answer.message_queues[0].broker.endpoints
    port = int(broker.grpc.rpartition(":")[2])
    assert endpoints.scheme == 3
    assert [(each.host, each.port) for each in endpoints.addresses] == [
        ("mq.example", port),
        ("other.example", port),
    ]


def test_asking_for_a_topic_does_not_make_it(broker: EmbeddedBroker, client: GrpcClient) -> None:
    for _ in range(2):
        answer = client.call("QueryRoute", asked("nowhere"))
        assert answer.status.code == Code.TOPIC_NOT_FOUND
        assert "No topic route info in name server for the topic: nowhere" in answer.status.message

    with broker.admin() as admin:
        assert "nowhere" not in {each.name for each in admin.topics()}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("", "The specified topic is blank"),
        ("a b", "The specified topic[a b] contains illegal characters"),
        ("x" * 128, "The specified topic is longer than"),
        ("TBW102", "cannot access system topic"),
        ("rmq_sys_wheel_timer", "cannot access system topic"),
    ],
)
def test_names_no_topic_has_are_refused(client: GrpcClient, name: str, text: str) -> None:
    status = client.call("QueryRoute", asked(name)).status

    assert status.code == Code.ILLEGAL_TOPIC
    assert status.message.startswith(text)


def test_an_unordered_group_is_assigned_one_queue_for_each_broker(
    client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    request = new("QueryAssignment")
    request.topic.name, request.group.name = topic(queues=4), group()

    answer = client.call("QueryAssignment", request)

    assert answer.status.code == Code.OK
    assert [each.message_queue.id for each in answer.assignments] == [-1]
    assert answer.assignments[0].message_queue.broker.name == "broker-a"


def test_an_ordered_group_is_assigned_every_queue(
    client: GrpcClient, topic: Callable[..., str], group: Callable[..., str]
) -> None:
    request = new("QueryAssignment")
    request.topic.name, request.group.name = topic("FIFO", queues=4), group(is_ordered=True)

    answer = client.call("QueryAssignment", request)

    assert [each.message_queue.id for each in answer.assignments] == [0, 1, 2, 3]


def test_a_topic_that_cannot_be_read_has_no_assignment(
    broker: EmbeddedBroker, client: GrpcClient, group: Callable[..., str]
) -> None:
    with broker.admin() as admin:
        admin.create_topic("write-only", queues=2, permission=Permission.WRITE)
    request = new("QueryAssignment")
    request.topic.name, request.group.name = "write-only", group()

    status = client.call("QueryAssignment", request).status

    assert (status.code, status.message) == (Code.FORBIDDEN, "no readable queue")


def test_surplus_queues_come_first() -> None:
    """As in RocketMQ's proxy, whose numbers clients show."""
    route = Route(
        brokers=(BrokerReplicas("c", "b", {0: "127.0.0.1:1"}), BrokerReplicas("c", "s", {1: "x"})),
        queues=(
            QueueCounts("b", 3, 2, Permission.READ | Permission.WRITE),
            QueueCounts("s", 2, 2, Permission.READ),
        ),
    )

    assert list(queues_of(route)) == [
        ("b", 0, QueuePermission.READ),
        ("b", 1, QueuePermission.READ_WRITE),
        ("b", 2, QueuePermission.READ_WRITE),
    ]
