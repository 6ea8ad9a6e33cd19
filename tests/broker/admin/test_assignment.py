"""Queues are assigned as 5.3.3 assigns them, and request modes are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from flintmq.model.group import MessageModel
from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies.pop import (
    Assignments,
    QueryAssignment,
    RequestMode,
    RequestModes,
)
from flintmq.protocol.bodies.route import BrokerEntry, QueueEntry, TopicRoute
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command
from support.broker.admin import done, join, refused
from support.broker.popping import TOPIC, pop_world, saved
from support.broker.world import World, body_of

GROUP = "G"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return pop_world(tmp_path)


def route(brokers: int = 2, queues: int = 3) -> TopicRoute:
    names = [f"broker-{chr(97 + index)}" for index in range(brokers)]
    return TopicRoute(
        broker_datas=tuple(
            BrokerEntry(broker_addrs={0: "127.0.0.1:1"}, broker_name=name, cluster="C")
            for name in names
        ),
        queue_datas=tuple(
            QueueEntry(broker_name=name, perm=6, read_queue_nums=queues, write_queue_nums=queues)
            for name in names
        ),
    )


def ask(
    world: World,
    client: str = "c1",
    *,
    topic: str = TOPIC,
    strategy: str = "AVG",
    model: MessageModel = MessageModel.CLUSTERING,
    told: TopicRoute | None = None,
) -> Assignments:
    """Ask for queues; the name server tells the route in between."""
    body = QueryAssignment(
        client_id=client,
        consumer_group=GROUP,
        message_model=model,
        strategy_name=strategy,
        topic=topic,
    ).to_body()
    opaque = world.submit(RequestCode.QUERY_ASSIGNMENT, None, body)
    world.settle()
    asked = world.asked.pop()
    assert asked.peer is None
    reply = (told or route()).to_body()
    asked.then(Command(code=0, opaque=1, body=reply))
    return Assignments.from_body(body_of(world.answer_to(opaque)))


def queues_of(found: Assignments) -> list[tuple[str, int]]:
    return [
        (each.message_queue.broker_name, each.message_queue.queue_id)
        for each in found.message_queue_assignments or ()
    ]


def set_mode(world: World, mode: str, share: int = 0) -> None:
    body = RequestMode(consumer_group=GROUP, mode=mode, pop_share_queue_num=share, topic=TOPIC)
    done(world, RequestCode.SET_MESSAGE_REQUEST_MODE, None, body.to_body())


def test_pull_deals_the_queues_of_all_brokers_out(world: World) -> None:
    for index, client in enumerate(("c1", "c2")):
        join(world, GROUP, TOPIC, client_id=client, port=50_000 + index)
    first, second = ask(world, "c1"), ask(world, "c2")
    assert queues_of(first) == [("broker-a", index) for index in range(3)]
    assert queues_of(second) == [("broker-b", index) for index in range(3)]
    assert {each.mode for each in first.message_queue_assignments or ()} == {"PULL"}
    by_circle = ask(world, "c2", strategy="AVG_BY_CIRCLE")
    assert queues_of(by_circle) == [("broker-a", 1), ("broker-b", 0), ("broker-b", 2)]
    assert queues_of(ask(world, "stranger")) == []


def test_pop_gives_everybody_any_queue_of_every_broker(world: World) -> None:
    join(world, GROUP, TOPIC, client_id="c1")
    set_mode(world, "POP")
    found = ask(world)
    assert queues_of(found) == [("broker-a", -1), ("broker-b", -1)]
    assert found.to_body().startswith(
        b'{"messageQueueAssignments":[{"messageQueue":{"brokerName":"broker-a","queueId":-1,'
        b'"topic":"T"},"mode":"POP"}'
    )


def test_shared_queues_are_those_of_the_next_members(world: World) -> None:
    for index in range(3):
        join(world, GROUP, TOPIC, client_id=f"c{index}", port=50_000 + index)
    set_mode(world, "POP", 1)
    assert queues_of(ask(world, "c2")) == [
        ("broker-b", 1), ("broker-b", 2), ("broker-a", 0), ("broker-a", 1),
    ]  # fmt: skip
    few = route(1, 2)
    assert queues_of(ask(world, "c2", told=few)) == [("broker-a", 0)]


def test_nothing_is_assigned_to_who_is_unknown(world: World) -> None:
    assert ask(world).to_body() == b"{}"
    join(world, GROUP, TOPIC, client_id="c1")
    assert ask(world, strategy="MACHINE_ROOM").to_body() == b"{}"
    assert len(queues_of(ask(world, model=MessageModel.BROADCASTING))) == 6


def test_modes_are_refused_where_they_make_no_sense(world: World) -> None:
    def mode(topic: str, name: str = "POP") -> bytes:
        return RequestMode(consumer_group=GROUP, mode=name, topic=topic).to_body()

    code = RequestCode.SET_MESSAGE_REQUEST_MODE
    retry = refused(world, code, None, mode("%RETRY%G"))
    assert retry == (16, "retry topic is not allowed to set mode")
    assert refused(world, code, None, mode("X")) == (17, "topic[X] not exist")
    assert refused(world, code, None, mode(TOPIC, "PUSH"))[0] == 1


def test_modes_are_kept_and_told(world: World) -> None:
    set_mode(world, "POP", 2)
    body = done(world, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
    assert body == (
        b'{"messageRequestModeMap":{"T":{"G":{"consumerGroup":"G","mode":"POP",'
        b'"popShareQueueNum":2,"topic":"T"}}}}'
    )
    assert world.state.has_new_names
    saved(world)
    path = world.directory / "config" / "messageRequestMode.json"
    kept = RequestModes.from_file(path.read_bytes()).message_request_mode_map
    assert kept[TOPIC][GROUP].mode == "POP"
    world.stop()
    with World(world.directory, world.state.config) as again:
        assert done(again, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE) == body


def test_any_queue_is_no_queue() -> None:
    """A queue of the model has an id from 0 on; -1 has a type of its own."""
    with pytest.raises(ValueError, match="-1"):
        QueueRef(TOPIC, "broker-a", -1)
