"""Where a group without an offset begins to pop: the one choice brokers leave."""

from __future__ import annotations

from flintmq.core.group.consumer_settings import POP_STARTS
from flintmq.core.pop.pop_request import START_AT_END, START_AT_FIRST
from flintmq.errors import InvalidSetting
from flintmq.model.group import ConsumeFromWhere


def pop_start_mode(start_from: object) -> int:
    """What a pop says about where a new group begins; Java says the end of all but the first."""
    is_first = start_from == ConsumeFromWhere.FIRST_OFFSET
    return START_AT_FIRST if is_first else START_AT_END


def check_pop_start(start_from: object) -> None:
    """Raise `InvalidSetting` for a start that a pop cannot ask for."""
    if start_from not in POP_STARTS:
        reason = "a broker that hands messages out starts at first or last; consume by pull for it"
        raise InvalidSetting("start_from", str(start_from), reason)
