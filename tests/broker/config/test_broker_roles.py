"""A configuration whose role, id and ports contradict each other does not exist."""

from __future__ import annotations

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.model.broker_role import BrokerRole


def test_a_broker_is_a_master_without_slaves_by_default() -> None:
    config = BrokerConfig()

    assert config.role is BrokerRole.ASYNC_MASTER
    assert config.role.is_master
    assert (config.broker_id, config.ha_port, config.ha_master_address) == (0, None, None)


def test_a_master_has_the_id_0() -> None:
    with pytest.raises(ValueError, match="broker_id must be 0 for a master"):
        BrokerConfig(broker_id=1)


@pytest.mark.parametrize("broker_id", [-1, 0, 2**31])
def test_a_slave_has_an_id_above_0(broker_id: int) -> None:
    with pytest.raises(ValueError, match="broker_id of a slave must be 1 to"):
        BrokerConfig(role=BrokerRole.SLAVE, broker_id=broker_id)


def test_a_slave_is_no_master() -> None:
    assert not BrokerConfig(role=BrokerRole.SLAVE, broker_id=1).role.is_master


def test_a_master_that_waits_for_slaves_serves_them() -> None:
    with pytest.raises(ValueError, match="SYNC_MASTER needs ha_port"):
        BrokerConfig(role=BrokerRole.SYNC_MASTER)
    assert BrokerConfig(role=BrokerRole.SYNC_MASTER, ha_port=0).ha_port == 0
