"""A slave that acts as the master for consumers: they go on in order, and commit once and for all.

The name server shows the slave with the lowest id in the place of a master that is gone, without
the right to write (`enableSlaveActingMaster`, `supportActingMaster`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from flintmq import Admin, EmbeddedBroker, Message, Producer, PushConsumer
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.state.broker_state import BrokerState
from flintmq.embedded.embedded_users import EmbeddedUser
from flintmq.embedded.servers import Servers
from flintmq.errors import FlintError
from flintmq.model.queue import QueueRef
from flintmq.protocol.bodies.route import TopicRoute
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.offset import UpdateConsumerOffset
from flintmq.protocol.headers.route import RouteOf
from support.broker.world import SMALL_STORE
from support.client.push_support import Ear, numbered
from support.client.support import create_topic
from support.embedded.asking import ask
from support.replication.embedded_pairs import MASTER, PATIENCE_S, SLAVE, send_to_both, states

TOPIC, GROUP = "orders", "billing"
CONFIG = BrokerConfig(store=SMALL_STORE, acting_master=True, copy_tables_ms=100)


@pytest.fixture
def pair() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(config=CONFIG, slaves=1) as pair:
        create_topic(pair, TOPIC, 1)
        yield pair


def send(pair: EmbeddedBroker, count: int, start: int = 0) -> None:
    send_to_both(pair, [Message(TOPIC, body) for body in numbered(count, start)])


def ordered(pair: EmbeddedBroker, ear: Ear) -> PushConsumer:
    return pair.push_consumer(
        GROUP,
        ear,
        start_from="first",
        ordered=True,
        pull_error_delay_ms=20,
        route_ms=200,
        commit_interval_ms=100,
        rebalance_interval_ms=200,
    ).subscribe(TOPIC)


def route(pair: EmbeddedBroker) -> tuple[dict[int, str], int]:
    """Where a client finds the topic: addresses by id, and what it may do there."""
    found = TopicRoute.from_body(
        ask(pair.namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, RouteOf(topic=TOPIC)).body
    )
    return dict(found.broker_datas[0].broker_addrs), found.queue_datas[0].perm


def committed(state: BrokerState) -> int | None:
    return state.offsets.queues(GROUP, TOPIC).get(0)


def owner(pair: EmbeddedBroker, state: BrokerState) -> str | None:
    """Who has the queue locked."""
    now_ms = pair.call(lambda servers: servers.clock())
    return state.locks.owner(GROUP, QueueRef(TOPIC, MASTER, 0), now_ms)


def test_the_route_shows_the_lowest_slave_in_place_of_the_master_and_nobody_may_write() -> None:
    with EmbeddedBroker(config=CONFIG, slaves=2) as three:
        create_topic(three, TOPIC, 1)
        master, (first, second) = three.broker, three.slaves
        assert route(three) == ({0: master, 1: first, 2: second}, 6)

        three.stop_broker(MASTER)
        assert route(three) == ({0: first, 2: second}, 4)
        with Producer("shop", namesrv=three.namesrv) as producer, pytest.raises(FlintError):
            producer.send(Message(TOPIC, b"nobody takes it"), timeout_ms=1_000)
        three.stop_broker("broker-a/1")
        assert route(three) == ({0: second}, 4)

        three.start_broker("broker-a/1")
        three.start_broker(MASTER)
        three.wait_for(lambda: route(three) == ({0: master, 1: first, 2: second}, 6), PATIENCE_S)


def test_brokers_that_may_act_are_gone_after_seconds_of_silence_not_after_minutes(
    pair: EmbeddedBroker,
) -> None:
    (server,) = pair.call(lambda servers: servers.name_servers)
    pair.wait_for(lambda: server.state.served[RequestCode.BROKER_HEARTBEAT] >= 2, PATIENCE_S)

    def silent(servers: Servers) -> dict[int, str]:
        """As if no heartbeat had come for so long."""
        server.tick(servers.clock() + 2 * CONFIG.not_active_ms + 5_000)
        return dict(server.state.routes.members("DefaultCluster", "broker-a").broker_addrs)

    assert pair.call(silent) == {}


def test_a_broker_that_a_name_server_has_lost_registers_after_the_next_heartbeats() -> None:
    config = replace(CONFIG, heartbeat_ms=50, register_ms=3_600_000)
    with EmbeddedBroker(config=config, slaves=1) as pair:
        create_topic(pair, TOPIC, 1)
        whole = {0: pair.broker, 1: pair.slaves[0]}
        (server,) = pair.call(lambda servers: servers.name_servers)
        changes = server.state.routes.changes

        pair.drop_next(RequestCode.BROKER_HEARTBEAT, lost="connection")

        pair.wait_for(lambda: server.state.routes.changes > changes, PATIENCE_S)
        pair.wait_for(lambda: route(pair)[0] == whole, PATIENCE_S)


def test_ordered_consumption_goes_on_at_the_acting_master_and_then_at_the_master(
    pair: EmbeddedBroker,
) -> None:
    send(pair, 10)
    _, slave = states(pair)

    with ordered(pair, ear := Ear()) as consumer:
        ear.wait_for(10)
        pair.wait_for(lambda: committed(slave) == 10, PATIENCE_S)
        send(pair, 5, start=10)
        pair.stop_broker(MASTER)
        pair.wait_for(lambda: len(ear.bodies) == 15, PATIENCE_S)
        pair.wait_for(lambda: committed(slave) == 15, PATIENCE_S)
        pair.advance(25)  # locks are renewed every 20 s
        pair.wait_for(lambda: owner(pair, slave) == consumer.client_id, PATIENCE_S)

        pair.start_broker(MASTER)
        send(pair, 5, start=15)
        pair.wait_for(lambda: len(ear.bodies) == 20, PATIENCE_S)
        master, _ = states(pair)
        pair.wait_for(lambda: committed(master) == 20, PATIENCE_S)
    assert ear.bodies == numbered(20)


def test_an_ordered_consumer_can_start_while_the_master_is_gone(pair: EmbeddedBroker) -> None:
    send(pair, 10)
    pair.stop_broker(MASTER)

    with ordered(pair, ear := Ear()):
        ear.wait_for(10)

    assert ear.bodies == numbered(10)


def test_a_master_has_what_was_committed_without_it_before_anybody_finds_it(
    pair: EmbeddedBroker,
) -> None:
    """The copies of the slave come too late to help here."""
    send(pair, 10)
    _, slave = states(pair)
    pair.call(lambda servers: setattr(servers.brokers[SLAVE], "copy_tables", lambda: None))
    pair.stop_broker(MASTER)
    with ordered(pair, first := Ear()):
        first.wait_for(10)
    assert committed(slave) == 10

    pair.start_broker(MASTER)

    master, _ = states(pair)
    assert committed(master) == 10
    send_more = [Message(TOPIC, body) for body in numbered(3, 10)]
    with pair.producer("shop") as producer, ordered(pair, second := Ear()):
        for message in send_more:
            producer.send(message)
        second.wait_for(3)
    assert second.bodies == numbered(3, 10)


def test_what_is_committed_to_the_slave_by_an_old_route_reaches_the_master_with_the_next_copy(
    pair: EmbeddedBroker,
) -> None:
    send(pair, 10)
    master, slave = states(pair)
    with Admin(namesrv=pair.namesrv) as admin:
        admin.create_group(GROUP)
    pair.wait_for(lambda: GROUP in slave.groups, PATIENCE_S)

    def commit(address: str, offset: int) -> None:
        header = UpdateConsumerOffset(
            consumer_group=GROUP, topic=TOPIC, queue_id=0, commit_offset=offset
        )
        assert ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, header).code == 0

    commit(pair.broker, 3)
    commit(slave.address, 7)
    pair.wait_for(lambda: committed(master) == 7, PATIENCE_S)
    assert committed(slave) == 7

    commit(pair.broker, 9)
    commit(slave.address, 8)  # less than the master has
    pair.wait_for(lambda: committed(slave) == 9, PATIENCE_S)
    assert committed(master) == 9


def test_what_is_delayed_waits_for_the_master(pair: EmbeddedBroker) -> None:
    send_to_both(pair, [Message(TOPIC, b"late", delay_level=17)])  # an hour
    _, slave = states(pair)
    pair.stop_broker(MASTER)

    pair.advance(3_600)
    assert slave.log.max_offset(TOPIC, 0) == 0

    pair.start_broker(MASTER)
    pair.wait_for(lambda: slave.log.max_offset(TOPIC, 0) == 1, PATIENCE_S)


def test_slaves_are_served_and_act_where_name_servers_ask_for_accounts() -> None:
    boss = EmbeddedUser("boss", is_super=True)
    with EmbeddedBroker(config=CONFIG, slaves=1, accounts=[boss]) as pair:
        master, slave = states(pair)
        signed: dict[str, Any] = {"access_key": boss.name, "secret_key": boss.password}
        with pair.producer("shop", **signed) as producer:
            producer.send(Message(TOPIC, b"1"))
        pair.wait_for(lambda: slave.log.end_offset == master.log.end_offset, PATIENCE_S)
        pair.wait_for(lambda: TOPIC in slave.topics, PATIENCE_S)
        pair.stop_broker(MASTER)

        with pair.push_consumer(GROUP, ear := Ear(), start_from="first", **signed).subscribe(TOPIC):
            ear.wait_for(1)
        pair.start_broker(MASTER)

        assert sum(states(pair)[0].offsets.queues(GROUP, TOPIC).values()) == 1
