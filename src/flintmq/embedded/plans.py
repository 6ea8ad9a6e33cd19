"""Which brokers an embedded broker runs, and where each has its store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from string import ascii_lowercase

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.embedded.servers import BrokerPlan
from flintmq.model.broker_role import BrokerRole
from flintmq.net.address import Address


def broker_plans(
    directory: Path, config: BrokerConfig, listen: Address, brokers: int, slaves: int
) -> list[BrokerPlan]:
    """One broker in the directory itself; several, and slaves, in a directory each."""
    if brokers == 1 and not slaves:
        return [BrokerPlan(directory=directory, config=config, listen=listen)]
    if slaves and config.ha_port is None:
        config = replace(config, ha_port=0)
    names = [config.broker_name]
    if brokers > 1:
        names = [f"broker-{letter}" for letter in ascii_lowercase[:brokers]]
    plans = []
    for name in names:
        master = replace(config, broker_name=name)
        plans.append(BrokerPlan(directory=directory / name, config=master, listen=listen))
        for broker_id in range(1, slaves + 1):
            slave = replace(master, role=BrokerRole.SLAVE, broker_id=broker_id)
            plans.append(BrokerPlan(directory=directory / f"{name}-{broker_id}", config=slave))
    return plans
