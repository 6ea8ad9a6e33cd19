"""Consumers with a master and a slave: where they read, where they commit, and who is asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from flintmq import EmbeddedBroker, LitePullConsumer, Message, PullConsumer, PushConsumer
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.model.queue import QueueOffset, QueueRef
from support.broker.world import SMALL_STORE
from support.client.push_support import Ear
from support.client.support import create_topic
from support.replication.embedded_pairs import PATIENCE_S, send_to_both, states

TOPIC, GROUP = "orders", "billing"
CONFIG = BrokerConfig(
    store=replace(SMALL_STORE, in_memory_bytes=20_000), slave_read=True, copy_tables_ms=100
)
BODY = b"x" * 1_000


@pytest.fixture
def pair() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(config=CONFIG, slaves=1) as pair:
        create_topic(pair, TOPIC, 1)
        yield pair


def send(pair: EmbeddedBroker, count: int) -> None:
    send_to_both(pair, [Message(TOPIC, BODY)] * count)


def push(pair: EmbeddedBroker, ear: Ear) -> PushConsumer:
    consumer = PushConsumer(
        GROUP,
        ear,
        namesrv=pair.namesrv,
        start_from="first",
        pull_error_delay_ms=20,
        route_ms=200,
    )
    consumer.subscribe(TOPIC)
    return consumer


def test_a_reader_that_is_far_behind_is_sent_to_the_slave_and_commits_at_the_master(
    pair: EmbeddedBroker,
) -> None:
    send(pair, 200)
    master, slave = states(pair)
    ear = Ear()

    with push(pair, ear):
        pair.wait_for(lambda: len(ear.bodies) == 200, PATIENCE_S)

    assert slave.stats.gets.times > 0
    assert master.stats.gets.times > 0  # the first pull, and the last ones
    assert master.offsets.queues(GROUP, TOPIC) == {0: 200}


def test_a_consumer_that_starts_while_the_master_is_gone_goes_on_at_the_slave(
    pair: EmbeddedBroker,
) -> None:
    send(pair, 10)
    _, slave = states(pair)
    with push(pair, first := Ear()):
        pair.wait_for(lambda: len(first.bodies) == 10, PATIENCE_S)
    pair.wait_for(lambda: slave.offsets.queues(GROUP, TOPIC) == {0: 10}, PATIENCE_S)
    send(pair, 5)
    pair.stop_broker("broker-a")

    with push(pair, second := Ear()):
        pair.wait_for(lambda: len(second.bodies) == 5, PATIENCE_S)
        assert slave.offsets.queues(GROUP, TOPIC) == {0: 10}  # only masters store offsets
        pair.start_broker("broker-a")
        master, _ = states(pair)
        pair.wait_for(lambda: master.offsets.queues(GROUP, TOPIC) == {0: 15}, PATIENCE_S)


def test_a_consumer_that_runs_goes_on_at_the_slave_when_its_master_leaves(
    pair: EmbeddedBroker,
) -> None:
    send(pair, 3)
    _, slave = states(pair)
    pulled = slave.stats.gets.times

    with push(pair, ear := Ear()):
        pair.wait_for(lambda: len(ear.bodies) == 3, PATIENCE_S)
        pair.stop_broker("broker-a")
        pair.wait_for(lambda: len(slave.held) > 0, PATIENCE_S)  # it waits at the slave now
        pair.start_broker("broker-a")
        send(pair, 2)
        pair.wait_for(lambda: len(ear.bodies) == 5, PATIENCE_S)
    assert slave.stats.gets.times >= pulled


def test_pulls_and_lite_pulls_read_at_the_slave_while_the_master_is_gone(
    pair: EmbeddedBroker,
) -> None:
    send(pair, 4)
    pair.stop_broker("broker-a")
    queue = QueueRef(TOPIC, "broker-a", 0)

    with PullConsumer("by-hand", namesrv=pair.namesrv) as puller:
        assert len(puller.pull(queue, QueueOffset(0)).messages) == 4
    with LitePullConsumer("lite", namesrv=pair.namesrv) as lite:
        lite.assign([queue])
        lite.seek(queue, QueueOffset(0))
        found: list[object] = []

        def all_found() -> bool:
            found.extend(lite.poll(1_000))
            return len(found) == 4

        pair.wait_for(all_found, PATIENCE_S)


def test_a_topic_is_read_as_a_table_while_the_master_is_gone(pair: EmbeddedBroker) -> None:
    arrow = pytest.importorskip("flintmq.arrow")
    send(pair, 6)
    pair.stop_broker("broker-a")

    assert arrow.read_topic(TOPIC, namesrv=pair.namesrv).num_rows == 6
