"""What a user may choose about pop consumption, checked once."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from flintmq.core.pop.pop_request import START_AT_END, START_AT_FIRST
from flintmq.errors import InvalidSetting
from flintmq.model.group import ConsumeFromWhere

ConsumeMode: TypeAlias = Literal["pull", "pop", "broker"]

MODES: Final[tuple[ConsumeMode, ...]] = ("pull", "pop", "broker")

_START_MODES: Final = {
    ConsumeFromWhere.FIRST_OFFSET: START_AT_FIRST,
    ConsumeFromWhere.LAST_OFFSET: START_AT_END,
}


def pop_start_mode(start_from: object) -> int:
    """What a pop says about where a new group begins; `InvalidSetting` for what it cannot say."""
    mode = _START_MODES.get(start_from) if isinstance(start_from, ConsumeFromWhere) else None
    if mode is None:
        reason = "a broker that hands messages out starts at first or last; consume by pull for it"
        raise InvalidSetting("start_from", str(start_from), reason)
    return mode
