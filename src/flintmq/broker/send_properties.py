"""What the properties of a send say to the broker, and what the broker puts to them."""

from __future__ import annotations

from collections.abc import Mapping

from flintmq.broker.state import BrokerState
from flintmq.model import properties as names
from flintmq.protocol.properties import parse_properties


def taken_properties(state: BrokerState, text: str | None) -> dict[str, str]:
    """The properties of a send as they are stored: with our marks, without a pop receipt."""
    config = state.config
    properties = parse_properties(text) if text else {}
    properties.pop(names.POP_CK, None)
    properties[names.MSG_REGION] = config.region
    properties[names.TRACE_ON] = "true" if config.trace_on else "false"
    return properties


def waits_for_medium(properties: Mapping[str, str]) -> bool:
    """Whether the sender waits until its messages are on the medium."""
    wait = properties.get(names.WAIT)
    return wait is None or wait == "true" or wait.lower() == "true"
