"""Dead letters for commands to show."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flintmq import DeadLetter, EmbeddedBroker, Message, ReceivedMessage
from support.client.support import wait_for

GROUP = "billing"


def bury(broker: EmbeddedBroker, group: str, *messages: Message) -> None:
    """Have a group give these up."""

    def listen(_messages: tuple[ReceivedMessage, ...]) -> None:
        raise DeadLetter("broken")

    before = len(broker.messages(f"%DLQ%{group}"))
    consumer = broker.push_consumer(group, listen, start_from="first")
    with broker.producer("shop") as producer, consumer.subscribe(messages[0].topic):
        for message in messages:
            producer.send(message)
        wait_for(lambda: len(broker.messages(f"%DLQ%{group}")) == before + len(messages))


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        orders = [
            Message("orders", b"%d" % n, keys=[f"k-{n}"], tags="even" if n % 2 == 0 else "odd")
            for n in range(4)
        ]
        bury(running, GROUP, *orders)
        yield running
