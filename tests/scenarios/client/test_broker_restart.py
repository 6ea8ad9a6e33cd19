"""A restart of the only broker loses no send that has time left, whichever way it is sent.

The broker and the name server are one process, which is stopped by SIGTERM and started again at
the same addresses.  Producers have their default settings.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from flintmq import Message, Producer, PushConsumer, TransactionProducer, TransactionState, aio
from flintmq.errors import FlintError, SendFailed, Unreachable
from support.cli.serving import Served
from support.client.outages import Killed, new_topic, serving
from support.client.support import wait_for
from support.net.support import closed_port

TIMEOUT_MS = 10_000
LONG_MS = 90_000
"""Longer than a restart takes on a machine that may be very busy."""

TOPIC = "restarted"


class Restarted(Killed):
    """Stopped as a service manager stops it.  ``start_s`` is how long a start takes here."""

    start_s = 0.0

    def leave(self) -> None:
        self._served.process.terminate()
        assert self._served.process.wait(60) == 0


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Restarted]:
    with ExitStack() as stack:
        before_s = time.monotonic()
        served: Served = stack.enter_context(serving(tmp_path))
        restarted = Restarted(served, stack)
        restarted.start_s = time.monotonic() - before_s
        new_topic(restarted, TOPIC, 4)
        yield restarted


def away(servers: Restarted, seconds: float) -> None:
    """Nobody is there for about so long, the stop and the start included."""
    until_s = time.monotonic() + seconds - servers.start_s
    servers.leave()
    threading.Event().wait(max(0.0, until_s - time.monotonic()))
    servers.come_back()


class Senders:
    """Functions that send again and again, each on a thread, until they are told to stop."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self.failures: list[FlintError] = []
        self.sent = 0

    def run(self, send: Callable[[], object]) -> None:
        while not self._stop.wait(0.01):
            try:
                send()
            except FlintError as error:
                self.failures.append(error)
            else:
                self.sent += 1

    def stop(self) -> None:
        self._stop.set()


def done(message: Message, transaction_id: str) -> TransactionState:
    del message, transaction_id
    return TransactionState.COMMIT


def test_every_way_to_send_outlasts_a_restart(servers: Restarted) -> None:
    namesrv, senders, ms = servers.namesrv, Senders(), LONG_MS
    message = Message(TOPIC, b"x")
    with (  # from the last to the first: senders end, threads end, then their producers
        Producer("alone", namesrv=namesrv) as alone,
        Producer("shared", namesrv=namesrv) as shared,
        Producer("gathering", namesrv=namesrv, auto_batch=True) as gathering,
        TransactionProducer("bank", check=lambda _: None, namesrv=namesrv) as bank,
        ThreadPoolExecutor(8) as threads,
        ExitStack() as stack,
    ):
        stack.callback(senders.stop)
        ways: list[Callable[[], object]] = [
            lambda: alone.send(message, timeout_ms=ms),
            lambda: shared.send(message, timeout_ms=ms),
            lambda: shared.send(message, sharding_key="k", timeout_ms=ms),
            lambda: shared.send_async(message, timeout_ms=ms).result(),
            lambda: gathering.send_async(message, timeout_ms=ms).result(),
            lambda: shared.send_batch([message] * 3, timeout_ms=ms),
            lambda: bank.send_in_transaction(message, done, timeout_ms=ms),
            lambda: asyncio.run(send_on_a_loop(namesrv)),
        ]
        for way in ways:
            threads.submit(senders.run, way)
        wait_for(lambda: senders.sent > 50, 60)
        away(servers, 2.0)
        before = senders.sent
        wait_for(lambda: senders.sent > before + 50, 60)
        senders.stop()

    assert senders.failures == []


async def send_on_a_loop(namesrv: str) -> None:
    """A producer that is started anew each time, also while nobody is there."""
    async with aio.Producer("fresh", namesrv=namesrv) as producer:
        await producer.send(Message(TOPIC, b"x"), timeout_ms=LONG_MS)


def test_a_request_outlasts_a_restart(servers: Restarted) -> None:
    with (
        Producer("asking", namesrv=servers.namesrv) as asking,
        Producer("replying", namesrv=servers.namesrv) as replying,
    ):

        def reply(messages: tuple[object, ...]) -> None:
            for request in messages:
                replying.reply(request, b"yes")  # type: ignore[arg-type]  # what listeners get

        consumer = PushConsumer("answers", reply, namesrv=servers.namesrv, start_from="first")
        with consumer.subscribe(TOPIC), ThreadPoolExecutor(1) as threads:
            assert asking.request(Message(TOPIC, b"up?"), timeout_ms=LONG_MS).body == b"yes"
            servers.leave()
            waiting = threads.submit(asking.request, Message(TOPIC, b"up?"), timeout_ms=LONG_MS)
            servers.come_back()
            assert waiting.result().body == b"yes"


def test_a_send_whose_time_is_over_says_what_to_do(servers: Restarted) -> None:
    with Producer("shop", namesrv=servers.namesrv) as producer:
        producer.send(Message(TOPIC, b"x"))
        servers.leave()
        with pytest.raises(
            SendFailed, match=r"after \d+ tries in \d+ ms .*see that the broker runs"
        ):
            producer.send(Message(TOPIC, b"x"), timeout_ms=500)
        servers.come_back()
        producer.send(Message(TOPIC, b"x"), timeout_ms=LONG_MS)


def test_without_retries_a_send_fails_at_once() -> None:
    with (
        Producer("shop", namesrv=closed_port(), retries=0) as producer,
        pytest.raises(Unreachable),
    ):
        producer.send(Message(TOPIC, b"x"), timeout_ms=60_000)


@pytest.mark.heavy
def test_none_of_a_thousand_sends_is_lost_in_seven_seconds(servers: Restarted) -> None:
    failures: list[FlintError] = []

    def send(_number: int) -> None:
        try:
            producer.send(Message(TOPIC, b"x"), timeout_ms=TIMEOUT_MS)
        except FlintError as error:
            failures.append(error)

    def pace() -> None:
        for number in range(1_000):
            threads.submit(send, number)
            threading.Event().wait(0.01)

    with (
        Producer("shop", namesrv=servers.namesrv) as producer,
        ThreadPoolExecutor(1_000) as threads,
        ThreadPoolExecutor(1) as pacer,
    ):
        pacing = pacer.submit(pace)
        threading.Event().wait(1.0)
        away(servers, 7.0)
        pacing.result()

    assert failures == []
