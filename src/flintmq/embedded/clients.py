"""Clients of an embedded broker, which go by its clock.

Each gets a timing of its own; `EmbeddedBroker.advance` moves them all.  They are the clients a
program uses, not started yet: ``with`` starts and stops them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Unpack
from weakref import WeakSet

from flintmq.client.admin import Admin
from flintmq.client.engine.client_config import ClientSettings
from flintmq.client.engine.setting_names import renamed
from flintmq.client.producer.producer_settings import ProducerSettings
from flintmq.client.producer.threaded_producer import Producer, TransactionProducer
from flintmq.client.producer.transaction_producer import Check
from flintmq.client.pull.pull_settings import LitePullSettings, PullConsumerSettings
from flintmq.client.pull.threaded_pull import LitePullConsumer, PullConsumer
from flintmq.client.push.listeners import Listener
from flintmq.client.push.push_settings import PushSettings
from flintmq.client.push.threaded_push import PushConsumer
from flintmq.client.run_app import App
from flintmq.embedded.clock import MovableTiming


class EmbeddedClients(ABC):
    """What makes clients for servers that are somewhere.  Settings are those of each client."""

    def __init__(self) -> None:
        self._timings: WeakSet[MovableTiming] = WeakSet()
        self._timings_lock = Lock()
        self._ahead_ms = 0

    @property
    @abstractmethod
    def namesrv(self) -> str:
        """Where the name servers are."""

    @property
    def settings(self) -> ClientSettings:
        """What any one client is given to be here: ``PushConsumer("g", **broker.settings)``."""
        settings: ClientSettings = {}
        self._complete(settings)
        return settings

    def producer(self, group: str, **settings: Unpack[ProducerSettings]) -> Producer:
        self._complete(settings)
        return Producer(group, **settings)

    def transaction_producer(
        self, group: str, check: Check, **settings: Unpack[ProducerSettings]
    ) -> TransactionProducer:
        self._complete(settings)
        return TransactionProducer(group, check, **settings)

    def push_consumer(
        self, group: str, listener: Listener | None = None, **settings: Unpack[PushSettings]
    ) -> PushConsumer:
        self._complete(settings)
        return PushConsumer(group, listener, **settings)

    consumer = renamed("consumer", push_consumer)

    def lite_pull_consumer(
        self, group: str, **settings: Unpack[LitePullSettings]
    ) -> LitePullConsumer:
        self._complete(settings)
        return LitePullConsumer(group, **settings)

    lite_consumer = renamed("lite_consumer", lite_pull_consumer)

    def pull_consumer(self, group: str, **settings: Unpack[PullConsumerSettings]) -> PullConsumer:
        self._complete(settings)
        return PullConsumer(group, **settings)

    def admin(self) -> Admin:
        return Admin(**self.settings)

    @contextmanager
    def running(self, app: App) -> Iterator[PushConsumer]:
        """Run the listeners of an app on threads, as a member of its group.

        The app is told where we are, in place of the name server it knew.
        """
        app.use(**self.settings)
        with app.consumer() as consumer:
            yield consumer

    def _complete(self, settings: ClientSettings) -> None:
        with self._timings_lock:
            timing = MovableTiming(self._ahead_ms)
            self._timings.add(timing)
        settings["namesrv"], settings["_timing"] = self.namesrv, timing

    def _advance_clients(self, delta_ms: int) -> None:
        with self._timings_lock:
            self._ahead_ms += delta_ms
            timings = list(self._timings)
        for timing in timings:
            timing.advance(delta_ms)
