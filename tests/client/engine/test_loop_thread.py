"""One loop thread serves all clients of a process, from any thread, and ends with the last."""

from __future__ import annotations

import asyncio
import signal
import threading

import pytest

from flintmq.client.engine.loop_thread import Lease, _Errand
from flintmq.errors import WrongState
from support.client.support import client_threads, nothing_left, wait_for


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


def test_a_coroutine_runs_on_the_loop_and_its_result_comes_back() -> None:
    with nothing_left():
        lease = Lease("test")
        assert lease.run(double(4)) == 8
        assert lease.submit(double(5)).result(60) == 10
        lease.give_back()


def test_a_function_is_called_on_the_loop_and_its_result_or_error_comes_back() -> None:
    def fail() -> None:
        raise KeyError("x")

    with nothing_left():
        lease = Lease("test")
        assert lease.call(asyncio.get_running_loop) is lease.loop
        with pytest.raises(KeyError, match="x"):
            lease.call(fail)
        lease.give_back()
        with pytest.raises(WrongState, match="test is stopped"):
            lease.call(fail)


def test_all_leases_share_one_thread_that_ends_with_the_last() -> None:
    first, second = Lease("one"), Lease("two")
    assert first.loop is second.loop
    assert len(client_threads()) == 1

    first.give_back()
    first.give_back()
    assert second.run(double(1)) == 2
    second.give_back()

    assert client_threads() == set()


def test_an_error_comes_out_as_it_is() -> None:
    async def fail() -> None:
        raise KeyError("x")

    lease = Lease("test")
    with pytest.raises(KeyError, match="x"):
        lease.run(fail())
    lease.give_back()


def test_a_lease_that_was_given_back_is_of_no_use() -> None:
    lease = Lease("thing")
    lease.give_back()

    with pytest.raises(WrongState, match="thing is stopped"):
        lease.run(double(1))


def test_waiting_on_the_loop_thread_itself_is_refused() -> None:
    lease = Lease("thing")

    async def wait_inside() -> int:
        return lease.run(double(1))

    with pytest.raises(WrongState, match="this thread serves it"):
        lease.run(wait_inside())
    lease.give_back()


def test_an_interrupted_wait_cancels_what_it_waited_for() -> None:
    lease = Lease("thing")
    cancelled = threading.Event()

    async def endless() -> None:
        try:
            while True:  # a signal that comes just before Python begins to wait is not seen
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)  # as Ctrl-C
                await asyncio.sleep(2)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    with pytest.raises(KeyboardInterrupt):
        lease.run(endless())

    assert cancelled.wait(60)
    assert lease.run(double(2)) == 4
    lease.give_back()


def test_what_was_given_up_before_it_began_never_begins() -> None:
    lease = Lease("thing")
    began = threading.Event()

    async def never() -> None:
        began.set()

    errand = _Errand(never())
    errand.give_up()
    lease.loop.call_soon_threadsafe(errand.begin)

    assert lease.run(double(1)) == 2
    assert not began.is_set()
    lease.give_back()


def test_what_is_still_running_ends_with_the_thread() -> None:
    lease = Lease("thing")
    ended = threading.Event()

    async def endless() -> None:
        try:
            await asyncio.sleep(3_600)
        finally:
            ended.set()

    future = lease.submit(endless())
    lease.run(double(1))
    with nothing_left():
        pass
    lease.give_back()

    assert ended.is_set()
    wait_for(future.cancelled)
    assert client_threads() == set()
