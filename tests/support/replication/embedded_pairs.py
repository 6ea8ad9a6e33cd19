"""An embedded master and its slave under one name, as tests look at them."""

from __future__ import annotations

from collections.abc import Iterable

from flintmq import EmbeddedBroker, Message
from flintmq.broker.state.broker_state import BrokerState

PATIENCE_S = 60.0
MASTER, SLAVE = "broker-a", "broker-a/1"


def states(pair: EmbeddedBroker) -> tuple[BrokerState, BrokerState]:
    """Of the broker that began as the master, and of the one that began as its slave."""
    return pair.call(lambda servers: (servers.brokers[MASTER].state, servers.brokers[SLAVE].state))


def send_to_both(pair: EmbeddedBroker, messages: Iterable[Message]) -> None:
    """Send to topics that exist, and wait until the slave has them all and knows the topics."""
    topics = set()
    with pair.producer("shop") as producer:
        for message in messages:
            producer.send(message)
            topics.add(message.topic)
    master, slave = states(pair)
    pair.wait_for(
        lambda: (
            slave.log.end_offset == master.log.end_offset
            and all(topic in slave.topics for topic in topics)
        ),
        PATIENCE_S,
    )
