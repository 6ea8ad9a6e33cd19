"""Whose turn it is: the queue a producer sends to next.

Queues take turns, topic by topic, from a random start.  After a failure the next queue is one
of another broker, where there is one.  With fault avoidance on, brokers in trouble are passed
over; see `core.producer.broker_faults`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from flintmq.core.producer.broker_faults import Avoidance, BrokerFaults
from flintmq.errors import InvalidSetting
from flintmq.model.java_hash import java_hash
from flintmq.model.message import Message
from flintmq.model.queue import QueueRef
from flintmq.protocol.headers.send_template import SendFields

LANES_MAX: Final = 10_000
"""Topics whose turn is remembered."""


class RoutedQueues:
    """The queues of one topic, whose turn it is, and the headers made for them."""

    __slots__ = ("fields", "queues", "turn")

    def __init__(self, queues: Sequence[QueueRef], turn: int) -> None:
        self.queues = queues
        self.turn = turn
        self.fields: dict[tuple[int, bool], SendFields] = {}
        """By the place of the queue, and whether it is for batches."""


class QueueChoice:
    """The turns of one producer."""

    def __init__(self, faults: BrokerFaults, chance: Callable[[], float]) -> None:
        self._faults = faults
        self._chance = chance
        self._lanes: dict[str, RoutedQueues] = {}

    def lane(self, topic: str, queues: Sequence[QueueRef]) -> RoutedQueues:
        lane = self._lanes.get(topic)
        if lane is None or lane.queues is not queues:
            if lane is None and len(self._lanes) >= LANES_MAX:
                self._lanes.clear()
            turn = int(self._chance() * (1 << 31)) if lane is None else lane.turn
            lane = self._lanes[topic] = RoutedQueues(queues, turn)
        return lane

    def choose(self, lane: RoutedQueues, last_broker: str | None, now_ms: int) -> int:
        """The place of the next queue in its lane."""
        queues, count = lane.queues, len(lane.queues)
        turn = lane.turn
        lane.turn = turn + 1
        if self._faults.is_on:
            turn = self._healthy_turn(lane, turn, last_broker, now_ms)
            lane.turn = turn + 1
        elif last_broker is not None:
            for step in range(turn, turn + count):
                if queues[step % count].broker != last_broker:
                    lane.turn = step + 1
                    return step % count
        return turn % count

    def _healthy_turn(
        self, lane: RoutedQueues, turn: int, last_broker: str | None, now_ms: int
    ) -> int:
        queues, count, faults = lane.queues, len(lane.queues), self._faults
        brokers = {step: queues[step % count].broker for step in range(turn, turn + count)}
        others = {step: broker for step, broker in brokers.items() if broker != last_broker}
        for step, broker in others.items():
            if faults.is_available(broker, now_ms):
                return step
        if faults.avoidance is Avoidance.RELEASE_4:
            least_bad = faults.least_bad(now_ms)
            for step, broker in brokers.items():
                if broker == least_bad:
                    return step
            if least_bad is not None:
                faults.forget(least_bad)
        else:
            for step, broker in others.items():
                if faults.is_reachable(broker):
                    return step
        return turn


def queue_of_key(queues: Sequence[QueueRef], sharding_key: str) -> QueueRef:
    """The queue of a key: the same for the same key as long as the queues are the same."""
    number = abs(java_hash(sharding_key))
    return queues[(number if number < 2**31 else 0) % len(queues)]


Selector: TypeAlias = Callable[[Sequence[QueueRef], Message], QueueRef]
"""Chooses one of the queues for a message; both have the names the program knows."""


def choose_queue(
    message: Message,
    queues: Sequence[QueueRef],
    queue: QueueRef | None,
    selector: Selector | None,
    sharding_key: str | None,
) -> QueueRef:
    """The queue of a message that may go to one alone, by the one of the last three given.

    ``queues`` have the names of the wire, and so has the queue that is returned.
    """
    if sum(given is not None for given in (queue, selector, sharding_key)) > 1:
        reason = "give one of queue, selector and sharding_key"
        raise InvalidSetting("queue", message.topic, reason)
    if selector is not None:
        queue = selector([replace_topic(each, message.topic) for each in queues], message)
    elif sharding_key is not None:
        return queue_of_key(queues, sharding_key)
    assert queue is not None
    if queue.topic != message.topic:
        raise InvalidSetting("queue", str(queue), f"the message is for {message.topic!r}")
    return replace_topic(queue, queues[0].topic)


def replace_topic(queue: QueueRef, topic: str) -> QueueRef:
    """A queue under another name of its topic: with the namespace, or without."""
    return queue if queue.topic == topic else QueueRef(topic, queue.broker, queue.queue_id)
