"""Requests of one batch follow each other, and a failure says how far it came."""

from __future__ import annotations

import pytest

from flintmq.core.conversation import Call
from flintmq.core.producer.publisher import Publisher, SendRules
from flintmq.core.producer.send_batches import send_batches
from flintmq.core.producer.send_draft import Draft, DraftRules, draft_batches
from flintmq.core.routes import Routes
from flintmq.errors import BrokerRefused, NoRoute, PartlySent
from flintmq.model.message import Message
from flintmq.model.queue import QueueRef
from flintmq.model.route import BrokerReplicas, QueueCounts, Route
from flintmq.model.topic import Permission
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.command import Command
from flintmq.protocol.headers.send import SendAnswer
from support.core.peers import no, ok

ROUTE = Route(
    brokers=(BrokerReplicas("c", "broker-a", {0: "a:1"}),),
    queues=(QueueCounts("broker-a", 1, 1, Permission.READ | Permission.WRITE),),
)
QUEUE = QueueRef("orders", "broker-a", 0)


def drafts_of(count: int) -> list[Draft]:
    """A request for each message."""
    rules = DraftRules(batch_bytes_max=1)
    messages = [Message("orders", b"x") for _ in range(count)]
    return draft_batches(
        messages, "orders", unique_ids=["id"] * len(messages), now_ms=0, rules=rules
    )


def publisher(routes: Routes) -> Publisher:
    rules = SendRules(retries=0)
    return Publisher("shop", routes, clock=lambda: 0, chance=lambda: 0.0, rules=rules)


def stored(offset: int) -> Command:
    return ok(SendAnswer(msg_id="place", queue_id=0, queue_offset=offset))


def test_each_request_waits_for_the_one_before_it_and_every_message_gets_a_receipt() -> None:
    routes, seen = Routes(), []
    routes.update("orders", ROUTE)

    def watch(start: int, stop: int) -> None:
        seen.append((start, stop))

    talk = send_batches(publisher(routes), routes, drafts_of(2), 3_000, watch=watch)
    assert isinstance(next(talk), Call)
    assert isinstance(talk.send(stored(7)), Call)
    with pytest.raises(StopIteration) as done:
        talk.send(stored(8))

    assert [receipt.queue_offset for receipt in done.value.value] == [7, 8]
    assert seen == [(0, 1), (1, 2)]


def test_a_first_request_that_fails_is_the_failure_itself() -> None:
    routes = Routes()
    routes.update("orders", ROUTE)
    talk = send_batches(
        publisher(routes), routes, drafts_of(2), 3_000, queue=QUEUE, watch=lambda _, __: None
    )
    next(talk)

    with pytest.raises(BrokerRefused):
        talk.send(no(ResponseCode.MESSAGE_ILLEGAL))


def test_a_later_one_says_how_many_messages_are_stored() -> None:
    routes = Routes()
    routes.update("orders", ROUTE)
    talk = send_batches(publisher(routes), routes, drafts_of(3), 3_000, watch=lambda _, __: None)
    next(talk)
    talk.send(stored(7))

    with pytest.raises(PartlySent) as caught:
        talk.send(no(ResponseCode.MESSAGE_ILLEGAL))

    assert (caught.value.stored, caught.value.total) == (1, 3)


def test_a_route_that_is_gone_is_told() -> None:
    routes = Routes()
    talk = send_batches(publisher(routes), routes, drafts_of(1), 3_000, watch=lambda _, __: None)

    with pytest.raises(NoRoute):
        next(talk)
