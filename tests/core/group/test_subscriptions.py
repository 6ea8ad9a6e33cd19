"""A pull names only a version that brokers have heard of, and versions never go back."""

from __future__ import annotations

from typing import Any

import pytest

from flintmq.core.group.consumer_settings import ConsumerSettings
from flintmq.core.group.subscriptions import TOPICS_MAX, Subscriptions, TopicSubscription
from flintmq.errors import InvalidExpression, InvalidName, InvalidSetting
from flintmq.model.group import MessageModel
from flintmq.model.java_hash import java_hash
from flintmq.protocol.bodies.client import SQL92, TAG

NOW_MS = 1_700_000_000_000


def subscribed(*wanted: TopicSubscription, **changes: Any) -> Subscriptions:
    settings = ConsumerSettings(**{"group": "billing", **changes})
    return Subscriptions(settings, wanted or [TopicSubscription("orders")], NOW_MS)


def test_tags_become_what_brokers_read() -> None:
    wire = TopicSubscription("orders", "paid || refunded").to_wire(7)

    assert (wire.topic, wire.sub_string, wire.expression_type) == (
        "orders",
        "paid || refunded",
        TAG,
    )
    assert wire.tags_set == ("paid", "refunded")
    assert set(wire.code_set) == {java_hash("paid"), java_hash("refunded")}
    assert wire.sub_version == 7


@pytest.mark.parametrize("tags", ["*", ""])
def test_everything_has_no_tags_and_is_not_filtered_here(tags: str) -> None:
    subscription = TopicSubscription("orders", tags)

    assert subscription.text == "*"
    assert not subscription.is_filtered_here


def test_sql_is_for_the_broker_alone() -> None:
    subscription = TopicSubscription("orders", sql="amount > 5")
    wire = subscription.to_wire(1)

    assert (wire.expression_type, wire.sub_string) == (SQL92, "amount > 5")
    assert (wire.tags_set, wire.code_set) == ((), ())
    assert not subscription.is_filtered_here


def test_what_cannot_be_subscribed_to_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="not both"):
        TopicSubscription("orders", "paid", sql="a = 1")
    with pytest.raises(InvalidExpression):
        TopicSubscription("orders", sql=" ")
    with pytest.raises(InvalidExpression):
        TopicSubscription("orders", "||")
    with pytest.raises(InvalidName):
        TopicSubscription("no topic")
    with pytest.raises(InvalidSetting, match="batch_max"):
        TopicSubscription("orders", batch_max=0)


def test_a_group_needs_a_topic_and_each_only_once() -> None:
    with pytest.raises(InvalidSetting, match="at least one"):
        Subscriptions(ConsumerSettings(group="g"), [], NOW_MS)
    with pytest.raises(InvalidSetting, match="twice"):
        subscribed(TopicSubscription("orders"), TopicSubscription("orders", "paid"))
    with pytest.raises(InvalidSetting, match=f"{TOPICS_MAX} at most"):
        subscribed(*(TopicSubscription(f"t{n}") for n in range(TOPICS_MAX + 1)))


def test_a_group_that_shares_messages_has_its_retry_topic_too() -> None:
    shared = [each.topic for each in subscribed()]
    broadcast = [each.topic for each in subscribed(model=MessageModel.BROADCASTING)]

    assert shared == ["orders", "%RETRY%billing"]
    assert broadcast == ["orders"]


def test_topics_are_put_into_the_namespace() -> None:
    subscriptions = subscribed(TopicSubscription("orders", "paid", batch_max=5), namespace="shop")

    assert [each.topic for each in subscriptions] == ["shop%orders", "%RETRY%shop%billing"]
    assert subscriptions.batch_max("shop%orders") == 5


def test_a_topic_has_its_own_batch_and_order_or_those_of_the_group() -> None:
    subscriptions = subscribed(
        TopicSubscription("orders", ordered=True, batch_max=7),
        TopicSubscription("bills"),
        batch_max=2,
    )

    assert [subscriptions.batch_max(topic) for topic in ("orders", "bills")] == [7, 2]
    assert [subscriptions.is_ordered(topic) for topic in ("orders", "bills")] == [True, False]
    assert not subscriptions.is_ordered("%RETRY%billing")


def test_retries_are_ordered_only_where_everything_is() -> None:
    assert subscribed(ordered=True).is_ordered("%RETRY%billing")


def test_a_pull_names_the_version_that_a_heartbeat_has_delivered() -> None:
    subscriptions = subscribed()
    assert subscriptions.confirmed_version("orders") == 0

    first = subscriptions.section()
    subscriptions.changed("orders", NOW_MS + 10)
    subscriptions.confirmed(first)

    assert subscriptions.confirmed_version("orders") == NOW_MS
    subscriptions.confirmed(subscriptions.section())
    assert subscriptions.confirmed_version("orders") == NOW_MS + 10
    subscriptions.confirmed(first)
    assert subscriptions.confirmed_version("orders") == NOW_MS + 10


def test_a_version_grows_even_when_the_clock_stands_still() -> None:
    subscriptions = subscribed()

    subscriptions.changed("orders", NOW_MS - 5)
    subscriptions.confirmed(subscriptions.section())

    assert subscriptions.confirmed_version("orders") == NOW_MS + 1


def test_the_section_says_how_the_group_consumes() -> None:
    section = subscribed(unit_mode=True).section()

    assert (section.group_name, section.unit_mode) == ("billing", True)
    assert [each.topic for each in section.subscription_data_set] == ["orders", "%RETRY%billing"]
