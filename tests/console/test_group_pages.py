"""Groups: who is in them, how far each queue is, and why it is behind, in words."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from flintmq import Message
from flintmq.embedded.broker import EmbeddedBroker
from flintmq.model.message import ReceivedMessage
from support.console.browsing import PATIENCE_S, Visitor, visiting


@pytest.fixture(scope="module")
def visitor(broker: EmbeddedBroker) -> Iterator[Visitor]:
    with visiting(broker.namesrv) as made:
        made.sign_in()
        yield made


def test_a_group_that_consumed_everything_is_not_behind(
    broker: EmbeddedBroker, visitor: Visitor
) -> None:
    seen: list[bytes] = []

    def listen(messages: tuple[ReceivedMessage, ...]) -> None:
        seen.extend(message.body for message in messages)

    with (
        broker.producer("shop") as producer,
        broker.push_consumer("quick", listen, start_from="first").subscribe("quick-orders"),
    ):
        producer.send(Message("quick-orders", b"1"))
        broker.wait_for(lambda: seen, PATIENCE_S)
        page = visitor.until("is not behind", "/group", name="quick")
        visitor.until('<a href="/group?name=quick">quick</a>', "/groups", q="QUICK")

    assert "quick-orders" in page


def test_a_group_without_members_says_so_and_how_far_it_is_behind(
    broker: EmbeddedBroker, visitor: Visitor
) -> None:
    seen = threading.Event()
    with broker.producer("shop") as producer:
        with broker.push_consumer(
            "gone", lambda _messages: seen.set(), start_from="first"
        ).subscribe("gone-orders"):
            producer.send(Message("gone-orders", b"1"))
            assert seen.wait(PATIENCE_S)
            broker.wait_for(lambda: broker.lag("gone", "gone-orders") == 0, PATIENCE_S)
        for _ in range(4):
            producer.send(Message("gone-orders", b"2"))

    page = visitor.until("gone is 4 messages behind", "/group", name="gone")

    assert "no member is online" in page


def test_a_member_tells_its_queues_and_its_stacks_only_on_request(
    broker: EmbeddedBroker, visitor: Visitor
) -> None:
    with broker.producer("shop") as producer:
        producer.send(Message("member-orders", b"1"))
    with broker.push_consumer("members", lambda _messages: None, start_from="first").subscribe(
        "member-orders"
    ) as consumer:
        client = consumer.status().client_id
        visitor.until(client, "/group", name="members")
        plain = visitor.text("/group/member", group="members", client=client)
        stacked = visitor.text("/group/member", group="members", client=client, stacks=1)

    assert "Ask for the stacks" in plain
    assert "<h2>Stacks</h2>" not in plain
    assert "<h2>Stacks</h2>" in stacked


def test_an_unknown_group_is_not_found(visitor: Visitor) -> None:
    assert visitor.status("/group", name="nobody-knows") == 404


def test_samples_of_a_group_are_a_table_too(broker: EmbeddedBroker, visitor: Visitor) -> None:
    with broker.push_consumer("sampled", lambda _messages: None, start_from="first").subscribe(
        "sampled-orders"
    ):
        broker.wait_for(lambda: visitor.status("/group", name="sampled") == 200, PATIENCE_S)
        visitor.sweep()

    assert "Lag, in messages" in visitor.text("/history", group="sampled")
    assert "Sent a second" in visitor.text("/history")
