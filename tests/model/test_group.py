"""A group's name leads to its topics and back, inside a namespace too."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.errors import InvalidName
from flintmq.model.group import (
    GROUP_CHARACTERS_MAX,
    PRESET_GROUPS,
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
    check_group_name,
    dead_letter_topic,
    group_of_retry_topic,
    is_dead_letter_topic,
    is_retry_topic,
    is_system_group,
    retry_topic,
    with_namespace,
    without_namespace,
)

NAMES = st.from_regex(r"[a-zA-Z0-9_-]{1,8}", fullmatch=True)


@pytest.mark.parametrize("name", ["billing", "x" * GROUP_CHARACTERS_MAX, *PRESET_GROUPS])
def test_a_good_name_passes(name: str) -> None:
    check_group_name(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "blank"),
        ("  ", "blank"),
        ("a b", "characters"),
        ("a/b", "characters"),
        ("g\n", "characters"),
        ("x" * (GROUP_CHARACTERS_MAX + 1), "longer than 255"),
    ],
)
def test_a_bad_name_is_refused_with_its_reason(name: str, reason: str) -> None:
    with pytest.raises(InvalidName, match=reason) as caught:
        check_group_name(name)

    assert caught.value.kind == "group"


def test_a_group_has_a_retry_topic_and_a_dead_letter_topic() -> None:
    assert retry_topic("billing") == "%RETRY%billing"
    assert dead_letter_topic("billing") == "%DLQ%billing"
    assert is_retry_topic("%RETRY%billing")
    assert not is_retry_topic("%DLQ%billing")
    assert is_dead_letter_topic("%DLQ%billing")
    assert not is_dead_letter_topic("billing")


def test_a_retry_topic_leads_back_to_its_group() -> None:
    assert group_of_retry_topic("%RETRY%billing") == "billing"
    assert group_of_retry_topic("%RETRY%billing+orders") == "billing"
    assert group_of_retry_topic("%RETRY%bill_ing") == "bill_ing"


def test_system_groups_are_known_by_prefix() -> None:
    assert is_system_group("CID_RMQ_SYS_TRANS")
    assert not is_system_group("CID_ONSAPI_PULL")


@pytest.mark.parametrize(
    ("name", "wrapped"),
    [
        ("orders", "ns%orders"),
        ("%RETRY%billing", "%RETRY%ns%billing"),
        ("%DLQ%billing", "%DLQ%ns%billing"),
        ("ns%orders", "ns%orders"),
        ("%RETRY%ns%billing", "%RETRY%ns%billing"),
        ("TBW102", "TBW102"),
        ("rmq_sys_wheel_timer", "rmq_sys_wheel_timer"),
        ("CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_TRANS"),
        ("", ""),
    ],
)
def test_a_namespace_stands_before_the_name_but_after_the_prefix(name: str, wrapped: str) -> None:
    assert with_namespace("ns", name) == wrapped
    assert with_namespace("", name) == name


def test_names_of_other_namespaces_are_left_alone() -> None:
    assert without_namespace("ns", "other%orders") == "other%orders"
    assert without_namespace("ns", "nsorders") == "nsorders"
    assert without_namespace("", "ns%orders") == "ns%orders"


@given(NAMES, NAMES, st.sampled_from(["", "%RETRY%", "%DLQ%"]))
@settings(max_examples=80, deadline=None)
def test_a_name_comes_back_from_its_namespace(namespace: str, name: str, prefix: str) -> None:
    wrapped = with_namespace(namespace, prefix + name)

    assert without_namespace(namespace, wrapped) == prefix + name
    assert with_namespace(namespace, wrapped) == wrapped


def test_enums_stand_in_the_order_of_their_ordinals() -> None:
    assert [str(member) for member in ConsumeType] == [
        "CONSUME_ACTIVELY",
        "CONSUME_PASSIVELY",
        "CONSUME_POP",
    ]
    assert list(MessageModel) == ["BROADCASTING", "CLUSTERING"]
    assert list(ConsumeFromWhere)[4:] == ["CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP"]
