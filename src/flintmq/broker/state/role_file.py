"""The role a broker was given while it ran: it outlasts a restart with the old settings.

A switch of master and slave must not be undone by a machine that starts again with its old command
line.  So the role is saved in the store, with the role that the settings had at that time.  While
the settings say the same, the saved role counts; once somebody has changed them, they do.
"""

from __future__ import annotations

from dataclasses import replace

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.tables.broker_tables import NextRole
from flintmq.errors import StoreRefused
from flintmq.logs import logger
from flintmq.model.broker_role import BrokerRole
from flintmq.protocol.bodies.replica import SavedRole

log = logger(__name__)


def role_in_force(config: BrokerConfig, saved: SavedRole | None, where: str) -> BrokerConfig:
    """The settings with the role that counts.  Raises `StoreRefused` for a role nobody has."""
    if saved is None or (saved.set_role, saved.set_broker_id) != _set(config):
        return config
    try:
        role = BrokerRole(saved.role)
        ha_port = 0 if config.ha_port is None else config.ha_port
        found = replace(config, role=role, broker_id=saved.broker_id, ha_port=ha_port)
    except ValueError as error:
        raise StoreRefused(where, f"its saved role makes no sense: {error}") from None
    if (role, found.broker_id) != (config.role, config.broker_id):
        log.warning(
            "the role is %s with the id %d since the broker was given it, and not %s with the id "
            "%d as its settings say: change them",
            role.value, found.broker_id, config.role.value, config.broker_id,
        )  # fmt: skip
    return found


def saved_role(config: BrokerConfig, next_role: NextRole, before: SavedRole | None) -> SavedRole:
    """What to save when a broker with these settings in force gets another role."""
    set_role, set_broker_id = _set(config)
    if before is not None and (before.role, before.broker_id) == (set_role, set_broker_id):
        set_role, set_broker_id = before.set_role, before.set_broker_id
    return SavedRole(
        broker_id=next_role.broker_id,
        role=next_role.role.value,
        set_broker_id=set_broker_id,
        set_role=set_role,
    )


def _set(config: BrokerConfig) -> tuple[str, int]:
    return config.role.value, config.broker_id
