"""The clients of the proxy: what they are, what they want, and when they were last heard of.

    settings ──► known ──heartbeat, settings──► known
                   └──termination, or nothing heard for `SILENT_MS`──► forgotten

A stream that breaks does not end a client: it comes back with the same id.  Where access control
is on, a client id belongs to the account that used it first, while the client is known.

Invariant: brokers know a group while it has a client here, and no longer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.engine.members import TransactionCheck
from flintmq.errors import Overloaded
from flintmq.model.group import ConsumeType
from flintmq.model.message import ReceivedMessage
from flintmq.protocol.bodies.client import Subscription
from flintmq.protocol.bodies.client_call import DirectResult
from flintmq.proxy.tables.group_members import SharedConsumer, TopicProducers
from flintmq.proxy.tables.telemetry_outbox import TelemetryOutbox
from flintmq.proxy.wire.caller import Caller
from flintmq.proxy.wire.grpc_codes import ClientType, Code
from flintmq.proxy.wire.statuses import StatusRefusal

SILENT_MS: Final = 120_000
"""A client that was not heard of for so long has gone, as RocketMQ's proxy has it."""

CLIENTS_MAX: Final = 10_000
"""Clients known at once."""

ADDRESS_CLIENTS_MAX: Final = CLIENTS_MAX // 2
"""Those of one address, so that nobody takes the place of all others."""

TOPICS_MAX: Final = 1_000
"""Topics of one client."""


@dataclass(slots=True, eq=False)
class ProxyClient:
    """One client that told its settings."""

    client_id: str
    kind: ClientType
    owner: str | None
    """The account it belongs to, where there are accounts."""
    seen_ms: int
    host: str = ""
    """The address it first came from."""
    group: str = ""
    """Of a consumer."""
    topics: frozenset[str] = frozenset()
    """Of a producer."""
    wishes: tuple[Subscription, ...] = ()
    outbox: TelemetryOutbox | None = None
    halves_of: frozenset[str] = field(default=frozenset())
    """Topics whose half messages it may be asked about."""


class ProxyClients:
    """All clients by id.

    ``check`` hears of half messages whose producers are to be asked, ``verify`` of messages that a
    client of a group is to be given.
    """

    def __init__(
        self,
        engine: ClientEngine,
        check: Callable[[str, TransactionCheck], None],
        verify: Callable[[str, ReceivedMessage], Awaitable[DirectResult]],
    ) -> None:
        self._engine = engine
        self._check = check
        self._verify = verify
        self._clients: dict[str, ProxyClient] = {}
        self._consumers: dict[str, SharedConsumer] = {}
        self._hosts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._clients)

    def find(self, client_id: str) -> ProxyClient | None:
        return self._clients.get(client_id)

    def require(self, caller: Caller) -> ProxyClient:
        """The client that calls; `StatusRefusal` where its settings are unknown."""
        client = self._clients.get(caller.client_id)
        if client is None:
            text = "cannot find client settings for this client"
            raise StatusRefusal(Code.UNRECOGNIZED_CLIENT_TYPE, text)
        self._check_owner(client, caller)
        return client

    def seen(self, caller: Caller) -> ProxyClient:
        """A heartbeat came."""
        client = self.require(caller)
        client.seen_ms = self._engine.clock()
        return client

    def tell(
        self,
        caller: Caller,
        kind: ClientType,
        *,
        group: str = "",
        topics: frozenset[str] = frozenset(),
        halves_of: frozenset[str] = frozenset(),
        wishes: Iterable[Subscription] = (),
    ) -> ProxyClient:
        """Settings came, the first ones of a client or new ones."""
        client = self._clients.get(caller.client_id)
        if client is None:
            client = self._add(caller, kind)
        else:
            self._check_owner(client, caller)
        before = client.group
        client.kind, client.group, client.topics = kind, group, topics
        client.halves_of, client.wishes = halves_of, tuple(wishes)
        client.seen_ms = self._engine.clock()
        if before and before != group:
            self._consumer_left(before)
        if group:
            self._consumer_came(client)
        for topic in halves_of:
            if topic not in self._engine.members.producers:
                self._engine.add_producer(TopicProducers(topic, self._check))
        return client

    def _add(self, caller: Caller, kind: ClientType) -> ProxyClient:
        host = caller.ip
        if len(self._clients) >= CLIENTS_MAX:
            raise Overloaded("clients of this proxy", CLIENTS_MAX, "clients_max")
        if self._hosts[host] >= ADDRESS_CLIENTS_MAX:
            raise Overloaded("clients of one address", ADDRESS_CLIENTS_MAX, "address_clients_max")
        owner = None if caller.user is None else caller.user.name
        client = ProxyClient(caller.client_id, kind, owner, self._engine.clock(), host)
        self._clients[caller.client_id] = client
        self._hosts[host] += 1
        return client

    def forget(self, client: ProxyClient) -> None:
        """A client has left, or was silent for too long."""
        if self._clients.pop(client.client_id, None) is None:
            return
        self._hosts[client.host] -= 1
        if not self._hosts[client.host]:
            del self._hosts[client.host]
        if client.outbox is not None:
            client.outbox.close()
        if client.group:
            self._consumer_left(client.group)
        for topic in client.halves_of:
            known = any(topic in each.halves_of for each in self._clients.values())
            if not known and topic in self._engine.members.producers:
                self._engine.leave(self._engine.members.remove_producer(topic))

    def silent(self) -> list[ProxyClient]:
        """Clients that were not heard of for too long."""
        latest_ms = self._engine.clock() - SILENT_MS
        return [each for each in self._clients.values() if each.seen_ms < latest_ms]

    def reachable(self, *, topic: str = "", group: str = "") -> list[ProxyClient]:
        """Clients with a stream that publish to a topic in transactions, or are of a group."""
        return [
            each
            for each in self._clients.values()
            if each.outbox is not None
            and not each.outbox.is_closed
            and ((topic and topic in each.halves_of) or (group and each.group == group))
        ]

    def close_streams(self) -> None:
        for client in self._clients.values():
            if client.outbox is not None:
                client.outbox.close()

    def _check_owner(self, client: ProxyClient, caller: Caller) -> None:
        if caller.user is not None and client.owner != caller.user.name:
            text = "this client id belongs to another account"
            raise StatusRefusal(Code.UNAUTHORIZED, text)

    def _consumer_came(self, client: ProxyClient) -> None:
        shared = self._consumers.get(client.group)
        is_new = shared is None
        if shared is None:
            shared = self._consumers[client.group] = SharedConsumer(client.group, self._verify)
        before = shared.heartbeat()
        is_simple = client.kind is ClientType.SIMPLE_CONSUMER
        shared.type = ConsumeType.PULL if is_simple else ConsumeType.PUSH
        for wish in client.wishes:
            known = shared.wishes.get(wish.topic)
            if known is None or known.sub_string != wish.sub_string:
                shared.wishes[wish.topic] = wish
        if is_new:
            self._engine.add_consumer(shared)
        elif shared.heartbeat() != before:
            self._engine.spawn(self._engine.heartbeat(), "a changed subscription")

    def _consumer_left(self, group: str) -> None:
        rest = [each for each in self._clients.values() if each.group == group]
        if not rest and self._consumers.pop(group, None) is not None:
            self._engine.leave(self._engine.members.remove_consumer(group))
        elif rest:
            wanted = {wish.topic for each in rest for wish in each.wishes}
            shared = self._consumers[group]
            shared.wishes = {
                topic: wish for topic, wish in shared.wishes.items() if topic in wanted
            }
