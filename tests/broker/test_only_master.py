"""A master with replicas does not start beside another master of its name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.embedded.servers import BrokerPlan, Servers
from flintmq.errors import InvalidSetting
from flintmq.net.loop import run
from support.broker.world import SMALL_STORE

CONFIG = BrokerConfig(store=SMALL_STORE, ha_port=0)


def test_a_second_master_is_refused_with_the_address_of_the_first(tmp_path: Path) -> None:
    async def main() -> str:
        servers = await Servers.start([BrokerPlan(directory=tmp_path / "first", config=CONFIG)])
        servers._plans["second"] = BrokerPlan(directory=tmp_path / "second", config=CONFIG)
        try:
            with pytest.raises(InvalidSetting, match="start this one as a slave") as refused:
                await servers.start_broker("second")
            first = servers.brokers["broker-a"].state.address
            assert first in str(refused.value)
            assert servers.name_servers[0].state.routes.members(
                CONFIG.cluster, "broker-a"
            ).broker_addrs == {0: first}
        finally:
            await servers.stop()
        return first

    assert run(main())


def test_a_fenced_master_may_be_replaced_and_one_that_is_gone_too(tmp_path: Path) -> None:
    async def main() -> list[str]:
        servers = await Servers.start([BrokerPlan(directory=tmp_path / "first", config=CONFIG)])
        plan = BrokerPlan(directory=tmp_path / "second", config=replace(CONFIG))
        servers._plans["second"] = plan
        try:
            servers.brokers["broker-a"].state.is_fenced = True
            await servers.start_broker("second")
            second = servers.brokers["second"].state.address
            members = servers.name_servers[0].state.routes.members(CONFIG.cluster, "broker-a")
            await servers.stop_broker("second")
            await servers.stop_broker("broker-a")
            await servers.start_broker("second")
        finally:
            await servers.stop()
        return [members.broker_addrs[0], second]

    found, second = run(main())
    assert found == second
