"""What every client lives on: connections, routes, heartbeats, and the questions of brokers.

Each client object has one `ClientEngine`, on the loop it was started on.  It decides nothing
about sending or consuming: producers and consumers are its members (`client.engine.members`).

    engine = Engine(ClientConfig(namesrv="127.0.0.1:9876"))
    engine.add_consumer(member)             before or after the start
    engine.start()                          touches no network; a wrong setting raises
    route = await engine.route("orders")    asked once, then kept fresh
    found = engine.locate("broker-a", 1)    Found(address, broker_id), or None
    answer = await engine.call(found.address, request, timeout_ms)
    result = await engine.hold(conversation)
    await engine.heartbeat()                at once, to every broker
    await engine.stop()                     unregisters, closes, leaves nothing behind

Routes are refreshed every ``route_ms`` and soon after `doubt_route`; whoever has to know of a
change gives a function to `on_route_change`.  The first call on a new connection to a broker is
preceded by a heartbeat, so a broker that was restarted knows us before it serves us.

Every request passes the hooks and then the account's signature.

Invariant: after `stop`, and after a `start` that failed, no task and no descriptor is left.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from flintmq.client.engine.broker_requests import Served
from flintmq.client.engine.client_config import ClientConfig
from flintmq.client.engine.client_id import client_id as make_client_id
from flintmq.client.engine.connections import Links, quietly
from flintmq.client.engine.event_log import EventLog
from flintmq.client.engine.lifecycle import Life, State
from flintmq.client.engine.members import ConsumerMember, Members, ProducerMember
from flintmq.core.conversation import Call, PausingConversation
from flintmq.core.routes import FoundRoute, NameServers, Routes, fetch_route, no_route
from flintmq.errors import FlintError, NoRoute
from flintmq.logs import logger
from flintmq.model.group import with_namespace, without_namespace
from flintmq.model.queue import QueueRef
from flintmq.model.route import MASTER_ID, Route
from flintmq.model.topic import AUTO_CREATE_TOPIC
from flintmq.net.channels.channel_pool import Channels
from flintmq.net.clock import monotonic_ms
from flintmq.net.drive import drive_async
from flintmq.protocol.command import Command

log = logger(__name__)

T = TypeVar("T")

DOUBT_MS: Final = 1_000
"""A route that failed is asked for again after this time at the earliest."""

UNREGISTER_MS: Final = 3_000
"""How long leaving a broker may take; it notices the closed connection anyway."""


class ClientEngine:
    """The engine of one client.  Other threads reach it by `client.engine.loop_thread`."""

    def __init__(
        self,
        config: ClientConfig,
        *,
        what: str = "client",
        stream: bool = False,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.config = config
        self.client_id = make_client_id(
            ip=config.client_ip,
            instance_name=config.instance_name,
            unit_name=config.unit_name,
            stream=stream,
        )
        self.timing = config.timing
        self.events = EventLog(self.timing.wall)
        self.routes = Routes()
        self.members = Members(self.client_id)
        self.clock = self.timing.clock
        """Milliseconds that only go forward."""
        self.wall = self.timing.wall
        """Milliseconds since 1970."""
        self.stopwatch = monotonic_ms
        """Milliseconds that no test moves: what calls are timed by."""
        self.chance = chance
        self.life = Life(what)
        self._name_servers: NameServers
        self.links: Links
        self.loop: asyncio.AbstractEventLoop
        """Where it was started."""
        self._keepers: list[asyncio.Task[None]] = []
        self._fetching: dict[str, asyncio.Task[Route | None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._doubted: set[str] = set()
        self._doubt = asyncio.Event()
        self._listeners: list[Callable[[str, Route], None]] = []

    def __repr__(self) -> str:
        return f"<Engine {self.client_id}, {self.state}>"

    @property
    def state(self) -> State:
        return self.life.state

    # Life

    def start(self) -> None:
        """Begin, on the running loop."""
        self.life.begin()
        self.loop = asyncio.get_running_loop()
        try:
            self._name_servers = NameServers(self.config.name_servers)
            self.members.come_alive()
            channels = Channels(
                tls=self.config.client_tls,
                handler=Served(self.members, self.events, self.spawn),
                connect_ms=self.config.connect_ms,
                chance=self.chance,
            )
        except BaseException:
            self.members.die()
            self.life.failed()
            raise
        self.links = Links(
            channels,
            introduction=self._introduction,
            account=self.config.account,
            hooks=self.config.request_hooks,
            events=self.events,
            clock=self.stopwatch,
        )
        self.life.succeeded()
        self._keepers = [
            self.spawn(self._keep_routes(), "routes"),
            self.spawn(self._keep_beating(), "heartbeats"),
        ]

    async def stop(self) -> None:
        """Leave every broker and close all.  It may be called in any state, and twice."""
        was_running = self.life.end()
        for keeper in self._keepers:  # at once: leaving takes time, and they would find us stopped
            keeper.cancel()
        try:
            if was_running:
                await self._unregister(self.members.farewells())
        finally:
            self.members.die()
            if was_running:
                tasks = [task for task in self._tasks if task is not asyncio.current_task()]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await self.links.close()

    def spawn(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Run something until it ends or the engine stops.  What it raises is logged."""
        task = asyncio.get_running_loop().create_task(work, name=f"flintmq {name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    # Members

    def add_producer(self, member: ProducerMember) -> None:
        self.members.add_producer(member)
        self._member_added()

    def add_consumer(self, member: ConsumerMember) -> None:
        self.members.add_consumer(member)
        self._member_added()

    def leave(self, farewell: Command) -> None:
        """Tell brokers that a member left, which `members` has removed already."""
        self.spawn(self._unregister([farewell]), "leaving a group")

    # Names

    def wire_name(self, name: str) -> str:
        """A topic or group as it travels: with the namespace."""
        return with_namespace(self.config.namespace, name)

    def user_name(self, name: str) -> str:
        """A topic or group as the user knows it."""
        return without_namespace(self.config.namespace, name)

    # Calls

    async def call(self, address: str, request: Command, timeout_ms: int | None = None) -> Command:
        """Ask the peer at an address; its answer, whatever its code says, or `Unreachable`."""
        self.life.require_running()
        return await self.links.call(address, request, timeout_ms or self.config.call_timeout_ms)

    async def send_oneway(
        self, address: str, request: Command, timeout_ms: int | None = None
    ) -> None:
        """Send a oneway request."""
        self.life.require_running()
        await self.links.send_oneway(address, request, timeout_ms or self.config.call_timeout_ms)

    def make(self, call: Call) -> Awaitable[Command]:
        """Carry out one call of a conversation."""
        self.life.require_running()
        return self.links.make(call)

    def hold(self, conversation: PausingConversation[T]) -> Coroutine[Any, Any, T]:
        """Hold a conversation to its end."""
        self.life.require_running()
        return drive_async(conversation, self.links.make)

    @property
    def name_servers(self) -> tuple[str, ...]:
        """The addresses that were given."""
        return self.config.name_servers

    # Routes.  Topics are wire names here.

    async def route(self, topic: str) -> Route:
        """Brokers and queues of a topic; `NoRoute` when the name server knows none."""
        self.life.require_running()
        known = self.routes.find(topic)
        if known is not None:
            return known
        fetched = await self._fetch(topic)
        if fetched is None:
            raise NoRoute(topic, f"the name server ({';'.join(self.name_servers)}) knows none")
        return fetched

    async def publish_queues(self, topic: str) -> tuple[QueueRef, ...]:
        """Queues a producer may choose from, of the topic or of what it will be made like."""
        self.life.require_running()
        queues = self.routes.publish_queues(topic)
        if queues is None:
            if await self._fetch(topic) is None:
                template = await self._fetch(AUTO_CREATE_TOPIC)
                if template is None:
                    raise no_route(topic, name_servers=self.name_servers)
                self.routes.borrow(topic, template)
            queues = self.routes.publish_queues(topic)
        if not queues:
            self.doubt_route(topic)
            raise NoRoute(topic, "it has no queue that may be written and whose master is there")
        return queues

    async def subscribe_queues(self, topic: str) -> list[QueueRef]:
        """Queues that consumers share out, in the order all members must use."""
        return (await self.route(topic)).subscribe_queues(topic)

    async def refresh_route(self, topic: str) -> Route | None:
        """Ask the name server now; None when it knows none."""
        self.life.require_running()
        return await self._fetch(topic)

    def doubt_route(self, topic: str) -> None:
        """Ask the name server soon: something failed, perhaps because the route is old."""
        self._doubted.add(topic)
        self._doubt.set()

    def on_route_change(self, listener: Callable[[str, Route], None]) -> None:
        """Have ``listener(topic, route)`` called whenever a route is new or differs."""
        self._listeners.append(listener)

    def locate(
        self, broker: str, broker_id: int = MASTER_ID, *, only: bool = False
    ) -> FoundRoute | None:
        """Where a replica is; without ``only`` another one may stand in for it."""
        return self.routes.locate(broker, broker_id, only=only)

    def address_of(self, broker: str, broker_id: int = MASTER_ID) -> str | None:
        """The address of exactly this replica."""
        return self.routes.brokers_of(broker).get(broker_id)

    async def some_broker(self, topic: str) -> str:
        """The address of any broker of a topic, chosen by chance."""
        await self.route(topic)
        address = self.routes.some_address(topic, int(self.chance() * 1_000_000))
        if address is None:
            raise NoRoute(topic, "no broker of it has an address")
        return address

    # Heartbeats

    async def heartbeat(self) -> dict[str, FlintError]:
        """Tell every broker of our members now; what went wrong, by address."""
        self.life.require_running()
        addresses = list(dict.fromkeys(self._audience()))
        outcomes = await asyncio.gather(*map(self.links.beat, addresses))
        told = zip(addresses, outcomes, strict=True)
        return {address: error for address, error in told if error is not None}

    async def meet_brokers(self) -> None:
        """Connect to every known broker, so that each of them knows us."""
        unmet = [address for address in self._audience() if not self.links.is_known_to(address)]
        await asyncio.gather(*map(self.links.beat, dict.fromkeys(unmet)))

    def known_version(self, address: str) -> int | None:
        """The version of a broker by its last heartbeat answer; None before the first."""
        return self.links.versions.get(address)

    async def version_of(self, address: str) -> int | None:
        """The version of a broker, asked by a heartbeat if not known; None where it says none."""
        if address not in self.links.versions:
            error = await self.links.beat(address)
            if error is not None:
                raise error
        return self.links.versions.get(address)

    # Inside

    def _audience(self) -> list[str]:
        """The addresses that get heartbeats: masters, and slaves too if there are consumers."""
        return self.routes.addresses if self.members.consumers else self.routes.masters

    def _introduction(self, address: str) -> bytes | None:
        if not self.members or address not in self._audience():
            return None
        return self.members.heartbeat().to_body()

    async def _unregister(self, farewells: Sequence[Command]) -> None:
        """Tell every broker we are connected to that members leave."""
        audience = set(self._audience())
        await asyncio.gather(
            *(
                quietly(self.links.call(address, farewell, UNREGISTER_MS))
                for address in self.links.open_addresses
                if address in audience
                for farewell in farewells
            )
        )

    def _member_added(self) -> None:
        if self.life.is_running:
            self.spawn(self.heartbeat(), "first heartbeat")

    async def _fetch(self, topic: str) -> Route | None:
        """Ask a name server for a route; all who want the same one wait for one answer."""
        fetching = self._fetching.get(topic)
        if fetching is None:
            fetching = self.spawn(self._fetch_now(topic), f"route of {topic}")
            self._fetching[topic] = fetching
            fetching.add_done_callback(lambda _: self._fetching.pop(topic, None))
        await asyncio.wait([fetching])
        if fetching.cancelled():
            self.life.require_running()
        return fetching.result()

    async def _fetch_now(self, topic: str) -> Route | None:
        timeout_ms = self.config.call_timeout_ms
        route = await self.hold(fetch_route(self._name_servers, topic, timeout_ms))
        if route is not None and self.routes.update(topic, route):
            self.events.add("route", topic, f"{len(route.brokers)} brokers", logging.DEBUG)
            for listener in self._listeners:
                listener(topic, route)
            if self.members:
                self.spawn(self.meet_brokers(), "meeting brokers")
        return route

    async def _keep_routes(self) -> None:
        while True:
            self._doubt.clear()
            try:
                async with self.timing.limit(self.config.route_ms):
                    await self._doubt.wait()
                    await self.timing.sleep(DOUBT_MS)
                topics = [topic for topic in self._doubted if topic in self.routes.topics]
            except TimeoutError:
                topics = self.routes.topics
            self._doubted.clear()
            for topic in topics:
                try:
                    await self._fetch(topic)
                except FlintError as error:
                    self.events.add("route", topic, str(error))

    async def _keep_beating(self) -> None:
        while True:
            await self.timing.sleep(self.config.heartbeat_ms)
            for address in self.routes.clean():
                self.events.add("route", address, "no route names this broker any more")
                self.links.forget(address)
            await self.heartbeat()

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, FlintError):
            log.error("%s failed", task.get_name(), exc_info=error)
