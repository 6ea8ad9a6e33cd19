"""Actions become the requests that RocketMQ's own consumers send."""

from __future__ import annotations

from typing import Any

import pytest

from flintmq.core.group.actions import LockQueues, SendBack, UnlockQueues
from flintmq.core.group.requests import (
    lock_request,
    members_request,
    read_locked,
    read_members,
    send_back_request,
    unlock_request,
    unregister_request,
)
from flintmq.core.group.subscriptions import TopicSubscription
from flintmq.core.reading.pull_request import Pull, check_filter, pull_request
from flintmq.errors import BrokerRefused, InvalidSetting
from flintmq.model.queue import QueueOffset
from flintmq.protocol.bodies.client import ConsumerIds
from flintmq.protocol.bodies.group import LockAnswer, LockRequest
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.common_headers import OfConsumerGroup
from flintmq.protocol.headers.group import SendBackHeader, UnregisterClient
from flintmq.protocol.headers.pull import PullMessage
from flintmq.protocol.version import SQL92_SINCE
from support.core.consuming import Q0, Q1
from support.core.messages import QUEUE, received
from support.core.peers import no, ok


def pull(**changes: Any) -> Pull:
    fields: dict[str, Any] = {
        "queue": QUEUE,
        "offset": QueueOffset(7),
        "count_max": 32,
        "bytes_max": 262_144,
        "broker_id": 0,
        "subscription": TopicSubscription("orders", "paid"),
        "sub_version": 5,
        "commit_offset": QueueOffset(3),
        "sends_subscription": False,
        "suspend_ms": 15_000,
    }
    return Pull(**fields | changes)


def header(made: Pull, *, is_slave: bool = False) -> PullMessage:
    request = pull_request(made, "billing", is_slave=is_slave)
    assert request.code == RequestCode.PULL_MESSAGE
    return request.header(PullMessage)


def test_a_pull_waits_and_commits() -> None:
    asked = header(pull())

    assert (asked.consumer_group, asked.topic, asked.queue_id) == ("billing", "orders", 0)
    assert (asked.queue_offset, asked.max_msg_nums, asked.max_msg_bytes) == (7, 32, 262_144)
    assert (asked.sys_flag, asked.commit_offset, asked.suspend_timeout_millis) == (1 | 2, 3, 15_000)
    assert (asked.sub_version, asked.subscription, asked.expression_type) == (5, None, "TAG")
    assert asked.broker_name == "broker-a"


def test_a_slave_is_not_told_how_far_we_are() -> None:
    assert header(pull(), is_slave=True).sys_flag == 2
    assert header(pull(commit_offset=None)).sys_flag == 2


def test_a_pull_that_need_not_wait_says_so() -> None:
    assert header(pull(suspend_ms=0)).sys_flag == 1


def test_the_subscription_goes_along_where_it_is_wanted() -> None:
    asked = header(pull(sends_subscription=True))

    assert (asked.sys_flag, asked.subscription) == (1 | 2 | 4, "paid")


def test_an_old_broker_is_not_asked_for_sql() -> None:
    sql = pull(subscription=TopicSubscription("orders", sql="a = 1"))

    check_filter(sql.subscription, "broker-a", SQL92_SINCE)
    check_filter(pull().subscription, "broker-a", SQL92_SINCE - 1)
    with pytest.raises(InvalidSetting, match="broker-a, version V4_0_9, cannot filter by SQL92"):
        check_filter(sql.subscription, "broker-a", 231)


def test_members_are_asked_for_and_read() -> None:
    asked = members_request("billing")
    answer = ok(body=ConsumerIds(consumer_id_list=("a", "b")).to_body())

    assert (asked.code, asked.header(OfConsumerGroup).consumer_group) == (38, "billing")
    assert read_members(answer, "b:1") == ("a", "b")
    with pytest.raises(BrokerRefused):
        read_members(no(1, "no consumer for this group"), "b:1")


def test_locks_are_asked_for_read_and_given_back() -> None:
    asked = lock_request(LockQueues("broker-a", (Q0, Q1), 0), "billing", "me")
    given = unlock_request(UnlockQueues("broker-a", (Q0,)), "billing", "me")
    answer = ok(body=LockAnswer(lock_ok_mq_set=(Q1,)).to_body())

    assert (asked.code, asked.is_oneway) == (41, False)
    assert LockRequest.from_body(asked.body).mq_set == (Q0, Q1)
    assert read_locked(answer, "b:1") == (Q1,)
    with pytest.raises(BrokerRefused):
        read_locked(no(1), "b:1")
    assert (given.code, given.is_oneway) == (42, True)
    assert LockRequest.from_body(given.body).client_id == "me"


def test_a_message_is_given_back_by_its_place_in_the_log() -> None:
    message = received(5)
    request = send_back_request(SendBack(QUEUE, message, -1, 16, "bad", None), "billing")

    asked = request.header(SendBackHeader)

    assert request.code == 36
    assert (asked.offset, asked.group, asked.delay_level) == (message.log_offset, "billing", -1)
    assert (asked.origin_msg_id, asked.origin_topic) == (message.message_id, "orders")
    assert (asked.max_reconsume_times, asked.broker_name) == (16, "broker-a")


def test_a_member_leaves_its_group() -> None:
    request = unregister_request("me", "billing")

    asked = request.header(UnregisterClient)

    assert (request.code, asked.client_id, asked.consumer_group) == (35, "me", "billing")
    assert asked.producer_group is None
