"""Dead letters for commands to show."""

from __future__ import annotations

from flintmq import DeadLetter, EmbeddedBroker, Message, ReceivedMessage
from support.client.support import wait_for


def bury(broker: EmbeddedBroker, group: str, *messages: Message) -> None:
    """Have a group give these up, and what else waits for it."""

    def listen(_messages: tuple[ReceivedMessage, ...]) -> None:
        raise DeadLetter("broken")

    before = len(broker.messages(f"%DLQ%{group}"))
    waiting = broker.lag(group) if before else 0
    consumer = broker.push_consumer(group, listen, start_from="first")
    with broker.producer("shop") as producer, consumer.subscribe(messages[0].topic):
        for message in messages:
            producer.send(message)
        wait_for(lambda: len(broker.messages(f"%DLQ%{group}")) == before + waiting + len(messages))
