"""How a stream waits while nothing is new: Spark itself would ask again after ten milliseconds.

Every queue has a pull that its broker holds until a message comes, so the wait ends at once when
there is one, and brokers hear little meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final, Protocol

from flintmq.client.engine.broker_calls import BrokerCalls
from flintmq.client.engine.client_config import ClientConfig
from flintmq.client.engine.client_engine import Engine
from flintmq.client.engine.loop_thread import Lease
from flintmq.model.group import TOOLS_GROUP
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.spark.reading.access import Access
from flintmq.spark.reading.new_messages import Arrivals

HELD_MAX: Final = 1_024
"""Queues with a pull at their broker.  News of others is found by asking."""


class Waiting(Protocol):
    """How to wait for news."""

    def wait(self, positions: Mapping[QueueRef, QueueOffset], timeout_s: float) -> bool:
        """Wait until a queue has something at its position; False when time is up."""
        ...

    def close(self) -> None: ...


class HeldPulls:
    """Waits by pulls that brokers hold."""

    def __init__(self, access: Access) -> None:
        account = access.account
        self._config = ClientConfig(
            namesrv=";".join(access.name_servers),
            access_key=None if account is None else account.access_key,
            secret_key=None if account is None else account.secret_key,
            security_token=None if account is None else account.security_token,
            tls=access.tls or False,
        )
        self._lease = Lease("a waiting stream")
        try:
            self._engine, self._arrivals = self._lease.run(self._open())
        except BaseException:
            self._lease.give_back()
            raise

    def wait(self, positions: Mapping[QueueRef, QueueOffset], timeout_s: float) -> bool:
        some = dict(sorted(positions.items())[:HELD_MAX])
        return self._lease.run(self._arrivals.wait(some, timeout_s))

    def close(self) -> None:
        try:
            self._lease.run(self._engine.stop())
        finally:
            self._lease.give_back()

    async def _open(self) -> tuple[Engine, Arrivals]:
        engine = Engine(self._config, what="a waiting stream")
        await engine.start()
        return engine, Arrivals(engine, BrokerCalls(engine, TOOLS_GROUP), _moved)


def _moved(_queue: QueueRef, _offset: QueueOffset) -> None:
    """The brokers are asked next, and say where their queues begin and end."""


class Patience:
    """Waits out its time: for a store directory, where nobody tells of news."""

    def wait(self, _positions: Mapping[QueueRef, QueueOffset], timeout_s: float) -> bool:
        threading.Event().wait(timeout_s)
        return False

    def close(self) -> None:
        """There is nothing to close."""
