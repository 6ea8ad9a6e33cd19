"""Releases of RocketMQ as the numbers that commands carry.

The number is a place in a list of all releases.  From 3.0.1 on each release has its
snapshot right before it, so snapshots are even and releases odd.  The list was written in
advance: that a version has a number does not mean that it was ever released.

Numbers that peers go by have a name here that says what changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final


def _names() -> Iterator[str]:
    early = ("SNAPSHOT", "ALPHA1", *(f"BETA{n}" for n in range(1, 6)))
    later = (f"BETA{n}{end}" for n in range(6, 10) for end in ("_SNAPSHOT", ""))
    yield from (f"V3_0_0_{end}" for end in (*early, *later, "FINAL"))
    for major in (3, 4, 5):
        for minor in range(10):
            for patch in _patches(major, minor):
                yield f"V{major}_{minor}_{patch}_SNAPSHOT"
                yield f"V{major}_{minor}_{patch}"
    yield "HIGHER_VERSION"


def _patches(major: int, minor: int) -> range:
    if (major, minor) == (3, 0):
        return range(1, 16)
    return range(1 if major == 3 and minor >= 3 else 0, 10)


VERSION_NAMES: Final = tuple(_names())
_NUMBERS: Final = {name: number for number, name in enumerate(VERSION_NAMES)}


def version_name(number: int) -> str:
    """The name of a version; numbers outside the list become HIGHER_VERSION."""
    last = len(VERSION_NAMES) - 1
    return VERSION_NAMES[number if 0 <= number < last else last]


def version_number(name: str) -> int:
    """The number of a version by its name, such as V4_9_4; `KeyError` for any other."""
    return _NUMBERS[name]


CLIENT_RESET_SINCE: Final = version_number("V3_0_7_SNAPSHOT")
"""Clients from here on take RESET_CONSUMER_CLIENT_OFFSET."""

REGISTER_BODY_SINCE: Final = version_number("V3_0_11")
"""Brokers from here on register with a whole body, earlier ones with bare topics."""

CLIENT_CALLS_SINCE: Final = version_number("V3_1_8_SNAPSHOT")
"""Clients from here on answer GET_CONSUMER_RUNNING_INFO and CONSUME_MESSAGE_DIRECTLY."""

SQL92_SINCE: Final = version_number("V4_1_0_SNAPSHOT")
"""A Java consumer sends SQL92 only to brokers whose heartbeat answer is at least this."""

QUERY_FLAG_UNSIGNED_UNTIL: Final = version_number("V4_9_3")
"""Up to here ``_UNIQUE_KEY_QUERY`` is no part of what is signed; see `signature`."""

STANDARD_JSON_SINCE: Final = version_number("V4_9_4")
"""Who asks for a route from here on is given quoted keys."""

QUEUE_MAPPING_SINCE: Final = version_number("V5_0_0")
"""Brokers from here on end a compressed registration with queue mappings."""
