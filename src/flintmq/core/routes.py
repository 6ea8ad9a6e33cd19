"""Where topics are: what name servers said, and which broker address follows from it.

`Routes` remembers; `ask_name_servers` and `fetch_route` ask.  Name servers are asked one after
the other, starting with the one that answered last.  An answer, even "no such topic", ends the
asking; only a name server that gives none is passed over.

    unknown ──fetched──► known ──changed──► known anew
       └──no such topic──► borrowed: queues of the template that new topics are made of

A topic that a name server no longer knows keeps its last route: a name server that was just
started knows nothing, and brokers say themselves when a topic is deleted.

Invariant: an address is known only while the route of some topic names it, once `clean` ran.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from flintmq.core.conversation import Call, Conversation
from flintmq.errors import BrokerRefused, FlintError, NoRoute, Overloaded, Unreachable
from flintmq.model.group import is_retry_topic
from flintmq.model.queue import QueueRef
from flintmq.model.route import MASTER_ID, Route
from flintmq.model.topic import AUTO_CREATE_TOPIC
from flintmq.protocol.bodies.route import TopicRoute
from flintmq.protocol.bodies.topic import TopicList
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.headers.route import RouteOf

TOPICS_MAX: Final = 10_000
"""Topics one client asks its name servers for again and again."""

BORROWED_QUEUES_MAX: Final = 4
"""Queues of a topic that is made by its first message, as producers ask for them."""

BORROWED_RETRY_QUEUES: Final = 1
"""Queues that a retry topic surely has: brokers make it themselves, with one by default."""


class NameServers:
    """The addresses, and which of them answered last."""

    def __init__(self, addresses: Sequence[str]) -> None:
        assert addresses
        self.addresses = tuple(addresses)
        self._first = 0

    def in_turn(self) -> Iterator[str]:
        """Every address once, the one that answered last in front."""
        for step in range(len(self.addresses)):
            yield self.addresses[(self._first + step) % len(self.addresses)]

    def answered(self, address: str) -> None:
        self._first = self.addresses.index(address)


def ask_name_servers(
    servers: NameServers, question: Command, timeout_ms: int
) -> Conversation[Command]:
    """The first answer any of them gives, whatever its code; the last error when none does.

    ``timeout_ms`` is for each of them.
    """
    failure: FlintError | None = None
    for address in servers.in_turn():
        try:
            answer = yield Call(address, question, timeout_ms)
        except FlintError as error:
            failure = error
            continue
        servers.answered(address)
        return answer
    assert failure is not None
    raise failure


def fetch_route(servers: NameServers, topic: str, timeout_ms: int) -> Conversation[Route | None]:
    """The route of a topic, or None where the name server knows none."""
    question = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, RouteOf(topic=topic))
    try:
        answer = yield from ask_name_servers(servers, question, timeout_ms)
    except Unreachable as error:
        reason = f"{error.reason} (asking for the route of {topic!r})"
        raise Unreachable(error.address, reason) from None
    if answer.code == ResponseCode.TOPIC_NOT_EXIST:
        return None
    _require_name_server(answer, servers)
    return TopicRoute.from_body(answer.body).to_route()


def fetch_topic_names(servers: NameServers, timeout_ms: int) -> Conversation[tuple[str, ...]]:
    """The names of all topics (GET_ALL_TOPIC_LIST_FROM_NAMESERVER, 206)."""
    question = request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    answer = yield from ask_name_servers(servers, question, timeout_ms)
    _require_name_server(answer, servers)
    return TopicList.from_body(answer.body).topic_list


def _require_name_server(answer: Command, servers: NameServers) -> None:
    """Raise what another answer than success means."""
    if answer.code == ResponseCode.SUCCESS:
        return
    address, remark = next(servers.in_turn()), answer.remark or ""
    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        remark = is_a_broker(address)
    raise BrokerRefused(answer.code, remark, address)


def is_a_broker(address: str) -> str:
    """What to say where a server does not know a request that every name server knows."""
    return (
        f"{address} is a broker, not a name server: give the address of a name server as namesrv; "
        "name servers listen on port 9876 by default, brokers on 10911"
    )


class FoundRoute(NamedTuple):
    """The address of a broker, and which of its replicas listens there."""

    address: str
    broker_id: int

    @property
    def is_slave(self) -> bool:
        return self.broker_id != MASTER_ID


class Routes:
    """What is known of topics and brokers."""

    def __init__(self, topics_max: int = TOPICS_MAX) -> None:
        self._topics_max = topics_max
        self._routes: dict[str, Route] = {}
        self._borrowed: dict[str, Route] = {}
        self._publish: dict[str, tuple[QueueRef, ...]] = {}
        self._brokers: dict[str, dict[int, str]] = {}

    def __repr__(self) -> str:
        return f"<Routes of {len(self._routes)} topics, {len(self._brokers)} brokers>"

    @property
    def topics(self) -> list[str]:
        """Every topic that was asked for, with a route of its own or not."""
        return [*self._routes, *(topic for topic in self._borrowed if topic not in self._routes)]

    def find(self, topic: str) -> Route | None:
        return self._routes.get(topic)

    def update(self, topic: str, route: Route) -> bool:
        """Remember a route; whether it differs from what was known."""
        before = self._routes.get(topic)
        if before is None and topic not in self._borrowed:
            self._check_room()
        for replicas in route.brokers:
            self._brokers[replicas.broker] = dict(replicas.addresses)
        if before is not None and _sorted(before) == _sorted(route):
            return False
        self._routes[topic] = route
        self._borrowed.pop(topic, None)
        self._publish[topic] = tuple(route.publish_queues(topic))
        return True

    def borrow(self, topic: str, template: Route) -> None:
        """Let a topic that is not known be sent to where the template topic is."""
        if topic in self._routes:
            return
        if topic not in self._borrowed:
            self._check_room()
        for replicas in template.brokers:
            self._brokers[replicas.broker] = dict(replicas.addresses)
        count_max = BORROWED_RETRY_QUEUES if is_retry_topic(topic) else BORROWED_QUEUES_MAX
        self._borrowed[topic] = lent = replace(
            template,
            queues=tuple(
                replace(counts, read_count=count, write_count=count)
                for counts in template.queues
                for count in (min(count_max, counts.read_count),)
            ),
        )
        self._publish[topic] = tuple(lent.publish_queues(topic))

    def forget(self, topic: str) -> None:
        self._routes.pop(topic, None)
        self._borrowed.pop(topic, None)
        self._publish.pop(topic, None)

    def publish_queues(self, topic: str) -> tuple[QueueRef, ...] | None:
        """Queues a producer may choose from; None while nothing is known of the topic."""
        return self._publish.get(topic)

    def address(self, broker: str) -> str | None:
        """Where the master of a broker listens."""
        replicas = self._brokers.get(broker)
        return None if replicas is None else replicas.get(MASTER_ID)

    def brokers_of(self, broker: str) -> dict[int, str]:
        """The addresses of one broker by id; empty when it is unknown."""
        return self._brokers.get(broker, {})

    def locate(
        self, broker: str, broker_id: int = MASTER_ID, *, only: bool = False
    ) -> FoundRoute | None:
        """Where to reach a replica; without ``only`` the next one, or any, stands in for it."""
        replicas = self._brokers.get(broker)
        if not replicas:
            return None
        if broker_id in replicas:
            return FoundRoute(replicas[broker_id], broker_id)
        if broker_id != MASTER_ID and broker_id + 1 in replicas:
            return FoundRoute(replicas[broker_id + 1], broker_id + 1)
        if only:
            return None
        other = min(replicas)
        return FoundRoute(replicas[other], other)

    def some_address(self, topic: str, pick: int) -> str | None:
        """A broker of the topic, the ``pick``-th modulo their number: master first, else a slave.

        For questions that any broker of a topic can answer.
        """
        route = self._routes.get(topic) or self._borrowed.get(topic)
        if route is None or not route.brokers:
            return None
        addresses = route.brokers[pick % len(route.brokers)].addresses
        if not addresses:
            return None
        if MASTER_ID in addresses:
            return addresses[MASTER_ID]
        return addresses[sorted(addresses)[pick % len(addresses)]]

    @property
    def masters(self) -> list[str]:
        """The addresses of all masters."""
        return [ids[MASTER_ID] for ids in self._brokers.values() if MASTER_ID in ids]

    @property
    def addresses(self) -> list[str]:
        """The addresses of all replicas."""
        return [address for ids in self._brokers.values() for address in ids.values()]

    @property
    def brokers(self) -> dict[str, dict[int, str]]:
        """Addresses by broker name and id."""
        return {broker: dict(ids) for broker, ids in self._brokers.items()}

    def clean(self) -> list[str]:
        """Forget addresses that no route names any more; which ones."""
        routes = (*self._routes.values(), *self._borrowed.values())
        named = {
            (replicas.broker, address)
            for route in routes
            for replicas in route.brokers
            for address in replicas.addresses.values()
        }
        gone: list[str] = []
        for broker, ids in list(self._brokers.items()):
            for broker_id, address in list(ids.items()):
                if (broker, address) not in named:
                    del ids[broker_id]
                    gone.append(address)
            if not ids:
                del self._brokers[broker]
        return gone

    def _check_room(self) -> None:
        if len(self._routes) + len(self._borrowed) >= self._topics_max:
            raise Overloaded("topics of one client", self._topics_max, "topics_max")


def no_route(topic: str, *, name_servers: Sequence[str]) -> NoRoute:
    """Why a topic cannot be sent to, for people."""
    asked = ";".join(name_servers)
    return NoRoute(
        topic,
        f"the name server ({asked}) knows neither it nor {AUTO_CREATE_TOPIC}, "
        "so no broker makes it by itself; create the topic first",
    )


def _sorted(route: Route) -> Route:
    """A route in an order that does not depend on which name server sent it."""
    return Route(
        brokers=tuple(sorted(route.brokers, key=lambda replicas: replicas.broker)),
        queues=tuple(sorted(route.queues, key=lambda counts: counts.broker)),
        order=route.order,
    )
