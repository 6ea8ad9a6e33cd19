"""Connections are listed, and what an admin asks of a client is passed on both ways."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flintmq.broker.requests.peer import Peer
from flintmq.model.group import ConsumeFromWhere, ConsumeType, MessageModel
from flintmq.model.message_id import offset_id
from flintmq.protocol.bodies.client import ConsumerConnections, ProducerTable
from flintmq.protocol.bodies.group import GroupConfig
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command
from flintmq.protocol.fields import write_fields
from flintmq.protocol.headers.client_call import ConsumeDirectly, DescribeConsumer
from flintmq.protocol.headers.common_headers import OfConsumerGroup, OfProducerGroup
from flintmq.protocol.records.record import decode_record
from support.broker.admin import done, join, make_topic, refused
from support.broker.heartbeats import heartbeat
from support.broker.world import World

DESCRIBE = RequestCode.GET_CONSUMER_RUNNING_INFO
CONSUME = RequestCode.CONSUME_MESSAGE_DIRECTLY


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path) as world:
        make_topic(world, "T")
        yield world


# Listing


def test_the_members_of_a_consumer_group_are_listed(world: World) -> None:
    join(world, "g", "T", client_id="c@1", port=50_001)
    join(world, "g", "T", client_id="c@2", port=50_002, language="KLINGON", version=63)

    body = done(
        world, RequestCode.GET_CONSUMER_CONNECTION_LIST, OfConsumerGroup(consumer_group="g")
    )

    assert body.startswith(
        b'{"connectionSet":['
        b'{"clientAddr":"127.0.0.1:50001","clientId":"c@1","language":"JAVA","version":479},'
        b'{"clientAddr":"127.0.0.1:50002","clientId":"c@2","version":63}],'
        b'"consumeFromWhere":'
    )
    found = ConsumerConnections.from_body(body)
    assert found.consume_from_where is ConsumeFromWhere.FIRST_OFFSET
    assert found.consume_type is ConsumeType.PUSH
    assert found.message_model is MessageModel.CLUSTERING
    assert set(found.subscription_table) == {"T"}


def test_the_members_of_a_producer_group_are_listed(world: World) -> None:
    peer = Peer("127.0.0.1:50007")
    said = heartbeat("p@1", producers=("p", "q"))
    world.ask(RequestCode.HEART_BEAT, None, said.to_body(), peer=peer)

    body = done(
        world, RequestCode.GET_PRODUCER_CONNECTION_LIST, OfProducerGroup(producer_group="p")
    )
    every = ProducerTable.from_body(done(world, RequestCode.GET_ALL_PRODUCER_INFO)).data

    assert body == (
        b'{"connectionSet":[{"clientAddr":"127.0.0.1:50007","clientId":"p@1",'
        b'"language":"JAVA","version":479}]}'
    )
    assert set(every) == {"p", "q"}
    assert every["p"][0].remote_ip == "/127.0.0.1:50007"
    assert every["p"][0].last_update_timestamp == world.now_ms


def test_groups_without_members_are_not_online(world: World) -> None:
    assert refused(
        world, RequestCode.GET_CONSUMER_CONNECTION_LIST, OfConsumerGroup(consumer_group="nope")
    ) == (206, "the consumer group[nope] not online")
    assert refused(
        world, RequestCode.GET_PRODUCER_CONNECTION_LIST, OfProducerGroup(producer_group="nope")
    ) == (1, "the producer group[nope] not exist")


# Passing on


def describe(client_id: str = "c@1", group: str = "g") -> DescribeConsumer:
    return DescribeConsumer(consumer_group=group, client_id=client_id, jstack_enable=False)


def test_a_client_is_asked_about_itself_and_its_answer_is_given_as_it_is(world: World) -> None:
    peer = join(world, "g", "T")

    opaque = world.submit(DESCRIBE, describe())
    (asked,) = world.asked
    reply = Command(code=5, remark="so so", fields=write_fields({"a": "b"}), body=b"all of it")
    asked.then(reply)

    assert (asked.peer, asked.timeout_ms) == (peer, 10_000)
    assert asked.request.code == DESCRIBE
    assert asked.request.field_texts() == {
        "consumerGroup": "g",
        "clientId": "c@1",
        "jstackEnable": "false",
    }
    answer = world.answer_to(opaque)
    assert answer is not None
    assert (answer.code, answer.remark, answer.body) == (5, "so so", b"all of it")
    assert answer.header == write_fields({"a": "b"})


def test_a_client_that_does_not_answer_is_a_timeout(world: World) -> None:
    join(world, "g", "T")

    opaque = world.submit(DESCRIBE, describe())
    world.asked.pop().then(None)

    answer = world.answer_to(opaque)
    assert answer is not None
    assert answer.code == ResponseCode.CONSUME_MSG_TIMEOUT
    assert answer.remark is not None
    assert answer.remark.startswith("consumer <g> <c@1> Timeout: ")


@pytest.mark.parametrize(
    ("header", "remark"),
    [
        (describe("nobody"), "The Consumer <g> <nobody> not online"),
        (describe(group="nope"), "The Consumer <nope> <c@1> not online"),
    ],
)
def test_a_client_that_is_not_there_cannot_be_asked(
    world: World, header: DescribeConsumer, remark: str
) -> None:
    join(world, "g", "T")

    assert refused(world, DESCRIBE, header) == (1, remark)


def test_a_client_that_is_too_old_is_not_asked(world: World) -> None:
    join(world, "g", "T", version=61)

    code, remark = refused(world, DESCRIBE, describe())

    assert (code, world.asked) == (1, [])
    assert remark == (
        "The Consumer <c@1> Version <V3_1_7> too low to finish, "
        "please upgrade it to V3_1_8_SNAPSHOT"
    )


def test_a_message_goes_along_when_a_client_is_to_consume_it(world: World) -> None:
    join(world, "g", "T")
    world.send("T", b"first")
    log_offset = world.state.log.end_offset
    world.send("T", b"this one")
    message_id = offset_id(world.state.host, log_offset)

    world.submit(
        CONSUME,
        ConsumeDirectly(consumer_group="g", client_id="c@1", msg_id=message_id, topic="T"),
    )

    (asked,) = world.asked
    assert asked.request.code == CONSUME
    assert decode_record(asked.request.body).body == b"this one"
    assert asked.request.field_texts() == {
        "consumerGroup": "g",
        "clientId": "c@1",
        "msgId": message_id,
        "brokerName": "broker-a",
        "topic": "T",
        "topicSysFlag": "0",
        "groupSysFlag": "0",
    }


def test_any_client_consumes_when_none_is_named_and_a_body_goes_along_as_it_is(
    world: World,
) -> None:
    world.state.groups.create_or_replace(
        GroupConfig(group_name="g", group_sys_flag=3), world.now_ms
    )
    peer = join(world, "g", "T")

    world.submit(CONSUME, ConsumeDirectly(consumer_group="g"), b"a record")

    (asked,) = world.asked
    assert (asked.peer, asked.request.body) == (peer, b"a record")
    assert asked.request.field_texts()["clientId"] == "c@1"
    assert asked.request.field_texts()["groupSysFlag"] == "3"


@pytest.mark.parametrize("message_id", ["x", "0" * 32, "F" * 32, "7F00000100002A9F" + "7" * 16])
def test_a_message_that_is_not_there_cannot_be_consumed(world: World, message_id: str) -> None:
    join(world, "g", "T")

    code, _ = refused(
        world, CONSUME, ConsumeDirectly(consumer_group="g", client_id="c@1", msg_id=message_id)
    )

    assert (code, world.asked) == (1, [])
