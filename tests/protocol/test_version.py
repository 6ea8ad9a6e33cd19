"""Versions have the numbers that RocketMQ gives them."""

from __future__ import annotations

import pytest

from flintmq.protocol import version
from flintmq.protocol.version import VERSION_NAMES, version_name, version_number

KNOWN = {
    "V3_0_0_SNAPSHOT": 0,
    "V3_0_0_BETA6": 8,
    "V3_0_0_FINAL": 15,
    "V3_0_1": 17,
    "V3_0_7_SNAPSHOT": 28,
    "V3_0_11": 37,
    "V3_0_15": 45,
    "V3_1_8_SNAPSHOT": 62,
    "V3_1_8": 63,
    "V3_3_1": 87,
    "V3_4_9": 121,
    "V3_9_9": 211,
    "V4_0_0": 213,
    "V4_1_0_SNAPSHOT": 232,
    "V4_1_0": 233,
    "V4_5_2": 317,
    "V4_6_0": 333,
    "V4_9_0": 393,
    "V4_9_3": 399,
    "V4_9_4": 401,
    "V4_9_7": 407,
    "V4_9_8": 409,
    "V5_0_0": 413,
    "V5_1_4": 441,
    "V5_2_0": 453,
    "V5_3_1": 475,
    "V5_3_3": 479,
    "V5_9_9": 611,
    "HIGHER_VERSION": 612,
}


@pytest.mark.parametrize(("name", "number"), KNOWN.items())
def test_a_version_has_its_number(name: str, number: int) -> None:
    assert version_number(name) == number
    assert version_name(number) == name


def test_from_4_0_on_numbers_follow_a_formula() -> None:
    for first, major in ((213, 4), (413, 5)):
        for minor in range(10):
            for patch in range(10):
                number = first + 20 * minor + 2 * patch

                assert version_name(number) == f"V{major}_{minor}_{patch}"
                assert version_name(number - 1) == f"V{major}_{minor}_{patch}_SNAPSHOT"


def test_each_name_has_one_number() -> None:
    assert [version_number(name) for name in VERSION_NAMES] == list(range(613))


@pytest.mark.parametrize("number", [612, 613, 2**31 - 1, -1])
def test_a_number_outside_the_list_is_some_higher_version(number: int) -> None:
    assert version_name(number) == "HIGHER_VERSION"


def test_an_unknown_name_has_no_number() -> None:
    with pytest.raises(KeyError):
        version_number("V6_0_0")


def test_peers_change_their_ways_at_the_known_numbers() -> None:
    assert version.CLIENT_RESET_SINCE == 28
    assert version.REGISTER_BODY_SINCE == 37
    assert version.CLIENT_CALLS_SINCE == 62
    assert version.SQL92_SINCE == 232
    assert version.QUERY_FLAG_UNSIGNED_UNTIL == 399
    assert version.STANDARD_JSON_SINCE == 401
    assert version.QUEUE_MAPPING_SINCE == 413
