"""Roles on the command line: what is left out follows from the role, nonsense is refused."""

from __future__ import annotations

import pytest

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.cli.shared.server_options import ReplicaOptions
from flintmq.errors import InvalidSetting
from flintmq.model.broker_role import BrokerRole

SYNC, ASYNC, SLAVE = BrokerRole.SYNC_MASTER, BrokerRole.ASYNC_MASTER, BrokerRole.SLAVE


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (ReplicaOptions(), (ASYNC, 0, None, None)),
        (ReplicaOptions(ASYNC), (ASYNC, 0, 0, None)),
        (ReplicaOptions(SYNC), (SYNC, 0, 0, None)),
        (ReplicaOptions(SLAVE), (SLAVE, 1, 0, None)),
        (ReplicaOptions(SLAVE, 7, 9_999, "10.0.0.1:10912"), (SLAVE, 7, 9_999, "10.0.0.1:10912")),
        (ReplicaOptions(ha_port=20912), (ASYNC, 0, 20912, None)),
    ],
)
def test_what_is_not_said_follows_from_the_role(
    options: ReplicaOptions, expected: tuple[object, ...]
) -> None:
    found = options.applied(BrokerConfig())

    assert (found.role, found.broker_id, found.ha_port, found.ha_master_address) == expected


def test_the_command_line_is_stronger_than_the_file() -> None:
    file = BrokerConfig(role=SLAVE, broker_id=3, ha_port=0)

    assert ReplicaOptions().applied(file) == file
    assert ReplicaOptions(SLAVE).applied(file).broker_id == 3
    master = ReplicaOptions(SYNC).applied(file)
    assert (master.role, master.broker_id) == (SYNC, 0)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (ReplicaOptions(SLAVE, 0), "broker_id of a slave must be 1 to"),
        (ReplicaOptions(SYNC, 1), "broker_id must be 0 for a master"),
        (ReplicaOptions(broker_id=1), "broker_id must be 0 for a master: give it the role SLAVE"),
        (ReplicaOptions(ha_master="10.0.0.1:10912"), "a master has none: --role SLAVE"),
        (ReplicaOptions(SLAVE, 1, None, "nowhere"), "nowhere"),
    ],
)
def test_a_combination_that_makes_no_sense_is_refused(options: ReplicaOptions, reason: str) -> None:
    with pytest.raises(InvalidSetting, match=reason):
        options.applied(BrokerConfig())


@pytest.mark.parametrize(("given", "rate"), [(None, 7), (0, 0), (3, 3 * 1024 * 1024)])
def test_the_rate_of_the_scrub_is_that_of_the_file_unless_given(
    given: int | None, rate: int
) -> None:
    config = BrokerConfig(scrub_bytes_per_s=7)

    assert ReplicaOptions(scrub_mib=given).applied(config).scrub_bytes_per_s == rate
