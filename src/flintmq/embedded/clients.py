"""Clients of an embedded broker, which go by its clock.

Each gets a timing of its own; `EmbeddedBroker.advance` moves them all.  They are the clients a
program uses, not started yet: ``with`` starts and stops them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from secrets import token_urlsafe
from threading import Lock
from typing import TypedDict, Unpack
from weakref import WeakSet

from flintmq.client.admin import Admin
from flintmq.client.engine.client_config import ClientSettings
from flintmq.client.engine.setting_names import renamed
from flintmq.client.producer.producer_settings import ProducerSettings
from flintmq.client.producer.threaded_producer import Producer, TransactionProducer
from flintmq.client.producer.transaction_producer import Check
from flintmq.client.pull.pull_settings import LitePullSettings, PullConsumerSettings
from flintmq.client.pull.threaded_pull import LitePullConsumer, PullConsumer
from flintmq.client.push.push_settings import PushSettings
from flintmq.client.push.threaded_push import PushConsumer
from flintmq.client.run_app import App
from flintmq.client.simple.simple_settings import SimpleConsumerSettings
from flintmq.client.simple.threaded_simple import SimpleConsumer
from flintmq.core.account import Account
from flintmq.core.group.listener_results import Listener
from flintmq.embedded.account_files import INNER_USER
from flintmq.embedded.embedded_users import EmbeddedUser
from flintmq.embedded.movable_clock import MovableTiming
from flintmq.errors import InvalidSetting
from flintmq.net.tls import ClientTls


class AccountSettings(TypedDict):
    """Settings of a client that signs its requests."""

    access_key: str
    secret_key: str


class EmbeddedClients(ABC):
    """Creates clients that are connected to these servers.  Settings are those of each client."""

    def __init__(
        self, users: Sequence[EmbeddedUser] | None = None, tls: ClientTls | None = None
    ) -> None:
        self._client_tls = tls
        self._users = None if users is None else {user.name: user for user in users}
        self._inner = Account(INNER_USER, token_urlsafe(32))
        """With which servers prove themselves to each other, and `admin` to them."""
        self._timings: WeakSet[MovableTiming] = WeakSet()
        self._timings_lock = Lock()
        self._ahead_ms = 0

    @property
    @abstractmethod
    def namesrv(self) -> str:
        """The addresses of the name servers."""

    @property
    def settings(self) -> ClientSettings:
        """Settings that connect a client to these: ``PushConsumer("g", **broker.settings)``."""
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

    def simple_consumer(
        self, group: str, **settings: Unpack[SimpleConsumerSettings]
    ) -> SimpleConsumer:
        self._complete(settings)
        return SimpleConsumer(group, **settings)

    def admin(self, **settings: Unpack[ClientSettings]) -> Admin:
        """An admin; where there are accounts, a super user unless one is given."""
        if self._users is not None and "access_key" not in settings:
            settings["access_key"] = self._inner.access_key
            settings["secret_key"] = self._inner.secret_key
        self._complete(settings)
        return Admin(**settings)

    def account(self, name: str) -> AccountSettings:
        """What a client signs with as a user: ``producer("shop", **broker.account("alice"))``."""
        if self._users is None or name not in self._users:
            known = ", ".join(self._users or ()) or "none"
            raise InvalidSetting("accounts", name, f"no such user was given; there are {known}")
        return {"access_key": name, "secret_key": self._users[name].password}

    @contextmanager
    def running(self, app: App) -> Iterator[PushConsumer]:
        """Run the listeners of an app on threads, as a member of its group.

        The app uses the name server of these servers instead of its own.
        """
        app.use(**self.settings)
        with app.consumer() as consumer:
            yield consumer

    def _complete(self, settings: ClientSettings) -> None:
        with self._timings_lock:
            timing = MovableTiming(self._ahead_ms)
            self._timings.add(timing)
        settings["namesrv"], settings["_timing"] = self.namesrv, timing
        if self._client_tls is not None:
            settings.setdefault("tls", self._client_tls)

    def _advance_clients(self, delta_ms: int) -> None:
        with self._timings_lock:
            self._ahead_ms += delta_ms
            timings = list(self._timings)
        for timing in timings:
            timing.advance(delta_ms)
