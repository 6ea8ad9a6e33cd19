"""Why a user may or may not do something, in words and with the rule that decided.

    alice · Pub · Topic:orders · from 10.0.0.7 ─► denied: Custom entry "Deny All on Topic:orders …"

It asks the same `AccessControl` that stands before a server, so that an explanation cannot differ
from what happens.  A signature is taken as right: it is the rules that are explained.
"""

from __future__ import annotations

from dataclasses import dataclass

from flintmq.access.control import AccessControl
from flintmq.access.decide import Need
from flintmq.access.rules import Action, Entry, Pattern, PolicyType, Resource, ResourceType
from flintmq.access.sources import IpAddress
from flintmq.errors import InvalidSetting


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision and its reason."""

    is_allowed: bool
    reason: str
    entry: Entry | None = None
    """The entry that decided, if one did."""
    policy: PolicyType | None = None


def explain(
    control: AccessControl, user_name: str, need: Need, source: IpAddress | None
) -> Explanation:
    """What is decided about a user who signs correctly and needs this."""
    if control.is_trusted(source):
        return Explanation(True, f"everything from {source} passes (globalWhiteRemoteAddresses)")
    user = control.rules.users.get(user_name)
    if user is None:
        return Explanation(False, f"there is no user {user_name!r}")
    if not user.is_enabled:
        return Explanation(False, f"user {user_name!r} is disabled")
    if control.is_trusted_for(user, source):
        reason = f"everything that names {user_name!r} from {source} passes (whiteRemoteAddress)"
        return Explanation(True, reason)
    if user.is_super:
        return Explanation(True, f"{user_name!r} is a super user")
    verdict = control.verdict(user, need, source)
    if verdict.entry is None:
        if control.is_open(need):
            return Explanation(True, "every account may write message traces")
        return Explanation(False, "no entry matches, and what is not allowed is denied")
    assert verdict.policy is not None
    if not verdict.is_allowed and control.is_open(need):
        return Explanation(True, "every account may write message traces")
    reason = f"{verdict.policy.title} entry: {verdict.entry}"
    return Explanation(verdict.is_allowed, reason, verdict.entry, verdict.policy)


def parse_need(action: str, resource: str) -> Need:
    """``Pub`` and ``Topic:orders`` as a need.  `InvalidSetting` says what is wrong."""
    known = Action.parse(action)
    if known is None or known in (Action.ALL, Action.ANY):
        names = ", ".join(each.title for each in Action if each not in (Action.ALL, Action.ANY))
        raise InvalidSetting("action", action, f"must be one of {names}")
    parsed = Resource.parse(resource)
    if parsed is None or parsed.type is ResourceType.ANY or parsed.pattern is not Pattern.LITERAL:
        reason = "must be one resource, as Topic:orders, Group:billing or Cluster:DefaultCluster"
        raise InvalidSetting("resource", resource, reason)
    return Need(parsed, frozenset({known}))
