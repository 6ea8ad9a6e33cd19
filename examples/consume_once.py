"""Consume each order once, though it is sent twice and the consumer is started twice.

    python examples/consume_once.py

You will see three orders billed, each once, and one repeat dropped after a restart.  The keys of
billed orders are in a file; RedisKeys or SqlKeys share them between machines.  With NAMESRV_ADDR
set it works on your cluster.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from flintmq import (
    EmbeddedBroker,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    SqliteKeys,
    idempotent,
)

TOPIC = f"orders-{time.time_ns()}"


def bill_until(address: str, seen: Path, count: int) -> None:
    """A program that runs, is stopped when it has handled so many messages, and runs again."""
    once = idempotent(SqliteKeys(seen), scope="billing", key=lambda message: message.keys[0])
    billed: list[str] = []

    @once
    def bill(messages: tuple[ReceivedMessage, ...]) -> None:
        for message in messages:
            print("billed", message.text)
            billed.append(message.text)

    consumer = PushConsumer("billing", bill, namesrv=address, start_from="first")
    with consumer.subscribe(TOPIC):
        while len(billed) + once.dropped < count:
            time.sleep(0.05)
    print(f"stopped: {len(billed)} billed, {once.dropped} dropped")


if __name__ == "__main__":
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        address = os.environ.get("NAMESRV_ADDR")
        address = address or stack.enter_context(EmbeddedBroker()).namesrv
        with Producer("shop", namesrv=address) as producer:
            for orders in (["o-1", "o-2"], ["o-2", "o-3"]):
                for order in orders:
                    producer.send(Message(TOPIC, order.encode(), keys=order))
                bill_until(address, directory / "seen.db", 2)
