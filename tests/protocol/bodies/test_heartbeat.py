"""A heartbeat of any client says the same, however it is spelled (remoting, HeartbeatData)."""

from __future__ import annotations

import pytest

from flintmq.errors import MalformedBody
from flintmq.model.group import ConsumeFromWhere, ConsumeType, MessageModel
from flintmq.protocol.bodies.client import ConsumerGroup, Heartbeat, ProducerGroup, Subscription


def group_of(text: str) -> ConsumerGroup:
    return Heartbeat.from_body(text.encode()).consumer_data_set[0]


def test_cpp_sends_ordinals_a_textual_version_and_a_newline() -> None:
    body = (
        b'{"clientID":"23508-127.0.0.1@ci","consumerDataSet":[{"consumeFromWhere":0,'
        b'"consumeType":1,"groupName":"pg","messageModel":1,"subscriptionDataSet":'
        b'[{"subString":"*","subVersion":"1794785324654","topic":"pt"}]}]}\n'
    )

    heartbeat = Heartbeat.from_body(body)

    assert heartbeat == Heartbeat(
        client_id="23508-127.0.0.1@ci",
        consumer_data_set=(
            ConsumerGroup(
                consume_from_where=ConsumeFromWhere.LAST_OFFSET,
                consume_type=ConsumeType.PUSH,
                group_name="pg",
                message_model=MessageModel.CLUSTERING,
                subscription_data_set=(
                    Subscription(topic="pt", sub_string="*", sub_version=1794785324654),
                ),
            ),
        ),
    )


def test_node_leaves_out_the_expression_type() -> None:
    text = (
        '{"clientID":"c","consumerDataSet":[{"groupName":"ng","consumeType":"CONSUME_PASSIVELY",'
        '"messageModel":"BROADCASTING","consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET",'
        '"subscriptionDataSet":[{"topic":"nt","subString":"A || B","classFilterMode":false,'
        '"tagsSet":["A","B"],"codeSet":[65,66],"subVersion":1794785392411}],"unitMode":true}],'
        '"producerDataSet":[]}'
    )

    group = group_of(text)

    assert group.message_model is MessageModel.BROADCASTING
    assert group.consume_from_where is ConsumeFromWhere.FIRST_OFFSET
    assert group.unit_mode
    (subscription,) = group.subscription_data_set
    assert subscription.is_tag
    assert (subscription.tags_set, subscription.code_set) == (("A", "B"), (65, 66))


def test_java_5_tells_a_fingerprint() -> None:
    body = (
        b'{"clientID":"192.0.2.2@1","consumerDataSet":[],"heartbeatFingerprint":0,'
        b'"producerDataSet":[{"groupName":"CLIENT_INNER_PRODUCER"}],"withoutSub":false}'
    )

    heartbeat = Heartbeat.from_body(body)

    assert heartbeat.heartbeat_fingerprint == 0
    assert heartbeat.without_sub is False
    assert heartbeat.producer_data_set == (ProducerGroup(group_name="CLIENT_INNER_PRODUCER"),)
    assert heartbeat.to_body() == body


def test_sets_that_are_missing_or_null_are_empty() -> None:
    bare = Heartbeat.from_body(b'{"clientID":"x"}')
    null = Heartbeat.from_body(
        b'{"clientID":"x","consumerDataSet":null,"producerDataSet":null,"withoutSub":null}'
    )

    assert bare == null == Heartbeat(client_id="x")


def test_a_group_that_says_nothing_is_an_ordinary_push_consumer() -> None:
    group = group_of('{"clientID":"c","consumerDataSet":[{"groupName":"g"}]}')

    assert group.consume_type is ConsumeType.PUSH
    assert group.message_model is MessageModel.CLUSTERING
    assert group.consume_from_where is ConsumeFromWhere.LAST_OFFSET


@pytest.mark.parametrize("ordinal", range(6))
def test_every_start_has_its_ordinal(ordinal: int) -> None:
    text = '{"clientID":"c","consumerDataSet":[{"groupName":"g","consumeFromWhere":%d}]}'

    group = group_of(text % ordinal)

    assert group.consume_from_where is list(ConsumeFromWhere)[ordinal]


def test_the_case_of_an_enum_does_not_matter() -> None:
    text = '{"clientID":"c","consumerDataSet":[{"groupName":"g","messageModel":"broadcasting"}]}'

    assert group_of(text).message_model is MessageModel.BROADCASTING


@pytest.mark.parametrize("value", ["3", "-1", '"CONSUME_SOMEHOW"', "1.5", "[]"])
def test_an_enum_that_does_not_exist_is_refused(value: str) -> None:
    text = '{"clientID":"c","consumerDataSet":[{"groupName":"g","consumeType":' + value + "}]}"

    with pytest.raises(MalformedBody):
        Heartbeat.from_body(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"clientID":"c","producerDataSet":[{}]}',
        '{"clientID":"c","consumerDataSet":[{}]}',
        '{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{}]}]}',
    ],
)
def test_names_are_required(text: str) -> None:
    with pytest.raises(MalformedBody, match="required"):
        Heartbeat.from_body(text.encode())


@pytest.mark.parametrize(("kind", "is_tag"), [("TAG", True), ("", True), ("SQL92", False)])
def test_an_empty_expression_type_means_tags(kind: str, is_tag: bool) -> None:
    assert Subscription(topic="t", expression_type=kind).is_tag is is_tag
