"""Users of an embedded broker, as Python values: access control for tests in one line.

    EmbeddedBroker(accounts=[EmbeddedUser("alice", allow={"Topic:orders": "Pub, Sub"})])

They become users and policies of ACL 2.0, in the accounts.json that a server reads.  A password is
made up where none is given: `EmbeddedBroker.account` has it for clients.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flintmq.access.accounts import AUTH_FILE
from flintmq.access.auth_accounts import (
    AuthRefused,
    accounts_of_rules,
    change_policies,
    create_user,
)
from flintmq.access.rules import Action, RuleSet
from flintmq.errors import InvalidSetting
from flintmq.protocol.bodies.account_bodies import AclBody, EntryBody, PolicyBody, UserBody
from flintmq.store.files.disk import Disk


@dataclass(frozen=True, slots=True)
class EmbeddedUser:
    """A user, and what it may do; without rights it may do nothing."""

    name: str
    password: str = field(default_factory=lambda: secrets.token_urlsafe(16), repr=False)
    allow: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    """Resources, as ``Topic:orders*``, and the actions on them, with commas: ``Pub, Sub``."""
    deny: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    is_super: bool = field(default=False, kw_only=True)


def rules_of_users(users: Sequence[EmbeddedUser]) -> RuleSet:
    """The rules these users have.  `InvalidSetting` names what is wrong with one."""
    rules = RuleSet()
    for user in users:
        entries = [
            EntryBody(resource=resource, actions=_actions(user, actions), decision=decision)
            for decision, given in (("Allow", user.allow), ("Deny", user.deny))
            for resource, actions in given.items()
        ]
        body = UserBody(password=user.password, user_type="Super" if user.is_super else "Normal")
        acl = AclBody(policies=(PolicyBody(policy_type="Custom", entries=tuple(entries)),))
        try:
            rules = create_user(rules, user.name, body, None)
            if entries:
                rules = change_policies(rules, f"User:{user.name}", acl)
        except AuthRefused as error:
            raise InvalidSetting("accounts", user.name, error.reason) from None
    return rules


def write_users(users: Sequence[EmbeddedUser], directory: Path) -> None:
    """Keep the users where servers read them; what was there before is replaced."""
    with Disk() as disk:
        disk.make_directory(directory)
        disk.replace(directory / AUTH_FILE, accounts_of_rules(rules_of_users(users)).to_file())


def _actions(user: EmbeddedUser, text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(","))
    for name in names:
        if Action.parse(name) is None:
            reason = f"{name!r} is no action; known are Pub, Sub, Create, Update, Delete, Get, All"
            raise InvalidSetting("accounts", user.name, reason)
    return names
