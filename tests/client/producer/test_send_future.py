"""The future of a send behaves as any other, whenever somebody begins to look at it."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, wait

import pytest

from flintmq.client.producer.send_future import SendFuture
from flintmq.core.producer.receipt import SendReceipt, SendStatus
from flintmq.model.queue import QueueOffset, QueueRef

RECEIPT = SendReceipt(SendStatus.OK, "ID", "PLACE", QueueRef("t", "b", 0), QueueOffset(1))


@pytest.mark.parametrize("looked_at", [False, True])
def test_it_ends_with_its_receipt_or_its_error(looked_at: bool) -> None:
    well, ill = SendFuture(), SendFuture()
    if looked_at:
        assert not well.done()
        assert not ill.done()
    well.settle(RECEIPT)
    ill.settle(OSError("gone"))

    assert well.done()
    assert well.result() is RECEIPT
    assert isinstance(ill.exception(), OSError)
    assert wait([well, ill]).done == {well, ill}


def test_whoever_waits_is_woken_and_told() -> None:
    future, told = SendFuture(), []
    future.add_done_callback(lambda each: told.append(each.result()))
    found: list[SendReceipt] = []
    waiter = threading.Thread(target=lambda: found.append(future.result(60)))
    waiter.start()

    future.settle(RECEIPT)
    waiter.join(60)

    assert found == told == [RECEIPT]


def test_one_that_was_cancelled_stays_so() -> None:
    future = SendFuture()
    assert future.cancel()
    future.settle(RECEIPT)

    with pytest.raises(CancelledError):
        future.result(0)
    ended = SendFuture()
    ended.settle(RECEIPT)
    assert not ended.cancel()
