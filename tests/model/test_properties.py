"""Users may set every property name except those that clients and brokers act on."""

from __future__ import annotations

import pytest

from flintmq.model import properties


def test_names_that_steer_a_broker_are_kept_from_users() -> None:
    steering = {
        "TAGS",
        "KEYS",
        "DELAY",
        "WAIT",
        "UNIQ_KEY",
        "TRAN_MSG",
        "REAL_TOPIC",
        "TIMER_OUT_MS",
    }

    assert steering <= properties.SYSTEM_NAMES


@pytest.mark.parametrize(
    "name",
    [
        properties.SHARDING_KEY,
        properties.CHECK_IMMUNITY_SECONDS,
        properties.INNER_MULTI_DISPATCH,
        properties.INNER_NUM,
        properties.TRANSACTION_ID,
    ],
)
def test_names_java_leaves_open_are_open(name: str) -> None:
    assert name not in properties.SYSTEM_NAMES


def test_the_list_is_complete() -> None:
    """51 names are marked in the description of the format."""
    assert len(properties.SYSTEM_NAMES) == 51


def test_every_system_name_has_a_constant() -> None:
    constants = {value for name, value in vars(properties).items() if name.isupper()} - {
        properties.SYSTEM_NAMES
    }

    assert constants >= properties.SYSTEM_NAMES
