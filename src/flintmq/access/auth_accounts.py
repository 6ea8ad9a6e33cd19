"""ACL 2.0: users and their policies, as requests 3001 to 3010 create, change and list them.

    create_user · update_user · delete_user          ► RuleSet with the change
    create_policies · update_policies · delete_…     ► RuleSet with the change

Each function takes the rules in force and gives the rules after the change, or raises
`AuthRefused` with RocketMQ's code and text; nothing is changed then.  The caller keeps the result
on disk before it takes effect.

What travels is in `protocol.bodies.account_bodies`; `AccountsFile` is what we store: one readable
file in place of two RocksDB databases.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from flintmq.access.rules import (
    Action,
    Decision,
    Entry,
    Policies,
    PolicyType,
    Resource,
    RuleSet,
    User,
)
from flintmq.access.sources import parse_range
from flintmq.errors import FlintError, InvalidSetting
from flintmq.protocol.bodies.account_bodies import AclBody, EntryBody, PolicyBody, UserBody
from flintmq.protocol.bodies.body import Body
from flintmq.protocol.codes import ResponseCode

SUBJECT_PREFIX: Final = "User:"


class AuthRefused(FlintError):
    """A change of users or policies that cannot be made."""

    def __init__(self, reason: str, code: ResponseCode = ResponseCode.NO_PERMISSION) -> None:
        super().__init__(reason, code)
        self.reason, self.code = reason, code

    def __str__(self) -> str:
        return self.reason


class AccountsFile(Body, frozen=True, kw_only=True):
    """Users and policies on disk."""

    acls: tuple[AclBody, ...] = ()
    users: tuple[UserBody, ...] = ()


# Users


def create_user(rules: RuleSet, name: str, given: UserBody, asker: User | None) -> RuleSet:
    """AUTH_CREATE_USER (3001).  ``asker`` is None where the broker itself makes the user."""
    if not name.strip():
        raise AuthRefused("The username is blank", ResponseCode.INVALID_PARAMETER)
    if name in rules.users:
        raise AuthRefused("The user is existed")
    if given.password is None or not given.password.strip():
        raise AuthRefused("password can not be blank")
    is_super = _is(given.user_type, "Super")
    if is_super and asker is not None and not asker.is_super:
        reason = "The super user can only be create by super user"
        raise AuthRefused(reason, ResponseCode.SYSTEM_ERROR)
    is_enabled = not _is(given.user_status, "disable")
    user = User(name, given.password, is_super=is_super, is_enabled=is_enabled)
    return replace(rules, users={**rules.users, name: user})


def update_user(rules: RuleSet, name: str, given: UserBody, asker: User | None) -> RuleSet:
    """AUTH_UPDATE_USER (3002): only what is given changes."""
    if not name.strip():
        raise AuthRefused("The username is blank", ResponseCode.INVALID_PARAMETER)
    user = rules.users.get(name)
    if user is None:
        raise AuthRefused("The user is not exist")
    becomes_super = _is(given.user_type, "Super")
    if asker is not None and not asker.is_super:
        if user.is_super:
            raise AuthRefused("The super user can only be update by super user")
        if becomes_super:
            reason = "The super user can only be update by super user"
            raise AuthRefused(reason, ResponseCode.SYSTEM_ERROR)
    changed = replace(
        user,
        secret=given.password if given.password and given.password.strip() else user.secret,
        is_super=user.is_super if given.user_type is None else becomes_super,
        is_enabled=(
            user.is_enabled if given.user_status is None else not _is(given.user_status, "disable")
        ),
    )
    return replace(rules, users={**rules.users, name: changed})


def delete_user(rules: RuleSet, name: str, asker: User | None) -> RuleSet:
    """AUTH_DELETE_USER (3003): the user and its policies; an unknown user is no fault."""
    user = rules.users.get(name)
    if user is None:
        return rules
    if user.is_super and asker is not None and not asker.is_super:
        raise AuthRefused("The super user can only be delete by super user")
    users = {key: value for key, value in rules.users.items() if key != name}
    policies = {key: value for key, value in rules.policies.items() if key != name}
    return replace(rules, users=users, policies=policies)


def user_body(user: User, *, secret: bool) -> UserBody:
    """A user as the answers of AUTH_GET_USER (3004) and AUTH_LIST_USER (3005) have it."""
    return UserBody(
        username=user.name,
        password=user.secret if secret else "******",
        user_type="Super" if user.is_super else "Normal",
        user_status="enable" if user.is_enabled else "disable",
    )


# Policies


def change_policies(rules: RuleSet, subject: str, given: AclBody) -> RuleSet:
    """AUTH_CREATE_ACL (3006) and AUTH_UPDATE_ACL (3007): add entries, replace those alike.

    An entry with the same resource is replaced where it is; others stay, new ones come last.
    """
    name = subject_name(subject)
    if name not in rules.users:
        raise AuthRefused(f"The subject of {subject} is not exist.")
    policies = rules.policies.get(name, Policies())
    for policy in given.policies:
        is_default = _is(policy.policy_type, PolicyType.DEFAULT.title)
        type_ = PolicyType.DEFAULT if is_default else PolicyType.CUSTOM
        merged = _merged(policies.of_type(type_), map(read_entry, policy.entries))
        policies = _with(policies, type_, merged)
    return replace(rules, policies={**rules.policies, name: policies})


def delete_policies(
    rules: RuleSet, subject: str, resource: str | None, policy_type: str | None
) -> RuleSet:
    """AUTH_DELETE_ACL (3008): one entry, or all of a subject."""
    name = subject_name(subject)
    if name not in rules.users:
        raise AuthRefused("The subject is not exist.")
    policies = rules.policies.get(name)
    if policies is None:
        raise AuthRefused("The acl is not exist.")
    if resource:
        wanted = Resource.parse(resource)
        is_default = _is(policy_type, PolicyType.DEFAULT.title)
        type_ = PolicyType.DEFAULT if is_default else PolicyType.CUSTOM
        kept = tuple(e for e in policies.of_type(type_) if e.resource != wanted)
        policies = _with(policies, type_, kept)
    else:
        policies = Policies()
    others = {key: value for key, value in rules.policies.items() if key != name}
    if policies != Policies():
        others[name] = policies
    return replace(rules, policies=others)


def acl_body(name: str, policies: Policies, resource_filter: str | None = None) -> AclBody:
    """Policies as the answers of AUTH_GET_ACL (3009) and AUTH_LIST_ACL (3010) have them."""
    shown = []
    for type_ in PolicyType:
        entries = tuple(
            _entry_body(entry)
            for entry in policies.of_type(type_)
            if not resource_filter or resource_filter in str(entry.resource)
        )
        if entries:
            shown.append(PolicyBody(policy_type=type_.title, entries=entries))
    return AclBody(subject=SUBJECT_PREFIX + name, policies=tuple(shown))


def subject_name(subject: str) -> str:
    """The user behind ``User:name``."""
    kind, colon, name = subject.partition(":")
    if not colon or kind.strip().lower() != "user" or not name:
        reason = "An system error occurred, please try again later."
        raise AuthRefused(reason, ResponseCode.SYSTEM_ERROR)
    return name


def read_entry(given: EntryBody) -> Entry:
    """An entry from its body.  Raises `AuthRefused` with RocketMQ's text for a wrong one."""
    resource = Resource.parse(given.resource or "")
    if resource is None:
        raise AuthRefused("The resource is null.")
    actions = frozenset(filter(None, map(Action.parse, given.actions)))
    if not actions:
        raise AuthRefused("The actions is empty.")
    if Action.ANY in actions:
        raise AuthRefused("The actions can not be Any.")
    try:
        sources = tuple(map(parse_range, given.source_ips or ()))
    except InvalidSetting:
        raise AuthRefused("The source ip is invalid.") from None
    decision = Decision.__members__.get((given.decision or "").upper())
    if decision is None:
        raise AuthRefused("The decision is null or illegal.")
    return Entry(resource, actions, decision, sources)


# Files


def rules_of_accounts(file: AccountsFile) -> RuleSet:
    """The rules of a file.  Raises `InvalidSetting` naming what is wrong in it."""
    rules = RuleSet()
    try:
        for user in file.users:
            rules = create_user(rules, user.username or "", user, None)
        for acl in file.acls:
            rules = change_policies(rules, acl.subject or "", acl)
    except AuthRefused as error:
        raise InvalidSetting("accounts", "", str(error)) from None
    return rules


def accounts_of_rules(rules: RuleSet) -> AccountsFile:
    """The file that gives these rules again."""
    return AccountsFile(
        users=tuple(user_body(user, secret=True) for user in rules.users.values()),
        acls=tuple(acl_body(name, policies) for name, policies in rules.policies.items()),
    )


def _merged(entries: Iterable[Entry], changes: Iterable[Entry]) -> tuple[Entry, ...]:
    merged = {entry.resource: entry for entry in entries}
    merged.update((entry.resource, entry) for entry in changes)
    return tuple(merged.values())


def _with(policies: Policies, type_: PolicyType, entries: tuple[Entry, ...]) -> Policies:
    if type_ is PolicyType.CUSTOM:
        return replace(policies, custom=entries)
    return replace(policies, default=entries)


def _entry_body(entry: Entry) -> EntryBody:
    return EntryBody(
        resource=str(entry.resource),
        actions=tuple(action.title for action in sorted(entry.actions)),
        source_ips=tuple(map(str, entry.sources)) or None,
        decision=entry.decision.title,
    )


def _is(given: str | None, name: str) -> bool:
    return given is not None and given.strip().lower() == name.lower()
