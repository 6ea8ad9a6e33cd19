"""SQL92 subscriptions at a slave: consumers bring them with their heartbeats, nothing copies them.

RocketMQ has no request for the table of filters, and none is needed: a pull is served only for a
group whose members send heartbeats to the same broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from flintmq import Admin, EmbeddedBroker, Message, PushConsumer
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.state.broker_state import BrokerState
from support.broker.world import SMALL_STORE
from support.client.push_support import Ear
from support.client.support import create_topic
from support.replication.embedded_pairs import PATIENCE_S, send_to_both, states

TOPIC, GROUP, WANTED = "orders", "billing", "price > 10"
PLAIN = BrokerConfig(store=SMALL_STORE, copy_tables_ms=100, save_offsets_ms=100)
WITH_BITS = replace(PLAIN, store=replace(SMALL_STORE, extended_queues=True), bit_map_filter=True)


@pytest.fixture(params=[PLAIN, WITH_BITS], ids=["by record", "by bit map"])
def pair(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(config=request.param, slaves=1) as pair:
        create_topic(pair, TOPIC, 1)
        yield pair


def priced(*prices: int) -> list[Message]:
    return [Message(TOPIC, b"%d" % price, properties={"price": str(price)}) for price in prices]


def consuming(pair: EmbeddedBroker, ear: Ear) -> PushConsumer:
    consumer = PushConsumer(
        GROUP,
        ear,
        namesrv=pair.namesrv,
        start_from="first",
        pull_error_delay_ms=20,
        route_ms=200,
        heartbeat_ms=200,
        threads_max=1,  # messages are looked at in their order
    )
    return consumer.subscribe(TOPIC, sql=WANTED)


def knows_filter(state: BrokerState) -> bool:
    found = state.filters.find(TOPIC, GROUP)
    return found is not None and not found.dead and found.expression == WANTED


def test_a_slave_learns_filters_from_heartbeats_and_filters_when_the_master_is_gone(
    pair: EmbeddedBroker,
) -> None:
    _, slave = states(pair)
    send_to_both(pair, priced(5, 15))  # the slave has them before it knows the filter

    with consuming(pair, ear := Ear()):
        pair.wait_for(lambda: ear.bodies == [b"15"], PATIENCE_S)
        pair.wait_for(lambda: knows_filter(slave), PATIENCE_S)
        send_to_both(pair, priced(7, 20, 9))
        pair.wait_for(lambda: ear.bodies == [b"15", b"20"], PATIENCE_S)
        pair.stop_broker("broker-a")
        pair.wait_for(lambda: len(slave.held) > 0, PATIENCE_S)  # it waits at the slave now
    assert ear.bodies == [b"15", b"20"]


def test_a_group_that_is_new_while_the_master_is_gone_is_filtered_too(
    pair: EmbeddedBroker,
) -> None:
    _, slave = states(pair)
    send_to_both(pair, priced(5, 15, 7, 20, 9))
    pair.stop_broker("broker-a")

    with consuming(pair, ear := Ear()):
        pair.wait_for(lambda: len(ear.bodies) == 2, PATIENCE_S)
        pair.wait_for(lambda: len(slave.held) > 0, PATIENCE_S)
    assert sorted(ear.bodies) == [b"15", b"20"]  # several threads listen


def test_a_promoted_slave_goes_on_filtering(pair: EmbeddedBroker) -> None:
    with consuming(pair, ear := Ear()), Admin(namesrv=pair.namesrv) as admin:
        send_to_both(pair, priced(5, 15))
        pair.wait_for(lambda: ear.bodies == [b"15"], PATIENCE_S)
        admin.promote(admin.plan_promotion("broker-a"))
        _, promoted = states(pair)
        assert promoted.config.role.is_master
        with pair.producer("shop") as producer:
            for message in priced(6, 16):
                producer.send(message)

        pair.wait_for(lambda: b"16" in ear.bodies, PATIENCE_S)
    assert {*ear.bodies} == {b"15", b"16"}
