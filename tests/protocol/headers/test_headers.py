"""Every header survives both forms, and its wire names are those of the protocol."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import MalformedHeader
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.fields import Header, write_fields
from flintmq.protocol.frame import FrameReader, HeaderForm
from flintmq.protocol.headers.catalogue import REQUEST_HEADERS
from flintmq.protocol.headers.group import DeleteGroup
from flintmq.protocol.headers.lookup import QueryMessage
from flintmq.protocol.headers.offset import MaxOffset
from flintmq.protocol.headers.pull import PullAnswer, PullFlag, PullMessage
from flintmq.protocol.headers.route import RegisterBroker
from flintmq.protocol.headers.send import SendAnswer, SendMessage, SendMessageV2
from flintmq.protocol.headers.topic import TopicConfigOf
from flintmq.protocol.wire import decode_command, encode_command
from support.protocol.answer_headers import ANSWER_HEADERS, REFUSAL_HEADERS
from support.strategies import headers_of

KINDS = sorted(
    {*REQUEST_HEADERS.values(), *ANSWER_HEADERS.values(), *REFUSAL_HEADERS.values()},
    key=lambda kind: kind.__name__,
)


def wire_names(kind: type[Header]) -> list[str]:
    return list(kind.__struct_encode_fields__)


def required(kind: type[Header]) -> set[str]:
    return {f.encode_name for f in msgspec.structs.fields(kind) if f.required}


def carried(header: Header, form: HeaderForm) -> Command:
    [frame] = FrameReader().feed(encode_command(request(1, header), form))
    return decode_command(frame)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_every_header_survives_json(kind: type[Header], data: st.DataObject) -> None:
    header = data.draw(headers_of(kind))

    assert carried(header, HeaderForm.JSON).header(kind) == header


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_every_header_survives_the_binary_form(kind: type[Header], data: st.DataObject) -> None:
    header = data.draw(headers_of(kind, empty_texts=False))

    assert carried(header, HeaderForm.BINARY).header(kind) == header


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_each_required_field_is_missed_by_name(kind: type[Header], data: st.DataObject) -> None:
    fields = carried(data.draw(headers_of(kind)), HeaderForm.JSON).field_texts()

    for name in required(kind):
        rest = {key: text for key, text in fields.items() if key != name}
        with pytest.raises(MalformedHeader) as caught:
            Command(fields=write_fields(rest)).header(kind)
        assert caught.value.field == name


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_may_be_missing_has_one_meaning_when_it_is(kind: type[Header]) -> None:
    """A value of None and an absent field are the same, so no default may hide behind None."""
    for field in msgspec.structs.fields(kind):
        if type(None) in get_args(field.type):
            assert field.default is None


def test_both_send_headers_have_the_same_attributes() -> None:
    assert SendMessage.__struct_fields__ == SendMessageV2.__struct_fields__
    assert [f.type for f in msgspec.structs.fields(SendMessage)] == [
        f.type for f in msgspec.structs.fields(SendMessageV2)
    ]
    assert [f.default for f in msgspec.structs.fields(SendMessage)] == [
        f.default for f in msgspec.structs.fields(SendMessageV2)
    ]


def test_send_headers_have_the_names_of_the_protocol() -> None:
    assert wire_names(SendMessage) == [
        *("producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag"),
        *("bornTimestamp", "flag", "properties", "reconsumeTimes", "unitMode"),
        *("maxReconsumeTimes", "batch", "bname"),
    ]
    assert "".join(wire_names(SendMessageV2)) == "abcdefghijklmn"
    assert required(SendMessageV2) == set("befgh")
    assert required(SendMessage) == {"topic", "queueId", "sysFlag", "bornTimestamp", "flag"}


def test_headers_that_java_writes_in_a_fixed_order_are_declared_in_it() -> None:
    assert wire_names(SendAnswer)[:6] == [
        *("msgId", "queueId", "queueOffset", "transactionId", "batchUniqId", "recallHandle")
    ]
    assert wire_names(PullAnswer) == [
        *("suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset", "offsetDelta"),
        *("topicSysFlag", "groupSysFlag"),
    ]
    assert wire_names(PullMessage) == [
        *("consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag"),
        *("commitOffset", "suspendTimeoutMillis", "subscription", "subVersion", "expressionType"),
        *("maxMsgBytes", "requestSource", "proxyFrowardClientId", "bname"),
    ]


@pytest.mark.parametrize(
    ("code", "names"),
    [
        (11, "consumerGroup topic queueId queueOffset maxMsgNums sysFlag"),
        (12, "topic key maxNum beginTimestamp endTimestamp"),
        (14, "consumerGroup topic queueId"),
        (15, "consumerGroup topic queueId commitOffset"),
        (17, "topic defaultTopic readQueueNums writeQueueNums perm topicFilterType order"),
        (29, "topic queueId timestamp"),
        (30, "topic queueId"),
        (31, "topic queueId"),
        (32, "topic queueId"),
        (33, "offset"),
        (35, "clientID"),
        (36, "offset group delayLevel"),
        (37, "producerGroup tranStateTableOffset commitLogOffset commitOrRollback msgId"),
        (38, "consumerGroup"),
        (39, "tranStateTableOffset commitLogOffset"),
        (100, "namespace key value"),
        (101, "namespace key"),
        (103, "brokerName brokerAddr clusterName brokerId haServerAddr"),
        (104, "brokerName brokerAddr clusterName brokerId"),
        (105, "topic"),
        (207, "groupName"),
        (208, "consumerGroup"),
        (216, "topic"),
        (222, "topic group timestamp isForce"),
        (223, "topic group"),
        (303, "topic group"),
        (307, "consumerGroup clientId jstackEnable"),
        (308, "topic compareGroup"),
        (309, "consumerGroup"),
        (314, "srcGroup destGroup"),
        (317, "isOrder"),
        (321, "topic queueId index count"),
        (322, "brokerName brokerAddr clusterName brokerId"),
        (323, "msgId"),
        (345, "group"),
        (351, "topic"),
        (353, "group topic"),
        (904, "clusterName brokerAddr brokerName"),
        (905, ""),
        (200051, "consumerGroup topic queueId extraInfo offset"),
        (200053, "consumerGroup topic queueId extraInfo offset invisibleTime"),
    ],
)
def test_what_brokers_need_is_required_and_nothing_else(code: int, names: str) -> None:
    assert required(REQUEST_HEADERS[RequestCode(code)]) == set(names.split())


def test_names_that_follow_no_rule_are_as_they_are() -> None:
    assert "_UNIQUE_KEY_QUERY" in wire_names(QueryMessage)
    assert "__ZONE_NAME" in wire_names(RegisterBroker)
    assert {"TRACE_ON", "MSG_REGION"} < set(wire_names(SendAnswer))
    assert {"removeOffset", "cleanOffset"} < set(wire_names(DeleteGroup))
    assert wire_names(TopicConfigOf) == ["topic", "lo"]
    assert wire_names(MaxOffset) == ["bname", "topic", "queueId", "committed"]


def test_the_bits_of_a_pull_are_those_clients_send() -> None:
    """A lite pull consumer sends 22, a Node push consumer 6 or 7."""
    assert PullFlag.LITE_PULL | PullFlag.SUBSCRIPTION | PullFlag.SUSPEND == 22
    assert PullFlag.SUBSCRIPTION | PullFlag.SUSPEND | PullFlag.COMMIT_OFFSET == 7
    assert int(PullFlag.CLASS_FILTER) == 8
