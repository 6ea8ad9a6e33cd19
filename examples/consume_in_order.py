"""Consume in order: the messages of a queue one after the other, and nobody overtakes.

    python examples/consume_in_order.py

You will see the steps of three orders.  One step fails twice: the steps after it wait, and those
of orders in other queues go on.  With NAMESRV_ADDR set it works on your cluster.
"""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from contextlib import ExitStack

from flintmq import App, EmbeddedBroker, Message, Producer, ReceivedMessage, Retry

ORDERS = ("o-1", "o-2", "o-3")
STEPS = ("created", "paid", "packed", "shipped")

app = App("tracking", start_from="first", ordered=True)
lock = threading.Lock()
seen: defaultdict[str, list[str]] = defaultdict(list)


def say(text: str) -> None:
    with lock:
        print(text)


@app.listener("order-steps")
def track(messages: tuple[ReceivedMessage, ...]) -> None:
    for message in messages:
        order, step = message.body.decode().split()
        if (order, step) == ("o-2", "paid") and message.reconsume_times < 2:
            say(f"{order} {step}: failed, its queue rests for 100 ms")
            raise Retry(suspend_ms=100)
        say(f"{order} {step}")
        with lock:
            seen[order].append(step)
            if sum(map(len, seen.values())) == len(ORDERS) * len(STEPS):
                app.stop()


if __name__ == "__main__":
    with ExitStack() as stack:
        address = os.environ.get("NAMESRV_ADDR")
        address = address or stack.enter_context(EmbeddedBroker()).namesrv
        with Producer("shop", namesrv=address) as producer:
            for step in STEPS:
                for order in ORDERS:  # one key, one queue: this is what keeps the order
                    text = f"{order} {step}".encode()
                    producer.send(Message("order-steps", text), sharding_key=order)
        app.use(namesrv=address)
        app.run()
        kept = all(tuple(seen[order]) == STEPS for order in ORDERS)
        print(f"order kept: {kept}")
