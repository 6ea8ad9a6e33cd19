"""Refusals because of rights: which ones they are, and what their user can do.

Brokers of 5.x say so by code 16.  Those of 4.9 say code 1 and name their exception; there is no
other way to tell.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeGuard

from flintmq.errors import BrokerRefused
from flintmq.protocol.codes import ResponseCode

_ACL_EXCEPTION: Final = "AclException"
"""Part of the remark of 4.9."""


def is_access_refusal(error: BaseException | None) -> TypeGuard[BrokerRefused]:
    """Whether an account was refused, or the lack of one."""
    if not isinstance(error, BrokerRefused):
        return False
    if error.code == ResponseCode.SYSTEM_ERROR:
        return _ACL_EXCEPTION in error.remark
    return error.code == ResponseCode.NO_PERMISSION


def explain_access(
    error: BrokerRefused, account: str | None, group: str, topics: Iterable[str]
) -> BrokerRefused:
    """The refusal of a consumer, with what to do about it."""
    if account is None:
        advice = "no account was given: set access_key and secret_key to one"
    else:
        advice = f"see that the secret_key is right and that the account {account!r} is one"
    names = ", ".join(map(repr, sorted(topics)))
    text = f"{error.remark} ({advice} that may consume (SUB) topic {names} and group {group!r})"
    return BrokerRefused(error.code, text, error.address)
