"""How an idle stream waits for new messages: Spark itself would ask again after ten milliseconds.

Each queue has one pull that its broker holds until a message arrives, so the wait ends at once
then, and brokers get few requests meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from itertools import islice
from typing import Final, Protocol

from flintmq.arrow.reading.access import Access
from flintmq.client.engine.broker_calls import BrokerCalls
from flintmq.client.engine.client_config import ClientConfig
from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.engine.loop_thread import Lease
from flintmq.client.pull.new_messages import NewMessages
from flintmq.model.group import TOOLS_GROUP
from flintmq.model.queue import QueueOffset, QueueRef

HELD_MAX: Final = 1_024
"""Queues with a held pull: the first ones.  New messages of others are found by asking for ends."""


class IdleWait(Protocol):
    """Waits for new messages."""

    def wait(self, positions: Mapping[QueueRef, QueueOffset], timeout_s: float) -> bool:
        """Wait until a queue has a message at its position; False when time is up."""
        ...

    def close(self) -> None: ...


class IdlePulls:
    """Waits with pulls that brokers hold."""

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
            self._engine, self._new_messages = self._lease.call(self._open)
        except BaseException:
            self._lease.give_back()
            raise

    def wait(self, positions: Mapping[QueueRef, QueueOffset], timeout_s: float) -> bool:
        some = dict(islice(positions.items(), HELD_MAX))
        return self._lease.run(self._new_messages.wait(some, timeout_s))

    def close(self) -> None:
        try:
            self._lease.run(self._engine.stop())
        finally:
            self._lease.give_back()

    def _open(self) -> tuple[ClientEngine, NewMessages]:
        engine = ClientEngine(self._config, what="a waiting stream")
        engine.start()
        return engine, NewMessages(engine, BrokerCalls(engine, TOOLS_GROUP), _moved)


def _moved(_queue: QueueRef, _offset: QueueOffset) -> None:
    """Nothing to do: the extents of all queues are asked for next."""


class IdleSleep:
    """Sleeps for the whole time: nothing reports new messages of a store directory."""

    def wait(self, _positions: Mapping[QueueRef, QueueOffset], timeout_s: float) -> bool:
        threading.Event().wait(timeout_s)
        return False

    def close(self) -> None:
        """There is nothing to close."""
