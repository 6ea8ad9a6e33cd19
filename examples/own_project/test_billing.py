"""The tests of the project: `pytest` in this folder."""

import billing
import pytest

from flintmq import EmbeddedBroker, Message


def send(shop: EmbeddedBroker, *keys: str) -> None:
    with shop.producer("checkout") as producer:
        producer.send(Message("orders", b"{}", keys=keys))


def test_an_order_is_billed(shop: EmbeddedBroker) -> None:
    send(shop, "o-1")

    shop.wait_for(lambda: billing.billed == ["o-1"])


def test_an_order_is_billed_when_the_bank_answers_again(
    shop: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(billing, "charge", lambda _: 1 / 0)
        send(shop, "o-2")
        shop.wait_for(lambda: shop.delayed() == 1)

    shop.advance(10)  # the first retry comes after ten seconds

    shop.wait_for(lambda: billing.billed == ["o-2"])


def test_an_order_without_a_key_is_a_dead_letter(shop: EmbeddedBroker) -> None:
    send(shop)

    shop.wait_for(lambda: len(shop.messages("%DLQ%billing")) == 1)
