"""Every request has a row, and what is checked is what the processor will use."""

from __future__ import annotations

import pytest

from flintmq.access.decide import Need
from flintmq.access.needs import TABLE, needs_of
from flintmq.access.rights import Context, Reserved
from flintmq.broker.processor_table import processors
from flintmq.model.queue import QueueRef
from flintmq.nameserver.processors import PROCESSORS
from flintmq.protocol.bodies.client import ConsumerGroup, Heartbeat, Subscription
from flintmq.protocol.bodies.group import LockRequest
from flintmq.protocol.codes import RequestCode as Code
from flintmq.protocol.fields import Header
from flintmq.protocol.headers.common_headers import NoFields, OfTopic
from flintmq.protocol.headers.group import CloneGroupOffset, ConsumeStatsOf, SendBackHeader
from flintmq.protocol.headers.lookup import ViewMessage
from flintmq.protocol.headers.pull import PullMessage
from flintmq.protocol.headers.send import SendMessageV2
from flintmq.protocol.typed_request import TypedRequest

NONE = NoFields()
HERE = Context("DefaultCluster", {7: "orders"}.get)


def needs(code: int, header: Header = NONE, body: bytes = b"") -> list[str]:
    found = needs_of(TypedRequest(header=header, code=code, body=body), HERE)
    return [found.value] if isinstance(found, Reserved) else sorted(map(str, found))


def a_send(topic: str, group: str = "pg") -> SendMessageV2:
    return SendMessageV2(
        producer_group=group, topic=topic, queue_id=0, sys_flag=0, born_timestamp=1, flag=0
    )


def test_every_code_that_is_served_has_a_row() -> None:
    served = {*processors(), *map(int, PROCESSORS)}

    assert served - {int(code) for code in TABLE} == set()


def test_a_code_without_a_row_is_for_super_users_alone() -> None:
    assert needs(99_999) == ["a super user"]


@pytest.mark.parametrize("code", [Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE])
def test_a_send_needs_pub_on_its_topic(code: int) -> None:
    assert needs(code, a_send("orders")) == ["Pub Topic:orders"]


def test_a_send_to_a_retry_topic_needs_the_group_of_the_topic_whatever_the_header_claims() -> None:
    header = a_send("%RETRY%billing", group="mine")

    assert needs(Code.SEND_MESSAGE_V2, header) == ["Sub Group:billing"]


def test_a_pull_needs_sub_on_topic_and_group() -> None:
    header = PullMessage(
        consumer_group="g", topic="t", queue_id=0, queue_offset=0, max_msg_nums=1, sys_flag=0
    )

    assert needs(Code.PULL_MESSAGE, header) == ["Sub Group:g", "Sub Topic:t"]
    assert needs(Code.LITE_PULL_MESSAGE, header) == ["Sub Group:g", "Sub Topic:t"]


def test_a_heartbeat_needs_sub_on_all_it_subscribes_to() -> None:
    body = Heartbeat(
        client_id="c",
        consumer_data_set=(
            ConsumerGroup(
                group_name="g",
                subscription_data_set=(Subscription(topic="t"), Subscription(topic="%RETRY%g")),
            ),
        ),
    ).to_body()

    assert needs(Code.HEART_BEAT, body=body) == ["Sub Group:g", "Sub Topic:t"]


def test_a_retry_topic_of_another_group_needs_that_group() -> None:
    """RocketMQ 5 passes over retry topics in heartbeats and locks, whosever they are."""
    other = Subscription(topic="%RETRY%other")
    group = ConsumerGroup(group_name="g", subscription_data_set=(other,))
    heartbeat = Heartbeat(client_id="c", consumer_data_set=(group,)).to_body()
    queue = QueueRef("%RETRY%other", "b", 0)
    lock = LockRequest(client_id="c", consumer_group="g", mq_set=(queue,)).to_body()

    assert needs(Code.HEART_BEAT, body=heartbeat) == ["Sub Group:g", "Sub Group:other"]
    assert needs(Code.LOCK_BATCH_MQ, body=lock) == ["Sub Group:g", "Sub Group:other"]


def test_a_lock_needs_sub_on_group_and_topics() -> None:
    queue = QueueRef("t", "b", 0)
    body = LockRequest(client_id="c", consumer_group="g", mq_set=(queue,)).to_body()

    assert needs(Code.LOCK_BATCH_MQ, body=body) == ["Sub Group:g", "Sub Topic:t"]


def test_a_record_named_by_its_place_needs_its_own_topic_whatever_the_header_claims() -> None:
    seen = needs(Code.VIEW_MESSAGE_BY_ID, ViewMessage(topic="mine", offset=7))
    back = SendBackHeader(offset=7, group="g", delay_level=0, origin_topic="mine")

    assert seen == ["Sub or Get Topic:orders"]
    assert needs(Code.CONSUMER_SEND_MSG_BACK, back) == ["Sub Group:g", "Sub Topic:orders"]


def test_every_topic_of_a_list_is_needed() -> None:
    header = ConsumeStatsOf(consumer_group="g", topic_list="a;b")

    assert needs(Code.GET_CONSUME_STATS, header) == ["Get Group:g", "Get Topic:a", "Get Topic:b"]


def test_a_clone_of_offsets_needs_both_groups() -> None:
    header = CloneGroupOffset(src_group="from", dest_group="to", topic=" t ")

    found = needs(Code.CLONE_GROUP_OFFSET, header)

    assert found == ["Sub or Get Group:from", "Update Group:to", "Update Topic:t"]


def test_an_empty_name_is_a_name_where_one_must_be_given() -> None:
    assert needs(Code.DELETE_TOPIC_IN_BROKER, OfTopic(topic="")) == ["Delete Topic:"]
    every = ConsumeStatsOf(consumer_group="g", topic="")
    assert needs(Code.GET_CONSUME_STATS, every) == ["Get Group:g"]


@pytest.mark.parametrize("topic", ["TBW102", "DefaultCluster", "x_REPLY_TOPIC"])
def test_routes_that_every_client_asks_for_need_no_right(topic: str) -> None:
    assert needs(Code.GET_ROUTEINFO_BY_TOPIC, OfTopic(topic=topic)) == ["a valid signature"]


@pytest.mark.parametrize(
    "code",
    [code for code in Code if 3001 <= code <= 3010 or 50 <= code <= 54],
)
def test_accounts_are_for_super_users(code: Code) -> None:
    assert TABLE[code] is Reserved.SUPER


def test_the_table_can_be_printed() -> None:
    row = TABLE[Code.PULL_MESSAGE]

    assert isinstance(row, tuple)
    assert [str(right) for right in row] == ["Sub on the topic", "Sub on the group"]


def test_a_need_is_a_sentence() -> None:
    found = needs_of(TypedRequest(header=a_send("t"), code=310), HERE)

    assert isinstance(found, tuple)
    assert isinstance(found[0], Need)
    assert str(found[0]) == "Pub Topic:t"
