"""A push consumer as its engine sees it: the answers to what brokers ask of a member.

    NOTIFY_CONSUMER_IDS_CHANGED (40)       → rebalance
    RESET_CONSUMER_CLIENT_OFFSET (220)     → go on from other offsets
    GET_CONSUMER_STATUS_FROM_CLIENT (221)  → the offsets
    GET_CONSUMER_RUNNING_INFO (307)        → settings, queues, rates, stacks
    CONSUME_MESSAGE_DIRECTLY (309)         → one message to the listener, and its result

A message consumed directly is shown to the listener as if it came from its queue.  No offset
changes and nothing is sent back, whatever the listener returns.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Final

from flintmq.client.engine.client_engine import ClientEngine
from flintmq.client.push.delivery import Delivery
from flintmq.client.push.push_driver import PushDriver
from flintmq.client.push.push_settings import PushConfig
from flintmq.client.push.running_info import running_consumer
from flintmq.core.group.listener_results import ReturnKind, outcomes_of
from flintmq.model import properties as names
from flintmq.model.group import is_retry_topic, without_namespace
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.protocol.bodies.client import ConsumerGroup
from flintmq.protocol.bodies.client_call import DirectOutcome, DirectResult, RunningConsumer

REMARK_CHARACTERS_MAX: Final = 4_096
"""Of a traceback: the end of it says what happened."""


async def consume_directly(
    delivery: Delivery, message: ReceivedMessage, namespace: str, *, ordered: bool
) -> DirectResult:
    topic = message.topic
    if is_retry_topic(topic):
        topic = message.properties.get(names.RETRY_TOPIC) or topic
    queue = QueueRef(message.topic, message.broker, message.queue_id)
    shown = message._replace(topic=without_namespace(namespace, topic))
    result, spent_ns = await delivery.direct(shown, queue)
    return DirectResult(
        consume_result=_outcome(result),
        order=ordered,
        remark=_remark(result),
        spent_time_mills=spent_ns // 1_000_000,
    )


def _outcome(result: object) -> DirectOutcome:
    verdict = outcomes_of(result, 1)
    if verdict.outcomes is None:
        return DirectOutcome.SUCCESS
    if verdict.kind is ReturnKind.EXCEPTION:
        return DirectOutcome.THREW
    return DirectOutcome.RETURNED_NULL if verdict.fault is not None else DirectOutcome.LATER


def _remark(result: object) -> str | None:
    if not isinstance(result, BaseException):
        return None
    text = "".join(traceback.format_exception(result))
    return text[-REMARK_CHARACTERS_MAX:]


class PushMember:
    """The member of one push consumer."""

    def __init__(self, engine: ClientEngine, driver: PushDriver, config: PushConfig) -> None:
        self.group = config.wire_group
        self._engine = engine
        self._driver = driver
        self._config = config
        self._started_ms = engine.wall()

    def heartbeat(self) -> ConsumerGroup:
        return self._driver.machine.subscriptions.section()

    def notified(self) -> None:
        """NOTIFY_CONSUMER_IDS_CHANGED (40): the members of the group changed."""
        self._driver.event(self._driver.machine.notified(self._engine.clock()))

    def reset_offsets(self, topic: str, offsets: Mapping[QueueRef, int]) -> None:
        """RESET_CONSUMER_CLIENT_OFFSET (220): go on from these offsets of a topic."""
        moved = {
            queue: QueueOffset(offset) for queue, offset in offsets.items() if queue.topic == topic
        }
        self._driver.event(self._driver.machine.reset(moved, self._engine.clock()))

    def consume_status(self, topic: str) -> Mapping[QueueRef, int]:
        """GET_CONSUMER_STATUS_FROM_CLIENT (221): the offsets of a topic."""
        offsets = self._driver.machine.offsets()
        return {queue: offset for queue, offset in offsets.items() if queue.topic == topic}

    def running_info(self, *, with_stacks: bool) -> RunningConsumer:
        """GET_CONSUMER_RUNNING_INFO (307): settings, queues, rates, and stacks if wanted."""
        driver, machine = self._driver, self._driver.machine
        return running_consumer(
            self._config,
            machine.status(),
            machine.subscriptions,
            list(driver.stats.rates(self._engine.clock())),
            driver.delivery.running() if with_stacks else None,
            name_servers=self._engine.name_servers,
            started_ms=self._started_ms,
            now_ms=self._engine.clock(),
            wall_ahead_ms=self._engine.wall() - self._engine.clock(),
        )

    async def consume_directly(self, message: ReceivedMessage) -> DirectResult:
        """CONSUME_MESSAGE_DIRECTLY (309): call the listener with one message."""
        topic = message.topic
        if is_retry_topic(topic):
            topic = message.properties.get(names.RETRY_TOPIC) or topic
        subscriptions = self._driver.machine.subscriptions
        known = subscriptions.find(topic) is not None
        return await consume_directly(
            self._driver.delivery,
            message,
            self._config.namespace,
            ordered=subscriptions.is_ordered(topic) if known else self._config.ordered,
        )
