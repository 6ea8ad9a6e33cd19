"""A message that appears only if the work it stands for was done.

    python examples/transaction.py

You will see three payments: one booked, one refused, and one of which the broker has to ask how
it ended; on your cluster (NAMESRV_ADDR) in a minute or so, else by a clock that is moved.
"""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack

from flintmq import EmbeddedBroker, Message, PushConsumer, TransactionProducer, TransactionState
from flintmq.model.message import ReceivedMessage

booked: set[str] = set()  # yours is a table in a database


def book(message: Message, _transaction_id: str) -> TransactionState:
    """The local work.  It runs when the message is safe and nobody sees it yet."""
    payment = message.body.decode()
    if payment == "p-2":
        print(f"{payment}: no money, rolled back")
        return TransactionState.ROLLBACK
    booked.add(payment)
    print(f"{payment}: booked")
    return TransactionState.UNKNOWN if payment == "p-3" else TransactionState.COMMIT


def look_up(message: ReceivedMessage) -> TransactionState:
    """What the broker asks, in any process of the group, maybe more than once."""
    payment = message.body.decode()
    print(f"{payment}: the broker asks, and it was booked: {payment in booked}")
    return TransactionState.COMMIT if payment in booked else TransactionState.ROLLBACK


if __name__ == "__main__":
    seen: set[str] = set()
    both = threading.Event()

    def arrived(messages: tuple[ReceivedMessage, ...]) -> None:
        seen.update(message.body.decode() for message in messages)
        if {"p-1", "p-3"} <= seen:
            both.set()

    with ExitStack() as stack:
        broker = None if "NAMESRV_ADDR" in os.environ else stack.enter_context(EmbeddedBroker())
        address = os.environ["NAMESRV_ADDR"] if broker is None else broker.namesrv
        consumer = PushConsumer("receipts", arrived, namesrv=address, start_from="first")
        stack.enter_context(consumer.subscribe("payments"))
        producer = stack.enter_context(TransactionProducer("bank", look_up, namesrv=address))
        for each in ("p-1", "p-2", "p-3"):
            producer.send_in_transaction(Message("payments", each.encode()), book)
        if broker is not None:
            broker.advance(60)
        both.wait(90)
    print(f"seen: {', '.join(sorted(seen))}")
