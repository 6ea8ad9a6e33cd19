"""Every body class survives its own round trip, and hostile bytes raise `MalformedBody` only."""

from __future__ import annotations

import contextlib
import pickle
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import MalformedBody
from flintmq.protocol.bodies.body import Body, OpenBody, RequestBody
from flintmq.protocol.bodies.client import Heartbeat
from flintmq.protocol.bodies.group import GroupConfig, GroupTable
from flintmq.protocol.bodies.stats import ConsumeStats
from flintmq.protocol.bodies.topic import TopicConfig, TopicTable
from flintmq.protocol.fastjson import DEPTH_MAX
from support.body_strategies import bodies, body_classes

CLASSES = body_classes()
EVERY = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)


@EVERY
@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_a_value_comes_back_from_both_forms(cls: type[Body], data: st.DataObject) -> None:
    value = data.draw(bodies(cls))

    assert cls.from_body(value.to_body()) == value
    assert cls.from_file(value.to_file()) == value


@EVERY
def test_fields_are_written_in_javas_order(cls: type[Body]) -> None:
    names = [field.encode_name for field in msgspec.structs.fields(cls)]
    if issubclass(cls, OpenBody):
        names.remove("extra")

    assert names == sorted(names)


@EVERY
@given(octets=st.binary(max_size=40))
@settings(max_examples=10, deadline=None)
def test_arbitrary_bytes_raise_malformed_body(cls: type[Body], octets: bytes) -> None:
    with contextlib.suppress(MalformedBody):
        cls.from_body(octets)


@st.composite
def damaged(draw: st.DrawFn) -> tuple[type[Body], bytes]:
    """The bytes of some body, with a few of them changed, lost or doubled."""
    cls = draw(st.sampled_from(CLASSES))
    octets = bytearray(draw(bodies(cls)).to_body())
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(octets)))
        stop = draw(st.integers(start, min(start + 8, len(octets))))
        octets[start:stop] = draw(
            st.binary(max_size=3)
            | st.sampled_from([b"null", b"{", b"}", b"{{", b"[", b'"', b"'", b"-1", b"1e999", b":"])
            | st.just(bytes(octets[start:stop]) * 2)
        )
    return cls, bytes(octets)


@given(damaged())
@settings(max_examples=250, deadline=None)
def test_damaged_bodies_raise_malformed_body(case: tuple[type[Body], bytes]) -> None:
    cls, octets = case

    with contextlib.suppress(MalformedBody):
        cls.from_body(octets)


@EVERY
def test_what_is_no_object_is_refused(cls: type[Body]) -> None:
    for octets in (b"", b"[]", b"0", b'"x"', b"null", b"\xff", b"{" * 5000):
        with pytest.raises(MalformedBody) as caught:
            cls.from_body(octets)

        assert caught.value.what == cls.__name__
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_numbers_that_java_cannot_hold_are_refused() -> None:
    with pytest.raises(MalformedBody, match="9223372036854775807"):
        ConsumeStats.from_body(
            b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:'
            b'{"brokerOffset":9223372036854775808}}}'
        )
    with pytest.raises(MalformedBody, match="2147483647"):
        TopicConfig.from_body(b'{"topicName":"t","perm":2147483648}')


def test_numbers_and_booleans_may_come_as_text() -> None:
    config = GroupConfig.from_body(
        b'{"groupName":"g","retryMaxTimes":"3","consumeEnable":"false","brokerId":1.0}'
    )

    assert config == GroupConfig(
        group_name="g", retry_max_times=3, consume_enable=False, broker_id=1
    )


def test_servers_do_not_rewrite_long_requests() -> None:
    long = '{clientID:"' + "x" * RequestBody.rewrite_bytes_max + '"}'

    with pytest.raises(MalformedBody, match="plain JSON"):
        Heartbeat.from_body(long.encode())
    plain = Heartbeat.from_body(long.replace("clientID", '"clientID"').encode())
    assert Heartbeat.from_file(long.encode()) == plain, "a file has no such limit"
    assert RequestBody.rewrite_bytes_max < Body.rewrite_bytes_max / 16


NEWER_TOPIC = (
    '{"aNew":[1,{"k":"v"}],"order":false,"perm":6,"readQueueNums":4,'
    '"topicFilterType":"SINGLE_TAG","topicName":"t","topicSysFlag":0,"writeQueueNums":4,'
    '"zNew":{"0":5}}'
)
NEWER_GROUP = (
    '{"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,'
    '"consumeFromMinEnable":true,"extra":{"deep":[true]},"groupName":"g",'
    '"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,'
    '"tricky\\"name":"é","whichBrokerWhenConsumeSlowly":1}'
)
VERSION = '"dataVersion":{"counter":1,"timestamp":2}'


@pytest.mark.parametrize(
    ("cls", "text"),
    [
        (TopicConfig, NEWER_TOPIC),
        (GroupConfig, NEWER_GROUP),
        (TopicTable, "{" + VERSION + ',"topicConfigTable":{"t":' + NEWER_TOPIC + "}}"),
        (GroupTable, "{" + VERSION + ',"subscriptionGroupTable":{"g":' + NEWER_GROUP + "}}"),
    ],
)
def test_fields_of_newer_releases_survive_in_their_place(cls: Any, text: str) -> None:
    value = cls.from_body(text.encode())

    assert value.to_body().decode() == text
    assert cls.from_file(value.to_file()) == value


def test_unknown_fields_come_through_the_dialect_too() -> None:
    config = TopicConfig.from_body(b'{"topicName":"t","new":{0:{{"q":1}:2}},"gone":null}')

    assert config.extra == {"new": {"0": {'{"q":1}': 2}}}
    assert TopicConfig.from_body(config.to_body()) == config


@pytest.mark.parametrize("place", ['"new":%s', '"attributes":null,"x":%s'])
def test_unknown_fields_cannot_nest_without_end(place: str) -> None:
    deep = "[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1)

    with pytest.raises(MalformedBody):
        TopicConfig.from_body(('{"topicName":"t",' + place % deep + "}").encode())
    with pytest.raises(MalformedBody):
        GroupConfig.from_body(('{"groupName":"g","groupRetryPolicy":{"a":' + deep + "}}").encode())


def test_an_unknown_field_that_is_null_is_not_there() -> None:
    config = TopicConfig.from_body(b'{"topicName":"t","gone":null,"attributes":null}')

    assert config == TopicConfig(topic_name="t")


def test_a_config_starts_with_javas_values() -> None:
    group = (
        b'{"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,'
        b'"consumeFromMinEnable":true,"groupName":"g","notifyConsumerIdsChangedEnable":true,'
        b'"retryMaxTimes":16,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}'
    )
    topic = (
        b'{"order":false,"perm":6,"readQueueNums":16,"topicFilterType":"SINGLE_TAG",'
        b'"topicName":"t","topicSysFlag":0,"writeQueueNums":16}'
    )

    assert GroupConfig(group_name="g").to_body() == group
    assert TopicConfig(topic_name="t").to_body() == topic


def test_other_bodies_ignore_what_they_do_not_know() -> None:
    assert Heartbeat.from_body(b'{"clientID":"x","new":{"a":[1]}}') == Heartbeat(client_id="x")
