"""A quick listener that is behind gets what several pulls brought at once, and never waits long."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from flintmq import PushConsumer
from flintmq.client.push import push_driver
from flintmq.client.push.delivery import Delivery
from flintmq.client.push.thread_pool import Pool
from flintmq.core.group.actions import Deliver
from flintmq.core.group.pull_answers import MessagesFound
from flintmq.embedded.broker import EmbeddedBroker
from support.client.push_support import Ear, filled, numbered

COUNT, EACH = 100, 10
A_PULL = 32


@pytest.fixture
def handed_on(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages were handed to listeners at a time."""
    counts: list[int] = []
    deliver = Delivery.deliver

    def counted(self: Delivery, batches: Sequence[Deliver]) -> None:
        counts.append(sum(len(batch.messages) for batch in batches))
        deliver(self, batches)

    monkeypatch.setattr(Delivery, "deliver", counted)
    return counts


def consume(broker: EmbeddedBroker, topic: str) -> list[bytes]:
    ear = Ear()
    filled(broker, topic, numbered(COUNT), queues=1)
    consumer = PushConsumer(
        topic,
        ear,
        namesrv=broker.namesrv,
        start_from="first",
        batch_max=EACH,
        pull_batch_max=A_PULL,
    )
    with consumer.subscribe(topic):
        ear.wait_for(COUNT)
    return sorted(ear.bodies)


def test_what_several_pulls_bring_is_handed_on_at_once(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, handed_on: list[int]
) -> None:
    monkeypatch.setattr(Pool, "is_quick", True)
    monkeypatch.setattr(push_driver, "GATHER_S", 60.0)  # the end of the backlog comes before
    monkeypatch.setattr(push_driver, "GATHERED_MAX", COUNT)

    assert consume(broker, "gathered") == sorted(numbered(COUNT))
    assert handed_on == [COUNT]


def test_enough_messages_do_not_wait_for_more(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, handed_on: list[int]
) -> None:
    monkeypatch.setattr(Pool, "is_quick", True)
    monkeypatch.setattr(push_driver, "GATHER_S", 60.0)
    monkeypatch.setattr(push_driver, "GATHERED_MAX", 2 * A_PULL)

    assert consume(broker, "enough") == sorted(numbered(COUNT))
    assert handed_on == [2 * A_PULL, COUNT - 2 * A_PULL]


def test_messages_are_handed_on_when_no_more_come(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, handed_on: list[int]
) -> None:
    """Each answer says that more is there, and after the last one the broker holds the pull."""
    monkeypatch.setattr(Pool, "is_quick", True)
    monkeypatch.setattr(MessagesFound, "is_part", True)
    monkeypatch.setattr(push_driver, "GATHERED_MAX", 2 * COUNT)

    assert consume(broker, "no_more") == sorted(numbered(COUNT))


def test_a_listener_that_takes_its_time_gets_each_answer_as_it_comes(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch, handed_on: list[int]
) -> None:
    monkeypatch.setattr(Pool, "is_quick", False)
    monkeypatch.setattr(push_driver, "GATHER_S", 60.0)

    assert consume(broker, "slow") == sorted(numbered(COUNT))
    assert handed_on == [A_PULL] * 3 + [COUNT - 3 * A_PULL]
