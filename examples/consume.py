"""Consume a topic: what is returned is done, what raises comes again, what is hopeless is buried.

    python examples/consume.py

You will see five orders billed, one of them at its second try, and a sixth given up as a dead
letter.  With NAMESRV_ADDR set it works on your cluster, else on a broker inside itself.
"""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack

from flintmq import App, DeadLetter, EmbeddedBroker, Message, Producer, ReceivedMessage, Retry

app = App("billing", start_from="first", retry_max=3)
lock = threading.Lock()
settled: set[str] = set()


@app.listener("orders", tags="paid || refunded", batch_max=4)
def bill(messages: tuple[ReceivedMessage, ...]) -> list[Retry | DeadLetter | None]:
    """One result for each message; plain ``None`` would mean that all are consumed."""
    return [bill_one(message) for message in messages]


def bill_one(message: ReceivedMessage) -> Retry | DeadLetter | None:
    order = message.body.decode()
    if order == "o-3" and message.reconsume_times == 0:
        with lock:  # listeners run on many threads: one line at a time
            print(f"{order} failed: again in a second")
        return Retry(delay_level=1, reason="the bank did not answer")
    if order == "not an order":
        settle(order, f"{order!r} is given up")
        return DeadLetter("no order")
    settle(order, f"{order} billed at try {message.reconsume_times + 1}")
    return None


def settle(order: str, text: str) -> None:
    """End the program when everything is done.  Yours would run until it is stopped."""
    with lock:
        print(text)
        settled.add(order)
        if len(settled) == 6:
            app.stop()


if __name__ == "__main__":
    with ExitStack() as stack:
        address = os.environ.get("NAMESRV_ADDR")
        address = address or stack.enter_context(EmbeddedBroker()).namesrv
        with Producer("shop", namesrv=address) as producer:
            for body in ("o-1", "o-2", "o-3", "o-4", "o-5", "not an order"):
                producer.send(Message("orders", body.encode(), tags="paid"))
            producer.send(Message("orders", b"never seen", tags="cancelled"))
        app.use(namesrv=address)
        app.run()  # until app.stop(), or Ctrl-C
