"""Test a program that consumes, with a real broker and without waiting.

    python examples/test_with_pytest.py       or       pytest examples/test_with_pytest.py

You will see three tests pass in a second, though a retry takes ten: the broker's clock is moved.
"""

from __future__ import annotations

import subprocess
import sys

from flintmq import App, DeadLetter, EmbeddedBroker, Message, ReceivedMessage

app = App("billing", start_from="first", retry_max=2)  # yours is in a module of its own
billed: list[bytes] = []
bank = {"is_open": True}


@app.listener("orders")
def bill(messages: tuple[ReceivedMessage, ...]) -> None:
    for message in messages:
        if not message.body.startswith(b"o-"):
            raise DeadLetter("no order")  # never again
        if not bank["is_open"]:
            raise ConnectionError("the bank does not answer")  # comes again later
        billed.append(message.body)


def order(broker: EmbeddedBroker, body: bytes) -> None:
    with broker.producer("shop") as shop:
        shop.send(Message("orders", body))


def test_an_order_is_billed(flintmq_broker: EmbeddedBroker) -> None:
    with flintmq_broker.running(app):
        order(flintmq_broker, b"o-1")
        flintmq_broker.wait_for(lambda: billed == [b"o-1"])


def test_an_order_is_billed_when_the_bank_is_back(flintmq_broker: EmbeddedBroker) -> None:
    with flintmq_broker.running(app):
        bank["is_open"] = False
        order(flintmq_broker, b"o-2")
        flintmq_broker.wait_for(lambda: flintmq_broker.delayed() == 1)
        bank["is_open"] = True
        flintmq_broker.advance(10)  # the first retry comes after ten seconds
        flintmq_broker.wait_for(lambda: billed == [b"o-1", b"o-2"])


def test_what_is_no_order_is_a_dead_letter(flintmq_broker: EmbeddedBroker) -> None:
    with flintmq_broker.running(app):
        order(flintmq_broker, b"nonsense")
        flintmq_broker.wait_for(lambda: flintmq_broker.messages("%DLQ%billing"))


if __name__ == "__main__":
    sys.exit(subprocess.call([sys.executable, "-m", "pytest", "-q", __file__]))
