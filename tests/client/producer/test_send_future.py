"""The future of a send behaves as any other, whenever somebody begins to look at it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, InvalidStateError, as_completed, wait

import pytest

from flintmq.client.producer.send_future import SendFuture
from flintmq.core.producer.receipt import SendReceipt, SendStatus
from flintmq.model.queue import QueueOffset, QueueRef

RECEIPT = SendReceipt(SendStatus.OK, "ID", "PLACE", QueueRef("t", "b", 0), QueueOffset(1))
WAIT_S = 60


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
    waiter = threading.Thread(target=lambda: found.append(future.result(WAIT_S)))
    waiter.start()

    future.settle(RECEIPT)
    waiter.join(WAIT_S)

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


@pytest.mark.parametrize("is_early", [False, True])
def test_the_functions_of_the_library_take_it(is_early: bool) -> None:
    """`wait`, `as_completed` and `wrap_future` read fields of a future that are not public."""

    def ended_with(look: Callable[[SendFuture], SendReceipt]) -> SendReceipt:
        future = SendFuture()
        if is_early:
            future.settle(RECEIPT)
            return look(future)
        timer = threading.Timer(0, future.settle, [RECEIPT])
        timer.start()
        try:
            return look(future)
        finally:
            timer.join(WAIT_S)

    async def awaited(future: SendFuture) -> SendReceipt:
        return await asyncio.wait_for(asyncio.wrap_future(future), WAIT_S)

    assert ended_with(lambda each: wait([each], WAIT_S).done.pop().result()) is RECEIPT
    assert ended_with(lambda each: next(as_completed([each], WAIT_S)).result()) is RECEIPT
    assert ended_with(lambda each: asyncio.run(awaited(each))) is RECEIPT


@pytest.mark.parametrize("outcome", [RECEIPT, OSError("gone")])
def test_nothing_tells_it_from_a_plain_future(outcome: SendReceipt | OSError) -> None:
    """Whatever fields a future of this Python has, this one has them, with the same values."""
    plain, ours = Future[SendReceipt](), SendFuture()
    ours.settle(outcome)
    if isinstance(outcome, OSError):
        plain.set_exception(outcome)
    else:
        plain.set_result(outcome)

    assert ours.done()
    for name, value in vars(plain).items():
        found = getattr(ours, name)
        assert type(found) is type(value), name
        assert found == value or not isinstance(value, (str, list, type(None))), name
    with pytest.raises(InvalidStateError):
        ours.set_result(RECEIPT)
    assert not hasattr(ours, "no_such_attribute")


def test_threads_that_look_first_at_once_see_it_ended() -> None:
    """A send that has ended is never seen as one that has not, whoever looks meanwhile."""
    seen: list[bool] = []
    count = 4
    barrier = threading.Barrier(count)
    futures = [SendFuture() for _ in range(200)]
    for each in futures:
        each.settle(RECEIPT)

    def look() -> None:
        barrier.wait(WAIT_S)
        seen.extend(each.done() and each.result(0) is RECEIPT for each in futures)

    threads = [threading.Thread(target=look) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)

    assert seen == [True] * (count * len(futures))
