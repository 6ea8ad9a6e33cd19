"""Decisions of access control, made by hand."""

from __future__ import annotations

from flintmq.access.control import AccessRefusal
from flintmq.net.servers.access_gate import AccessDecision
from flintmq.protocol.codes import RequestCode, ResponseCode


def a_refusal(user: str) -> AccessDecision:
    """Somebody was refused."""
    return AccessDecision(
        RequestCode.GET_BROKER_CONFIG,
        "127.0.0.1:1234",
        AccessRefusal(ResponseCode.NO_PERMISSION, f"User:{user} has no permission", user),
    )
