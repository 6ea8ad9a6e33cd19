"""Servers that start, or come back, while a job already asks for them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.net.address import Address

LATE_S = 60.0


def free_address() -> Address:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return Address("127.0.0.1", taken.getsockname()[1])


@contextmanager
def started_after(
    asked: threading.Event, namesrv: Address, prepare: Callable[[EmbeddedBroker], object]
) -> Iterator[None]:
    """Servers that start once an event is set, on another thread, and end with the block."""
    done = threading.Event()

    def serve() -> None:
        assert asked.wait(LATE_S)
        with EmbeddedBroker(namesrv_listen=namesrv) as servers:
            prepare(servers)
            assert done.wait(LATE_S)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        asked.set()
        done.set()
        thread.join()


@contextmanager
def back_after(warned: Callable[[], bool], servers: EmbeddedBroker, broker: str) -> Iterator[None]:
    """A broker that is down, and comes back once somebody has missed it."""
    servers.stop_broker(broker)
    ended = threading.Event()

    def restart() -> None:
        while not warned() and not ended.wait(0.05):
            pass
        servers.start_broker(broker)

    thread = threading.Thread(target=restart)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
