"""CONSUME_MESSAGE_DIRECTLY (309): what a listener made of one message, asked for by hand."""

from __future__ import annotations

from enum import StrEnum

from flintmq.protocol.bodies.body import Body
from flintmq.protocol.fields import Int64


class DirectOutcome(StrEnum):
    """How the listener ended."""

    SUCCESS = "CR_SUCCESS"
    LATER = "CR_LATER"
    ROLLBACK = "CR_ROLLBACK"
    COMMIT = "CR_COMMIT"
    THREW = "CR_THROW_EXCEPTION"
    RETURNED_NULL = "CR_RETURN_NULL"


class DirectResult(Body, frozen=True, kw_only=True):
    """``remark`` holds the exception, if there was one."""

    auto_commit: bool = True
    consume_result: DirectOutcome | None = None
    order: bool = False
    remark: str | None = None
    spent_time_mills: Int64 = 0
