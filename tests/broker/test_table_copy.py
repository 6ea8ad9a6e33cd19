"""A slave has the tables of its master: topics, groups, offsets, delay levels and timers.

Master and slave are the real ones, on real sockets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flintmq import EmbeddedBroker, Message
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.scheduled.timers import Timers
from flintmq.broker.server import BrokerServer
from flintmq.broker.state.broker_state import BrokerState
from flintmq.broker.table_copy import positions_of
from flintmq.broker.tables.offsets import Offsets
from flintmq.protocol.bodies.common_bodies import DataVersion
from flintmq.protocol.bodies.group import GroupConfig
from flintmq.protocol.bodies.offset import ConsumerOffsets
from flintmq.protocol.bodies.replica import TimerCheckPoint
from flintmq.protocol.codes import RequestCode
from flintmq.store.files.disk import Disk
from flintmq.store.files.json_tables import Tables
from support.broker.admin import make_topic
from support.broker.world import SMALL_STORE, World

PATIENCE_S = 60.0
CONFIG = BrokerConfig(store=SMALL_STORE, copy_tables_ms=50, save_offsets_ms=100)


@pytest.fixture
def pair() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(config=CONFIG, slaves=1) as pair:
        yield pair


def server(pair: EmbeddedBroker, name: str) -> BrokerServer:
    return pair.call(lambda servers: servers.brokers[name])


def master_and_slave(pair: EmbeddedBroker) -> tuple[BrokerState, BrokerState]:
    return server(pair, "broker-a").state, server(pair, "broker-a/1").state


def test_a_slave_finds_its_master_by_the_name_server(pair: EmbeddedBroker) -> None:
    _, slave = master_and_slave(pair)

    pair.wait_for(lambda: slave.master_address == pair.broker, PATIENCE_S)
    assert pair.slaves == (slave.address,)
    assert pair.brokers == (pair.broker,)


def test_topics_and_groups_are_copied_and_their_removal_too(pair: EmbeddedBroker) -> None:
    master, slave = master_and_slave(pair)
    group = GroupConfig(group_name="g", retry_max_times=3)

    def change(topic_there: bool) -> None:
        now_ms = 1_000 + topic_there
        if topic_there:
            master.topics.ensure("orders", 4, now_ms)
            master.groups.create_or_replace(group, now_ms)
            master.groups.allow_reading("g", "orders", now_ms, allowed=False)
        else:
            master.topics.remove("orders", now_ms)
            master.groups.remove("g", now_ms)

    pair.call(lambda _: change(topic_there=True))
    pair.wait_for(lambda: "orders" in slave.topics and "g" in slave.groups, PATIENCE_S)
    assert slave.topics.table() == master.topics.table()
    assert slave.groups.find("g") == group
    assert not slave.groups.may_read("g", "orders")

    pair.call(lambda _: change(topic_there=False))
    pair.wait_for(lambda: "orders" not in slave.topics and "g" not in slave.groups, PATIENCE_S)
    assert slave.groups.may_read("g", "orders")


def test_what_a_slave_made_itself_goes_with_the_next_copy(pair: EmbeddedBroker) -> None:
    master, slave = master_and_slave(pair)

    pair.call(lambda _: slave.topics.ensure("%RETRY%mine", 1, 5))

    pair.wait_for(lambda: "%RETRY%mine" not in slave.topics, PATIENCE_S)
    pair.wait_for(lambda: slave.topics.version.matches(master.topics.version), PATIENCE_S)


def test_offsets_are_copied_and_never_beyond_what_the_slave_has(pair: EmbeddedBroker) -> None:
    master, slave = master_and_slave(pair)

    def commit() -> None:
        master.topics.ensure("orders", 2, 1)
        master.offsets.commit("g", "orders", 0, 12, "test")

    pair.call(lambda _: commit())

    pair.wait_for(lambda: slave.offsets.queues("g", "orders"), PATIENCE_S)
    assert slave.offsets.queues("g", "orders") == {0: 0}  # its queue has no message


def test_an_offset_follows_when_the_log_has_come() -> None:
    offsets = Offsets(None)
    told = ConsumerOffsets(
        data_version=DataVersion(counter=3, timestamp=5), offset_table={"orders@g": {0: 12, 1: 4}}
    )
    offsets.commit("g", "orders", 1, 9, "test")
    offsets.commit("other", "orders", 0, 1, "test")

    offsets.copy_from(told, lambda _topic, _queue_id: 10)
    assert offsets.queues("g", "orders") == {0: 10, 1: 4}

    offsets.copy_from(told, lambda _topic, _queue_id: 20)
    assert offsets.queues("g", "orders") == {0: 12, 1: 4}
    assert offsets.queues("other", "orders") == {0: 1}
    assert offsets.version == told.data_version


def saved(directory: Path) -> Tables:
    return Tables(Disk(), directory)


def test_the_copies_are_in_the_files_of_the_slave(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path, config=CONFIG, slaves=1) as pair:
        _, slave = master_and_slave(pair)
        with pair.producer("p") as producer:
            producer.send(Message("orders", b"later", delay_level=1))
        pair.advance(2)

        pair.wait_for(lambda: slave.delays.table().offset_table == {1: 1}, PATIENCE_S)
        pair.wait_for(lambda: "orders" in slave.topics, PATIENCE_S)

    tables = saved(tmp_path / "broker-a-1")
    topics, delays = tables.topics.load(), tables.delay_offsets.load()
    assert topics is not None
    assert topics.topic_config_table["orders"].write_queue_nums == 4
    assert delays is not None
    assert delays.offset_table == {1: 1}


def test_positions_of_delays_come_only_after_the_log_that_they_refer_to(
    pair: EmbeddedBroker,
) -> None:
    """Else a slave that is promoted would take a message for delivered that it does not have."""
    master, slave = master_and_slave(pair)
    replica = server(pair, "broker-a/1")
    following = replica.replication.slave
    assert following is not None
    pair.call(lambda _: setattr(replica.copy, "_catch_up_ms", 0))
    pair._run(lambda _: following.stop())
    with pair.producer("p") as producer:
        producer.send(Message("orders", b"later", delay_level=1))
    pair.advance(2)
    assert master.delays.table().offset_table == {1: 1}

    pair.call(lambda _: setattr(replica.copy, "copied_ms", None))
    pair.wait_for(lambda: replica.copy.copied_ms is not None, PATIENCE_S)
    pair.call(lambda _: setattr(replica.copy, "copied_ms", None))
    pair.wait_for(lambda: replica.copy.copied_ms is not None, PATIENCE_S)
    assert slave.delays.table().offset_table == {}

    pair.call(lambda _: following.start())
    pair.wait_for(lambda: slave.delays.table().offset_table == {1: 1}, PATIENCE_S)


def test_offsets_come_only_after_the_log_that_they_refer_to(pair: EmbeddedBroker) -> None:
    """Else a slave that is promoted would take popped messages for handed out, and lose them."""
    master, slave = master_and_slave(pair)
    replica = server(pair, "broker-a/1")
    following = replica.replication.slave
    assert following is not None
    with pair.producer("p") as producer:
        number = producer.send(Message("orders", b"popped")).queue.queue_id
        pair.wait_for(lambda: slave.log.max_offset("orders", number) == 1, PATIENCE_S)
        pair.call(lambda _: setattr(replica.copy, "_catch_up_ms", 0))
        pair._run(lambda _: following.stop())
        producer.send(Message("orders", b"stands for the checkpoint"))
    pair.call(lambda _: master.offsets.commit("g", "orders", number, 1, "a pop"))

    for _ in range(2):
        pair.call(lambda _: setattr(replica.copy, "copied_ms", None))
        pair.wait_for(lambda: replica.copy.copied_ms is not None, PATIENCE_S)
    assert slave.offsets.queues("g", "orders") == {}

    pair.call(lambda _: following.start())
    pair.wait_for(lambda: slave.offsets.queues("g", "orders").get(number) == 1, PATIENCE_S)


def test_a_slave_goes_on_without_its_master_and_copies_again_when_it_is_back(
    pair: EmbeddedBroker,
) -> None:
    _, slave = master_and_slave(pair)
    copy = server(pair, "broker-a/1").copy
    pair.wait_for(lambda: copy.copied_ms is not None, PATIENCE_S)

    pair.stop_broker("broker-a")
    pair.start_broker("broker-a")
    master, _ = master_and_slave(pair)
    pair.call(lambda _: master.topics.ensure("later", 1, 1))

    pair.wait_for(lambda: "later" in slave.topics, PATIENCE_S)


def test_the_check_point_of_a_java_master_says_what_is_delivered(tmp_path: Path) -> None:
    with World(tmp_path, replace(CONFIG)) as world:
        make_topic(world, "T")
        for delay_ms in (2_000, 60_000):
            world.send("T", properties=f"TIMER_DELAY_MS\x01{delay_ms}\x02")
        world.advance(10_000)
        answer = world.ask(RequestCode.GET_TIMER_CHECK_POINT)
        assert answer is not None
        assert isinstance(answer.body, bytes)
        point = TimerCheckPoint.from_body(answer.body)

        timers = Timers(positions_of(point))
        timers.deliver(world.state, world.now_ms)

        assert timers.waiting_count(world.state) == 1


def test_the_positions_of_timers_are_those_of_the_master(pair: EmbeddedBroker) -> None:
    master, slave = master_and_slave(pair)

    pair.wait_for(lambda: slave.timers.table() is not None, PATIENCE_S)
    pair.wait_for(
        lambda: pair.call(lambda _: slave.timers.table() == master.timers.table()), PATIENCE_S
    )
