"""What the properties of a send say to the broker, and what the broker puts to them.

Most messages ask for nothing special.  Their property string is stored as it came with our
marks behind it, which saves joining again what was taken apart; the result is the same but
for the order of names.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from flintmq.broker.config.broker_config import BrokerConfig
from flintmq.broker.scheduled.append import TIMER_NAMES
from flintmq.model import properties as names
from flintmq.model.message import PROPERTY_SEPARATOR
from flintmq.protocol.records.properties import PROPERTIES_BYTES_MAX

KEPT_MAX = 64
"""Marks remembered as text: a process has few brokers, and each has one at a time."""

_MARKS = (names.MSG_REGION, names.TRACE_ON, names.CLUSTER)
_SPECIAL = frozenset(
    {
        *_MARKS,
        *TIMER_NAMES,
        names.DELAY,
        names.TRAN_MSG,
        names.POP_CK,
        names.INNER_NUM,
        names.INNER_MULTI_DISPATCH,
        names.INNER_MULTI_QUEUE_OFFSET,
    }
)
"""Names that change where a message goes or what is stored of it."""


def mark(properties: dict[str, str], config: BrokerConfig) -> None:
    """Make properties those that are stored: with region and trace, without a pop receipt."""
    properties.pop(names.POP_CK, None)
    properties[names.MSG_REGION] = config.region
    properties[names.TRACE_ON] = "true" if config.trace_on else "false"


def plain_string(text: str, properties: Mapping[str, str], config: BrokerConfig) -> bytes | None:
    """What is stored of a message that asks for nothing special; nothing for any other.

    ``properties`` is ``text`` parsed.  They say the same only if no piece was dropped.
    """
    if not properties.keys().isdisjoint(_SPECIAL) or config.bit_map_filter:
        return None
    if not text.endswith(PROPERTY_SEPARATOR):
        text += PROPERTY_SEPARATOR
    if text.count(PROPERTY_SEPARATOR) != len(properties):
        return None
    text += _marks(config.region, config.trace_on, config.cluster)
    try:
        octets = text.encode()
    except UnicodeEncodeError:
        return None
    return octets if len(octets) <= PROPERTIES_BYTES_MAX else None


def waits_for_disk(properties: Mapping[str, str]) -> bool:
    """Whether the sender waits until its messages are on the disk."""
    wait = properties.get(names.WAIT)
    return wait is None or wait == "true" or wait.lower() == "true"


@lru_cache(maxsize=KEPT_MAX)
def _marks(region: str, trace_on: bool, cluster: str) -> str:
    values = (region, "true" if trace_on else "false", cluster)
    return "".join(f"{name}\x01{value}\x02" for name, value in zip(_MARKS, values, strict=True))
