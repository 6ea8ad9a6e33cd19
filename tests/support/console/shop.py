"""A cluster with a shop on it, for pages to show: traffic, groups of every kind, dead letters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flintmq import DeadLetter, Message, ReceivedMessage
from flintmq.embedded.broker import EmbeddedBroker
from support.console.browsing import PATIENCE_S, Visitor, visiting
from support.console.spark_driver import spark_driver

ORDERS = 120
TOPICS = ("orders", "payments", "shipments", "stock-levels", "mail.outgoing")
BROKEN = 6
"""Orders that billing gives up."""


@contextmanager
def shop(**console: Any) -> Iterator[tuple[EmbeddedBroker, Visitor]]:
    """Two brokers with some history, and a console beside them; consumers go on meanwhile."""
    with EmbeddedBroker(brokers=2) as broker:
        _create_topics(broker)
        with (
            spark_driver() as (_, driver),
            visiting(broker.namesrv, spark_runs=[driver], **console) as visitor,
            broker.push_consumer("billing", _bill, start_from="first", trace=True).subscribe(
                "orders", tags="paid || open"
            ),
            broker.push_consumer("warehouse", _accept, start_from="first").subscribe("orders"),
        ):
            send_orders(broker, ORDERS)
            broker.wait_for(lambda: broker.lag("warehouse", "orders") == 0, PATIENCE_S)
            broker.wait_for(lambda: len(broker.messages("%DLQ%billing")) == BROKEN, PATIENCE_S)
            _leave_behind(broker)
            visitor.sign_in()
            yield broker, visitor


def _create_topics(broker: EmbeddedBroker) -> None:
    with broker.admin() as admin:
        for name in TOPICS:
            admin.create_topic(name.replace(".", "-"), queues=4)


def send_orders(broker: EmbeddedBroker, count: int, first: int = 0) -> None:
    with broker.producer("web-shop", trace=True) as producer:
        for number in range(first, first + count):
            body = b'{"order": "o-%d", "customer": "c-%d", "total": %d.50, "currency": "EUR"}'
            producer.send(
                Message(
                    "orders",
                    body % (number, number % 17, 5 + number % 90),
                    tags="paid" if number % 3 else "open",
                    keys=f"o-{number}",
                    properties={"customer": f"c-{number % 17}"},
                )
            )
            if number % 4 == 0:
                producer.send(Message("payments", b"<?xml version='1.0'?><payment/>", tags="card"))


def _bill(messages: tuple[ReceivedMessage, ...]) -> None:
    for message in messages:
        number = int(message.keys[0].removeprefix("o-"))
        if number < BROKEN:
            reason = "no such customer" if number % 2 else "the amount is not a number"
            raise DeadLetter(reason)


def _accept(_messages: tuple[ReceivedMessage, ...]) -> None:
    """Consumes whatever comes."""


def _leave_behind(broker: EmbeddedBroker) -> None:
    """A group that consumed once, went away, and is behind."""
    with broker.push_consumer("reports", _accept, start_from="first").subscribe("payments"):
        broker.wait_for(lambda: broker.lag("reports", "payments") == 0, PATIENCE_S)
    with broker.producer("web-shop") as producer:
        for _ in range(2_500 // 50):
            producer.send_batch([Message("payments", b"card", tags="card") for _ in range(50)])
