"""Topic names are the ones RocketMQ takes, and none of them can leave a directory."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import InvalidName
from flintmq.model.topic import (
    NOT_FOR_PRODUCERS,
    READ_WRITE,
    SYSTEM_TOPICS,
    TIMER_TOPIC,
    TOPIC_CHARACTERS_MAX,
    Permission,
    check_sendable_topic,
    check_topic_name,
    is_system_topic,
    reply_topic,
)


@pytest.mark.parametrize(
    "name", ["orders", "a", "%RETRY%billing", "ns%orders", "A-b_c|0", "x" * TOPIC_CHARACTERS_MAX]
)
def test_a_good_name_passes(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "blank"),
        (" \t", "blank"),
        ("or ders", "characters"),
        ("orders\n", "characters"),
        ("a.b", "characters"),
        ("../up", "characters"),
        ("a/b", "characters"),
        ("a\\b", "characters"),
        ("a+b", "characters"),
        ("é", "characters"),
        ("٣", "characters"),
        ("x" * (TOPIC_CHARACTERS_MAX + 1), "longer than 127"),
    ],
)
def test_a_bad_name_is_refused_with_its_reason(name: str, reason: str) -> None:
    with pytest.raises(InvalidName, match=reason) as caught:
        check_topic_name(name)

    assert (caught.value.kind, caught.value.name) == ("topic", name)


@given(st.text(max_size=20) | st.text("%|aZ0_-./\\ \0", max_size=20))
@settings(max_examples=200, deadline=None)
def test_a_name_that_passes_is_safe_as_a_directory(name: str) -> None:
    try:
        check_topic_name(name)
    except InvalidName:
        return

    assert name not in ("", ".", "..")
    assert not set(name) & set("/\\\0.")


@pytest.mark.parametrize("name", sorted(NOT_FOR_PRODUCERS))
def test_topics_of_the_broker_take_no_messages_of_users(name: str) -> None:
    check_topic_name(name)

    with pytest.raises(InvalidName, match="broker"):
        check_sendable_topic(name)


@pytest.mark.parametrize("name", ["orders", "TBW102", "BenchmarkTest", "%DLQ%g"])
def test_other_topics_take_them(name: str) -> None:
    check_sendable_topic(name)


def test_system_topics_are_known_by_name_or_by_prefix() -> None:
    assert all(map(is_system_topic, SYSTEM_TOPICS))
    assert is_system_topic(TIMER_TOPIC)
    assert is_system_topic("rmq_sys_REVIVE_LOG_c")
    assert not is_system_topic("orders")
    assert not is_system_topic("RMQ_SYS_orders")


def test_a_permission_is_told_in_letters() -> None:
    assert READ_WRITE == 6
    assert [Permission(bits).letters for bits in (0, 2, 4, 6, 7)] == [
        "---",
        "-W-",
        "R--",
        "RW-",
        "RWX",
    ]


def test_a_cluster_has_one_reply_topic() -> None:
    assert reply_topic("c") == "c_REPLY_TOPIC"
