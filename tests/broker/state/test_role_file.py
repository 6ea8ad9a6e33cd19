"""A role that was given to a broker outlasts restarts with old settings, and yields to new ones."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.state.role_file import role_in_force, saved_role
from flintmq.broker.tables.broker_tables import NextRole
from flintmq.errors import StoreRefused
from flintmq.model.broker_role import BrokerRole

AS_SLAVE = BrokerConfig(role=BrokerRole.SLAVE, broker_id=1, ha_port=0)
AS_MASTER = BrokerConfig(role=BrokerRole.SYNC_MASTER, ha_port=0)
TO_MASTER = NextRole(BrokerRole.SYNC_MASTER, 0, copies_tables=True)
TO_SLAVE = NextRole(BrokerRole.SLAVE, 1, copies_tables=True)


def test_without_a_saved_role_the_settings_count() -> None:
    assert role_in_force(AS_SLAVE, None, "here") == AS_SLAVE


def test_a_promoted_slave_stays_the_master_with_its_old_settings(
    caplog: pytest.LogCaptureFixture,
) -> None:
    saved = saved_role(AS_SLAVE, TO_MASTER, None)

    with caplog.at_level(logging.WARNING):
        found = role_in_force(AS_SLAVE, saved, "here")

    assert found == AS_MASTER
    assert "change them" in caplog.text


def test_settings_that_somebody_changed_count_again() -> None:
    saved = saved_role(AS_SLAVE, TO_MASTER, None)
    other = replace(AS_SLAVE, broker_id=2)

    assert role_in_force(other, saved, "here") == other
    assert role_in_force(AS_MASTER, saved, "here") == AS_MASTER


def test_a_switch_there_and_back_again_ends_at_the_settings() -> None:
    once = saved_role(AS_SLAVE, TO_MASTER, None)
    back = saved_role(role_in_force(AS_SLAVE, once, "here"), TO_SLAVE, once)

    assert (back.set_role, back.set_broker_id) == ("SLAVE", 1)
    assert role_in_force(AS_SLAVE, back, "here") == AS_SLAVE


def test_a_master_without_a_port_for_slaves_gets_one_with_its_role() -> None:
    plain = BrokerConfig()
    saved = saved_role(plain, TO_SLAVE, None)

    assert role_in_force(plain, saved, "here").ha_port == 0


def test_a_saved_role_that_nobody_has_stops_the_start() -> None:
    saved = saved_role(AS_SLAVE, NextRole(BrokerRole.SYNC_MASTER, 7, copies_tables=True), None)

    with pytest.raises(StoreRefused, match="makes no sense"):
        role_in_force(AS_SLAVE, saved, "here")
