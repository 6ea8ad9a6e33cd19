"""The answer to a timer message whose time cannot be meant."""

from __future__ import annotations

from flintmq.broker.requests.outcome import Refusal
from flintmq.protocol.codes import ResponseCode


def illegal_time(delay_ms_max: int) -> Refusal:
    """Too far in the future, or past and meant to cancel another one."""
    return Refusal(
        ResponseCode.MESSAGE_ILLEGAL,
        "timer message illegal, the delay time should not be bigger than the max delay "
        f"{delay_ms_max}ms; or if set del msg, the delay time should be bigger than the "
        "current time",
    )
