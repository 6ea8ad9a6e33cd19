"""What brokers say of topics and groups: routes, the type of a topic, the settings of a group.

They are asked for when a call needs them and kept for `FRESH_MS`, so that calls are not slowed
down by them and changes take effect soon.  A topic without a route is refused and never kept:
clients try again, and nothing is made by asking.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from flintmq.client.engine.client_engine import ClientEngine
from flintmq.core.admin.topics import topic_settings
from flintmq.core.ask import ask
from flintmq.model.group import is_dead_letter_topic, is_retry_topic
from flintmq.model.route import MASTER_ID, Route
from flintmq.protocol.bodies.group import GroupConfig
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.common_headers import GroupHeader
from flintmq.proxy.wire.grpc_codes import Code, MessageType
from flintmq.proxy.wire.statuses import StatusRefusal, no_such_topic

T = TypeVar("T")

FRESH_MS: Final = 3_000
"""How old what is known of a topic or a group may be."""

KEPT_MAX: Final = 10_000
"""Topics and groups whose settings are kept; beyond that all are asked for again."""

TYPE_ATTRIBUTE: Final = "message.type"
MIXED: Final = "MIXED"
EVERY_TYPE: Final = (
    MessageType.NORMAL,
    MessageType.FIFO,
    MessageType.DELAY,
    MessageType.TRANSACTION,
)

_KNOWN_OR_NOT: Final = frozenset(
    {int(ResponseCode.SUCCESS), int(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST)}
)


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """The settings of a consumer group that matter to its clients."""

    retry_max: int = 16
    is_ordered: bool = False
    policy: dict[str, Any] | None = None
    """How it is retried, where the group has a rule of its own."""

    @property
    def attempts_max(self) -> int:
        """How often a message is delivered before it is a dead letter."""
        return self.retry_max + 1


class _Kept(Generic[T]):
    """Answers that stay good for a while; all who want the same one wait for one answer."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._known: dict[str, tuple[int, T]] = {}
        self._asking: dict[str, asyncio.Task[T]] = {}

    async def find(self, name: str, ask_for: Callable[[], Coroutine[Any, Any, T]]) -> T:
        found = self._known.get(name)
        if found is not None and self._clock() - found[0] < FRESH_MS:
            return found[1]
        asking = self._asking.get(name)
        if asking is None:
            asking = self._asking[name] = asyncio.ensure_future(ask_for())
            asking.add_done_callback(lambda done: self._answered(name, done))
        return await asyncio.shield(asking)

    def _answered(self, name: str, done: asyncio.Task[T]) -> None:
        del self._asking[name]
        if done.cancelled() or done.exception() is not None:
            return
        if len(self._known) >= KEPT_MAX:
            self._known.clear()
        self._known[name] = self._clock(), done.result()


class ClusterFacts:
    """Topics and groups as the brokers behind an engine have them."""

    def __init__(self, engine: ClientEngine) -> None:
        self._engine = engine
        self._types: _Kept[frozenset[MessageType]] = _Kept(engine.clock)
        self._groups: _Kept[GroupFacts] = _Kept(engine.clock)

    async def route(self, topic: str) -> Route:
        """The route of a topic; `StatusRefusal` without one."""
        known = self._engine.routes.find(topic) or await self._engine.refresh_route(topic)
        if known is None:
            raise no_such_topic(topic)
        return known

    async def types(self, topic: str) -> frozenset[MessageType]:
        """The types of message that a topic takes; any for retries and dead letters."""
        await self.route(topic)
        if is_retry_topic(topic) or is_dead_letter_topic(topic):
            return frozenset(EVERY_TYPE)
        return await self._types.find(topic, lambda: self._fetch_types(topic))

    async def group(self, group: str, topic: str) -> GroupFacts:
        """The settings of a group at a broker of the topic; RocketMQ's own where it has none."""
        return await self._groups.find(group, lambda: self._fetch_group(group, topic))

    async def master_of(self, topic: str, broker: str) -> tuple[str, str]:
        """Name and address of a broker of the topic; any where the one that is named is not."""
        masters = masters_of(await self.route(topic))
        if not masters:
            text = f"no broker of topic {topic} has a master now"
            raise StatusRefusal(Code.INTERNAL_SERVER_ERROR, text)
        if broker in masters:
            return broker, masters[broker]
        name = sorted(masters)[int(self._engine.chance() * len(masters))]
        return name, masters[name]

    async def _fetch_types(self, topic: str) -> frozenset[MessageType]:
        broker, address = await self.master_of(topic, "")
        settings = await self._engine.hold(topic_settings(address, broker, topic))
        name = "" if settings is None else settings.attributes.get(TYPE_ATTRIBUTE, "")
        if name == MIXED:
            return frozenset(EVERY_TYPE)
        known = {each.name: each for each in EVERY_TYPE}
        return frozenset({known.get(name, MessageType.NORMAL)})

    async def _fetch_group(self, group: str, topic: str) -> GroupFacts:
        _, address = await self.master_of(topic, "")
        asking = ask(
            address,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
            GroupHeader(group=group),
            accepted=_KNOWN_OR_NOT,
        )
        reply = await self._engine.hold(asking)
        if reply.code != ResponseCode.SUCCESS or not reply.body:
            return GroupFacts()
        config = GroupConfig.from_body(reply.body)
        return GroupFacts(
            config.retry_max_times, bool(config.consume_message_orderly), config.group_retry_policy
        )


def masters_of(route: Route) -> dict[str, str]:
    """The addresses of the masters of a route, by broker."""
    return {
        replicas.broker: replicas.addresses[MASTER_ID]
        for replicas in route.brokers
        if MASTER_ID in replicas.addresses
    }
