"""How the clients of the proxy are known to brokers: as one member of each of their groups.

A broker knows a member by its connection, and all clients share those of the proxy.  So a group is
online at the brokers while one of its clients is, with the id of the proxy and the subscriptions
of all its clients.  A producer is known by the name of each topic that it publishes to: that is
the group in which transactions are checked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from flintmq.client.engine.members import TransactionCheck
from flintmq.model.group import ConsumeType
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies.client import ConsumerGroup, Subscription
from flintmq.protocol.bodies.client_call import CONSUME_TYPE, DirectResult, RunningConsumer


class SharedConsumer:
    """One consumer group of clients of the proxy.

    ``verify`` gives one message to a client of the group, for CONSUME_MESSAGE_DIRECTLY (309).
    """

    def __init__(
        self, group: str, verify: Callable[[str, ReceivedMessage], Awaitable[DirectResult]]
    ) -> None:
        self.group = group
        self._verify = verify
        self.wishes: dict[str, Subscription] = {}
        """By topic, the newest of all its clients."""
        self.type = ConsumeType.PUSH

    def heartbeat(self) -> ConsumerGroup:
        return ConsumerGroup(
            group_name=self.group,
            consume_type=self.type,
            subscription_data_set=tuple(self.wishes[topic] for topic in sorted(self.wishes)),
        )

    def notified(self) -> None:
        """No queue belongs to a client: there is nothing to rebalance."""

    def reset_offsets(self, _topic: str, _offsets: Mapping[QueueRef, int]) -> None:
        """Popping goes on where the broker says: it has reset itself."""

    def consume_status(self, _topic: str) -> Mapping[QueueRef, int]:
        return {}

    def running_info(self, *, with_stacks: bool) -> RunningConsumer:  # noqa: ARG002  # there are none
        return RunningConsumer(
            properties={CONSUME_TYPE: self.type.value},
            subscription_set=self.heartbeat().subscription_data_set,
        )

    def consume_directly(self, message: ReceivedMessage) -> Awaitable[DirectResult]:
        return self._verify(self.group, message)


class TopicProducers:
    """The producers of one topic: brokers ask them about half messages."""

    def __init__(self, topic: str, check: Callable[[str, TransactionCheck], None]) -> None:
        self.group = topic
        self._check = check

    def check_transaction(self, check: TransactionCheck) -> None:
        self._check(self.group, check)

    def take_reply(self, _correlation_id: str, _reply: ReceivedMessage) -> bool:
        """The service has no requests that wait for a reply."""
        return False
