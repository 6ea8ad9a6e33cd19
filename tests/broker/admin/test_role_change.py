"""A running broker is fenced, and gets another role only where nothing acknowledged can be lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.tables.broker_tables import NextRole
from flintmq.model.broker_role import BrokerRole
from flintmq.protocol.bodies.common_bodies import KvTable
from flintmq.protocol.bodies.java_properties import write_properties
from flintmq.protocol.codes import RequestCode, ResponseCode
from support.broker.admin import done, make_topic, refused
from support.broker.world import SMALL_STORE, World

MASTER = {"brokerRole": "SYNC_MASTER", "brokerId": "0"}
SLAVE = {"brokerRole": "SLAVE", "brokerId": "1"}
CHANGE = RequestCode.UPDATE_BROKER_CONFIG


@pytest.fixture
def master(tmp_path: Path) -> Iterator[World]:
    with World(tmp_path / "master") as world:
        make_topic(world, "T")
        yield world


@pytest.fixture
def slave(tmp_path: Path) -> Iterator[World]:
    config = BrokerConfig(store=SMALL_STORE, role=BrokerRole.SLAVE, broker_id=1)
    with World(tmp_path / "slave", config) as world:
        yield world


def change(world: World, **texts: str) -> None:
    done(world, CHANGE, None, write_properties(texts))


def refusal(world: World, **texts: str) -> str:
    code, remark = refused(world, CHANGE, None, write_properties(texts))
    assert code == ResponseCode.INVALID_PARAMETER
    assert remark is not None
    assert remark.endswith("; nothing was changed")
    return remark


def figures(world: World) -> dict[str, str]:
    return dict(KvTable.from_body(done(world, RequestCode.GET_BROKER_RUNTIME_INFO)).table)


def test_a_fenced_master_stores_nothing_until_the_fence_is_lifted(master: World) -> None:
    master.send("T", properties="DELAY\x011\x02")

    change(master, flintmqFenced="true")

    end = master.state.log.end_offset
    assert master.send("T").code == ResponseCode.SERVICE_NOT_AVAILABLE
    master.advance(60_000)
    assert master.state.log.end_offset == end
    assert figures(master)["fenced"] == "true"
    change(master, flintmqFenced="false")
    master.advance(1)
    assert master.send("T").code == ResponseCode.SUCCESS
    assert master.state.delays.delivered_count == 1


def test_a_master_that_is_not_fenced_keeps_its_role(master: World) -> None:
    assert "not fenced" in refusal(master, **SLAVE)
    assert master.state.next_role is None


def test_a_fenced_master_becomes_a_slave(master: World) -> None:
    change(master, flintmqFenced="true")

    change(master, **SLAVE)

    assert master.state.next_role == NextRole(BrokerRole.SLAVE, 1, copies_tables=True)
    assert "about to change" in refusal(master, flintmqFenced="false")
    assert master.send("T").code == ResponseCode.SERVICE_NOT_AVAILABLE


def test_a_slave_becomes_the_master_only_with_the_log_its_caller_has_seen(slave: World) -> None:
    end = slave.state.log.end_offset

    assert f"ends at {end}, not at {end + 1}" in refusal(
        slave, **MASTER, flintmqLogEnd=str(end + 1)
    )
    assert f"ends at {end}, not at a place you name" in refusal(slave, **MASTER)
    change(slave, **MASTER, flintmqLogEnd=str(end))

    assert slave.state.next_role == NextRole(BrokerRole.SYNC_MASTER, 0, copies_tables=True)


def test_without_a_master_there_are_no_tables_to_copy(slave: World) -> None:
    change(slave, **MASTER, flintmqLogEnd=str(slave.state.log.end_offset), flintmqMasterGone="true")

    assert slave.state.next_role == NextRole(BrokerRole.SYNC_MASTER, 0, copies_tables=False)


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        ({"flintmqFenced": "true"}, "nothing to fence"),
        ({"brokerRole": "SLAVE"}, "needs brokerRole"),
        ({"brokerRole": "BOSS", "brokerId": "0"}, "needs brokerRole"),
        ({"brokerRole": "SLAVE", "brokerId": "0"}, "a master has 0, a slave more"),
        ({"brokerRole": "SLAVE", "brokerId": "-1"}, "a master has 0, a slave more"),
        ({**MASTER, "deleteWhen": "05"}, "deleteWhen cannot be changed together"),
    ],
)
def test_what_makes_no_sense_is_refused(slave: World, texts: dict[str, str], reason: str) -> None:
    assert reason in refusal(slave, **texts)
    assert slave.state.next_role is None


def test_the_figures_say_what_a_broker_is(master: World, slave: World) -> None:
    names = ("brokerRole", "brokerId", "fenced")

    assert [figures(master)[name] for name in names] == ["ASYNC_MASTER", "0", "false"]
    assert [figures(slave)[name] for name in names] == ["SLAVE", "1", "false"]
