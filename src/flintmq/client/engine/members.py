"""What the engine asks of the producers and consumers that use it, and who they are.

An `Engine` knows nothing of sending or consuming.  It carries heartbeats for its members and
hands them what brokers ask.  Whatever has these methods can be a member.

Methods are called on the engine's loop and must not block.  One that raises is answered for
with code 1, or logged where the broker waits for no answer.

Invariant: no two live members of a process have the same client id, kind and group.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from flintmq.client.engine.lifecycle import in_every_child
from flintmq.errors import InvalidSetting
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies.client import ConsumerGroup, Heartbeat, ProducerGroup
from flintmq.protocol.bodies.client_call import DirectResult, RunningConsumer
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import Command, request
from flintmq.protocol.headers.group import UnregisterClient
from flintmq.protocol.headers.transaction import CheckTransactionState

Claim: TypeAlias = tuple[str, str, str]
"""Client id, kind and group."""


class TransactionCheck(NamedTuple):
    """A broker asks what became of a half message."""

    address: str
    """Who asks, and therefore who is told."""
    header: CheckTransactionState
    message: ReceivedMessage


class ProducerMember(Protocol):
    """A producer.  ``group`` is the name on the wire, namespace included."""

    group: str

    def check_transaction(self, check: TransactionCheck) -> None:
        """See to it that the broker gets its answer by a request of its own."""

    def take_reply(self, correlation_id: str, reply: ReceivedMessage) -> bool:
        """The reply to a request message; whether anybody here waits for it."""


class ConsumerMember(Protocol):
    """A consumer of any kind.  ``group`` is the name on the wire, namespace included."""

    group: str

    def heartbeat(self) -> ConsumerGroup:
        """What brokers are to know of it now."""

    def notified(self) -> None:
        """The members of the group changed: rebalance."""

    def reset_offsets(self, topic: str, offsets: Mapping[QueueRef, int]) -> Awaitable[None] | None:
        """Go on from these offsets.  ``topic`` is the name on the wire."""

    def consume_status(self, topic: str) -> Mapping[QueueRef, int]:
        """The offset of each queue of the topic that it consumes now."""

    def running_info(self, *, with_stacks: bool) -> RunningConsumer | Awaitable[RunningConsumer]:
        """Settings, queues and rates of the consumer; the stacks of its listeners if asked for."""

    def consume_directly(self, message: ReceivedMessage) -> DirectResult | Awaitable[DirectResult]:
        """Give one message to the listener, outside of all queues; no offset changes."""


class Members:
    """The members of one engine, by group."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._is_live = False
        self.producers: dict[str, ProducerMember] = {}
        self.consumers: dict[str, ConsumerMember] = {}

    def __bool__(self) -> bool:
        return bool(self.producers or self.consumers)

    def add_producer(self, member: ProducerMember) -> None:
        if self._is_live:
            _claim({(self._client_id, "producer", member.group)})
        self.producers[member.group] = member

    def add_consumer(self, member: ConsumerMember) -> None:
        if self._is_live:
            _claim({(self._client_id, "consumer", member.group)})
        self.consumers[member.group] = member

    def remove_producer(self, group: str) -> Command:
        """Forget a producer; the request by which it leaves a broker."""
        del self.producers[group]
        if self._is_live:
            _release({(self._client_id, "producer", group)})
        return _farewell(UnregisterClient(client_id=self._client_id, producer_group=group))

    def remove_consumer(self, group: str) -> Command:
        """Forget a consumer; the request by which it leaves a broker."""
        del self.consumers[group]
        if self._is_live:
            _release({(self._client_id, "consumer", group)})
        return _farewell(UnregisterClient(client_id=self._client_id, consumer_group=group))

    def come_alive(self) -> None:
        """From now on no other client of the process may have the same id and group."""
        _claim(self._claims())
        self._is_live = True

    def die(self) -> None:
        if self._is_live:
            self._is_live = False
            _release(self._claims())

    def _claims(self) -> set[Claim]:
        return {
            *((self._client_id, "producer", group) for group in self.producers),
            *((self._client_id, "consumer", group) for group in self.consumers),
        }

    def heartbeat(self) -> Heartbeat:
        """What brokers are to know of us now."""
        return Heartbeat(
            client_id=self._client_id,
            producer_data_set=tuple(ProducerGroup(group_name=group) for group in self.producers),
            consumer_data_set=tuple(member.heartbeat() for member in self.consumers.values()),
        )

    def farewells(self) -> list[Command]:
        """The requests by which each member leaves a broker."""
        producers = (
            UnregisterClient(client_id=self._client_id, producer_group=group)
            for group in self.producers
        )
        consumers = (
            UnregisterClient(client_id=self._client_id, consumer_group=group)
            for group in self.consumers
        )
        return [_farewell(header) for header in (*producers, *consumers)]


def _farewell(header: UnregisterClient) -> Command:
    return request(RequestCode.UNREGISTER_CLIENT, header)


_claimed: set[Claim] = set()
_claimed_lock = threading.Lock()


def _claim(claims: set[Claim]) -> None:
    with _claimed_lock:
        for client_id, kind, group in claims & _claimed:
            raise InvalidSetting(
                "group",
                group,
                f"this process already has a {kind} of this group under the client id {client_id}; "
                "choose another group or another instance_name",
            )
        _claimed.update(claims)


def _release(claims: set[Claim]) -> None:
    with _claimed_lock:
        _claimed.difference_update(claims)


def _forget() -> None:
    global _claimed_lock  # noqa: PLW0603  # its holder may be a thread that a child does not have
    _claimed_lock = threading.Lock()
    _claimed.clear()


in_every_child(_forget)
