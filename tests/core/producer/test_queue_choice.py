"""Turns are remembered for many topics, though not for ever, and survive a change of queues."""

from __future__ import annotations

import pytest

from flintmq.core.producer import queue_choice
from flintmq.core.producer.broker_faults import Avoidance, BrokerFaults
from flintmq.core.producer.queue_choice import QueueChoice
from flintmq.model.queue import QueueRef


def queues(topic: str, count: int) -> tuple[QueueRef, ...]:
    return tuple(QueueRef(topic, "a", number) for number in range(count))


def test_the_turn_goes_on_when_the_queues_change() -> None:
    choice = QueueChoice(BrokerFaults(Avoidance.OFF), lambda: 0.0)
    few, many = queues("t", 2), queues("t", 4)

    first = [choice.choose(choice.lane("t", few), None, 0) for _ in range(3)]
    then = [choice.choose(choice.lane("t", many), None, 0) for _ in range(3)]

    assert (first, then) == ([0, 1, 0], [3, 0, 1])


def test_turns_of_too_many_topics_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_choice, "LANES_MAX", 2)
    choice = QueueChoice(BrokerFaults(Avoidance.OFF), lambda: 0.0)
    lanes = {topic: choice.lane(topic, queues(topic, 2)) for topic in "abc"}

    assert choice.lane("c", lanes["c"].queues) is lanes["c"]
    assert choice.lane("a", lanes["a"].queues) is not lanes["a"]


def test_with_no_trouble_known_and_only_the_last_broker_left_it_is_whose_turn_it_is() -> None:
    choice = QueueChoice(BrokerFaults(Avoidance.RELEASE_4), lambda: 0.0)

    assert choice.choose(choice.lane("t", queues("t", 3)), "a", 0) == 0
