"""Brokers that go away and come back: stopped, killed or frozen, in this process or another."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from flintmq import Admin, EmbeddedBroker, Message, Producer
from flintmq.errors import FlintError
from support.cli.serving import ANYWHERE, Served, running
from support.client.support import wait_for

PATIENCE_S = 40.0
"""Everything must go on by then, on a machine that may be very busy."""

QUICK: dict[str, Any] = {
    "connect_ms": 1_000,
    "call_timeout_ms": 1_000,
    "heartbeat_ms": 200,
    "route_ms": 300,
}
"""Settings of clients that notice soon what goes on."""


class Servers(Protocol):
    """A name server and a broker that can go away."""

    @property
    def namesrv(self) -> str: ...

    def leave(self) -> None: ...

    def come_back(self) -> None: ...


class Stopped:
    """The broker stops as it should; the name server stays."""

    def __init__(self, servers: EmbeddedBroker) -> None:
        self._servers = servers
        self.namesrv = servers.namesrv

    def leave(self) -> None:
        self._servers.stop_broker("broker-a")

    def come_back(self) -> None:
        self._servers.start_broker("broker-a")


class Frozen:
    """Name server and broker are one process, which does nothing and keeps its connections."""

    def __init__(self, served: Served) -> None:
        self._process = served.process
        self.namesrv = served.namesrv

    def leave(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def come_back(self) -> None:
        self._process.send_signal(signal.SIGCONT)


class Killed:
    """Name server and broker are one process, which is killed and started anew."""

    def __init__(self, served: Served, stack: ExitStack) -> None:
        self._served = served
        self._stack = stack
        self.namesrv = served.namesrv

    def leave(self) -> None:
        self._served.process.kill()
        self._served.process.wait()

    def come_back(self) -> None:
        before = self._served
        self._served = self._stack.enter_context(
            serving(before.data, before.namesrv, before.broker)
        )


@contextmanager
def serving(data: Path, namesrv: str = ANYWHERE, broker: str = ANYWHERE) -> Iterator[Served]:
    """``flintmq serve`` in a process of its own, which says little."""
    places = ("--namesrv-listen", namesrv, "--broker-listen", broker)
    with running("serve", "--data", data, *places, "--log-level", "error") as served:
        try:
            yield served
        finally:
            if served.process.poll() is None:
                served.process.send_signal(signal.SIGCONT)  # a frozen one would not end
                served.process.terminate()
                with _late(served.process):
                    served.process.wait(60)


@contextmanager
def _late(process: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    except subprocess.TimeoutExpired:
        process.kill()


def new_topic(servers: Servers, topic: str, queues: int) -> None:
    with Admin(namesrv=servers.namesrv) as admin:
        admin.create_topic(topic, queues=queues)


def tell(servers: Servers, topic: str, bodies: list[bytes]) -> None:
    """Have these stored, however long it takes; some may be stored twice."""
    left = list(bodies)

    def sent() -> bool:
        try:
            while left:
                producer.send(Message(topic, left[0]), timeout_ms=1_000)
                del left[0]
        except FlintError:
            return False
        return True

    with Producer("tellers", namesrv=servers.namesrv, **QUICK) as producer:
        wait_for(sent, PATIENCE_S)


def patiently(condition: Callable[[], object]) -> None:
    wait_for(condition, PATIENCE_S)


def lag(servers: Servers, group: str, topic: str) -> int:
    with Admin(namesrv=servers.namesrv) as admin:
        return admin.lag(group, topic=topic).lag
