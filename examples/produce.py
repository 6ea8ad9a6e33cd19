"""Send messages in every way a producer knows.

    python examples/produce.py

You will see one line for each way: where the message is, or how many there are.  With
NAMESRV_ADDR set it sends to your cluster, else to a broker that it starts inside itself.
"""

from __future__ import annotations

import os
from contextlib import ExitStack

from flintmq import EmbeddedBroker, Message, Producer, SendReceipt


def send_all(producer: Producer) -> None:
    # One message.  It is stored when `send` comes back; tags and keys are for those who read it.
    receipt = producer.send(Message("orders", b"o-1", tags="paid", keys=["o-1"]))
    print(f"stored: {receipt.status} in {receipt.queue} at {receipt.queue_offset}")

    # Many under way at once: `send_async` gives a future, `flush` waits for all of them.
    futures = [producer.send_async(Message("orders", f"o-{n}".encode())) for n in range(2, 102)]
    producer.flush()
    print(f"async: {sum(future.result().status == 'SEND_OK' for future in futures)} stored")

    # A callback in place of the future.  It must be quick: it runs where all clients live.
    done: list[SendReceipt | BaseException] = []
    producer.send_async(Message("orders", b"o-102"), callback=done.append)
    producer.flush()
    print(f"callback: {type(done[0]).__name__}")

    # Many messages in one request: the cheapest way.
    receipts = producer.send_batch(Message("orders", f"o-{n}".encode()) for n in range(103, 203))
    print(f"batch: {len(receipts)} stored")

    # Messages with one sharding key go to one queue, in the order they are sent.
    queues = {
        producer.send(Message("orders", step), sharding_key="o-203").queue
        for step in (b"created", b"paid", b"shipped")
    }
    print(f"sharding key: {len(queues)} queue")

    # Later: level 3 of the broker's table is ten seconds.
    producer.send(Message("orders", b"reminder", delay_level=3))
    print("delayed: consumers get it in ten seconds")

    # Without asking whether it was stored.
    producer.send_oneway(Message("orders", b"o-204"))
    print("oneway: sent, and nobody knows")


if __name__ == "__main__":
    with ExitStack() as stack:
        address = os.environ.get("NAMESRV_ADDR")
        address = address or stack.enter_context(EmbeddedBroker()).namesrv
        with Producer("shop", namesrv=address) as shop:
            send_all(shop)
