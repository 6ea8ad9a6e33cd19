"""`flintmq broker promote` switches master and slave, as planned or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from flintmq import EmbeddedBroker, Message
from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.client.admin import Admin
from flintmq.errors import InvalidSetting, WrongState
from flintmq.model.broker_role import BrokerRole
from support.broker.world import SMALL_STORE
from support.cli.asking import Shell

CONFIG = BrokerConfig(store=SMALL_STORE, copy_tables_ms=100)
PATIENCE_S = 60.0


@pytest.fixture
def pair() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(config=CONFIG, slaves=1) as pair:
        yield pair


def role(pair: EmbeddedBroker, name: str) -> BrokerRole | None:
    """The role of a broker that runs; None while it is starting again."""

    def see() -> BrokerRole | None:
        broker = pair.call(lambda servers: servers.brokers.get(name))
        return None if broker is None else broker.state.config.role

    return see()


def caught_up(pair: EmbeddedBroker) -> bool:
    ends = pair.call(
        lambda servers: {each.state.log.end_offset for each in servers.brokers.values()}
    )
    return len(ends) == 1


def test_master_and_slave_change_places_and_every_message_is_there(pair: EmbeddedBroker) -> None:
    user = Shell(pair.namesrv)
    with pair.producer("p") as producer:
        sent = [producer.send(Message("orders", b"%d" % number)) for number in range(20)]
    old_master, old_slave = pair.broker, pair.slaves[0]
    pair.wait_for(lambda: caught_up(pair), PATIENCE_S)

    told = user.told("broker", "promote", "broker-a", "--yes")

    assert f"{old_slave} is the master of broker-a now" in told
    assert role(pair, "broker-a/1") is BrokerRole.ASYNC_MASTER
    assert role(pair, "broker-a") is BrokerRole.SLAVE
    assert (pair.broker, pair.slaves[0]) == (old_slave, old_master)
    assert len(pair.messages("orders")) == len(sent)
    with pair.producer("p") as producer:
        producer.send(Message("orders", b"after"))
    pair.wait_for(lambda: caught_up(pair), PATIENCE_S)
    with Admin(namesrv=pair.namesrv) as admin:
        admin.promote(admin.plan_promotion("broker-a"))  # and back
    assert pair.broker == old_master
    assert len(pair.messages("orders")) == len(sent) + 1


def test_what_would_be_done_is_shown_and_asked_about(pair: EmbeddedBroker) -> None:
    user = Shell(pair.namesrv)

    dry = user.told("broker", "promote", "broker-a", "--dry-run")
    refused = user.run("broker", "promote", "broker-a", input="n\n")
    code, words = user.complaint("broker", "promote", "broker-a", "--json")

    assert "SLAVE, 1" in dry
    assert refused.exit_code != 0
    assert (code, words) == (2, "flintmq: nothing was changed: add --yes\n")
    assert role(pair, "broker-a") is BrokerRole.ASYNC_MASTER
    assert role(pair, "broker-a/1") is BrokerRole.SLAVE


def test_a_slave_that_lacks_too_much_is_not_promoted(pair: EmbeddedBroker) -> None:
    with Admin(namesrv=pair.namesrv) as admin:
        plan = replace(admin.plan_promotion("broker-a"), problems=("it is far behind",))

        with pytest.raises(WrongState, match="not switched: it is far behind"):
            admin.promote(plan)


def test_without_a_slave_there_is_nothing_to_promote() -> None:
    with EmbeddedBroker() as alone, Admin(namesrv=alone.namesrv) as admin:
        with pytest.raises(WrongState, match="its slaves are none"):
            admin.plan_promotion("broker-a")
        with pytest.raises(InvalidSetting, match="no such broker"):
            admin.plan_promotion("broker-x")


def test_a_slave_whose_master_is_gone_is_promoted_as_it_is(pair: EmbeddedBroker) -> None:
    slave = pair.slaves[0]
    user = Shell(pair.namesrv)
    assert (
        "registered" in user.complaint("broker", "promote", "broker-a", "--yes", "--master-gone")[1]
    )
    pair.stop_broker("broker-a")

    _, words = user.complaint("broker", "promote", "broker-a", "--yes")
    assert "no master is registered" in words
    user.told("broker", "promote", "broker-a", "--yes", "--master-gone")

    assert pair.broker == slave
    assert role(pair, "broker-a/1") is BrokerRole.ASYNC_MASTER


def test_a_switch_that_the_slave_refuses_lifts_the_fence(pair: EmbeddedBroker) -> None:
    with Admin(namesrv=pair.namesrv) as admin:
        plan = replace(admin.plan_promotion("broker-a"), slave=pair.broker)  # no slave at all

        with pytest.raises(WrongState, match="goes on as the master"):
            admin.promote(plan)

    with pair.producer("p") as producer:
        producer.send(Message("orders", b"still"))
    assert len(pair.messages("orders")) == 1


def test_a_topic_that_the_master_deleted_does_not_come_back(pair: EmbeddedBroker) -> None:
    with pair.producer("p") as producer, Admin(namesrv=pair.namesrv) as admin:
        producer.send(Message("orders", b"kept"))
        producer.send(Message("old", b"deleted"))
        pair.wait_for(lambda: caught_up(pair), PATIENCE_S)
        admin.delete_topic("old")

        admin.promote(admin.plan_promotion("broker-a"))

        assert "old" not in {topic.name for topic in admin.topics()}
        assert [message.body for message in pair.messages("orders")] == [b"kept"]
        assert pair.messages("old") == []


def test_the_roles_outlast_a_restart_of_both(pair: EmbeddedBroker) -> None:
    new_master = pair.slaves[0]
    with Admin(namesrv=pair.namesrv) as admin:
        admin.promote(admin.plan_promotion("broker-a"))

    for name in ("broker-a", "broker-a/1"):
        pair.stop_broker(name)
    for name in ("broker-a", "broker-a/1"):
        pair.start_broker(name)

    assert pair.broker == new_master
