"""Who may do what: users, policies and accounts of the brokers.  Secrets are never asked for."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from flintmq.console.showing.asked import Asked
from flintmq.console.showing.page import Values, sentence
from flintmq.errors import BrokerRefused, FlintError
from flintmq.protocol.codes import ResponseCode

T = TypeVar("T")


async def load_access(asked: Asked) -> Values:
    """Both dialects; a broker that has none of one, or refuses, says why."""
    await asked.cluster.names()  # a cluster that is away is an error of the whole page
    admin = asked.cluster.admin
    users, no_users = await _or_refusal(admin.users())
    policies, _ = await _or_refusal(admin.policies())
    accounts, no_accounts = await _or_refusal(admin.accounts())
    return {
        "users": users,
        "policies": policies,
        "no_users": no_users,
        "accounts": accounts,
        "no_accounts": no_accounts,
    }


async def _or_refusal(question: Awaitable[list[T]]) -> tuple[list[T], str]:
    try:
        return await question, ""
    except BrokerRefused as error:
        if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return [], "the brokers have none, access control of this kind is off"
        return [], sentence(error)
    except FlintError as error:  # 4.9 without accounts sends a body that is no answer
        return [], sentence(error)
