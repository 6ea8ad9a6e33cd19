"""One decision: may this user do this to this resource, from this address?

    super user ─► yes
    Custom entries that match resource, action and address ─┬─ some ─► the best of them decides
                                                            └─ none ─► the same with Default ones
    no entry at all ─► no

The best entry is the most exact one: a named type before ``*``; a literal name before a prefix,
a prefix before every name; of two prefixes the longer; of two alike the one that denies.  That is
the order RocketMQ documents and has since the fix of 5.3.3, where a shorter prefix could win.

The table of all needs of a request is in `needs`.  Invariant: a decision depends on its arguments
alone, and its reason names the entry that decided.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flintmq.access.rules import (
    Action,
    Decision,
    Entry,
    Pattern,
    Policies,
    PolicyType,
    Resource,
    ResourceType,
    User,
)
from flintmq.access.sources import IpAddress

_NO_POLICIES = Policies()
_EXACTNESS = {Pattern.LITERAL: 2, Pattern.PREFIXED: 1, Pattern.ANY: 0}


@dataclass(frozen=True, slots=True)
class Need:
    """A right that a request needs: one of these actions on the resource."""

    resource: Resource
    actions: frozenset[Action]

    def __str__(self) -> str:
        return f"{' or '.join(action.title for action in sorted(self.actions))} {self.resource}"


@dataclass(frozen=True, slots=True)
class AccessVerdict:
    """What was decided about one need, and by which rule."""

    is_allowed: bool
    entry: Entry | None = None
    """The entry that decided; None for a super user, or where no entry matches."""
    policy: PolicyType | None = None


def decide(user: User, policies: Policies, need: Need, source: IpAddress | None) -> AccessVerdict:
    """Decide about one need of a user.  ``source`` is None where a peer has no IP address."""
    if user.is_super:
        return AccessVerdict(is_allowed=True)
    for policy in PolicyType:
        matching = [
            entry for entry in policies.of_type(policy) if entry_matches(entry, need, source)
        ]
        if matching:
            best = best_entry(matching)
            return AccessVerdict(best.decision is Decision.ALLOW, best, policy)
    return AccessVerdict(is_allowed=False)


def entry_matches(entry: Entry, need: Need, source: IpAddress | None) -> bool:
    """Whether an entry speaks of this need at all."""
    return (
        (Action.ALL in entry.actions or not entry.actions.isdisjoint(need.actions))
        and entry.resource.covers(need.resource)
        and _comes_from(entry, source)
    )


def best_entry(entries: Iterable[Entry]) -> Entry:
    """The most exact of several entries; of two that are equally exact the one that denies."""
    return max(entries, key=_rank)


def _rank(entry: Entry) -> tuple[bool, int, int, bool]:
    resource = entry.resource
    return (
        resource.type is not ResourceType.ANY,
        _EXACTNESS[resource.pattern],
        len(resource.name),
        entry.decision is Decision.DENY,
    )


def _comes_from(entry: Entry, source: IpAddress | None) -> bool:
    if not entry.sources:
        return True
    return source is not None and any(each.has(source) for each in entry.sources)
