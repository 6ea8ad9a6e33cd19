"""What is wrong in account files, all of it: faults that a server would refuse, and warnings.

    accounts.json            users, then each entry of each policy
    plain_acl.yml, acl/…     accounts, then each of their permissions

A server stops at the first fault.  Here every one is listed with its place, together with what a
server accepts although it cannot be meant: a default permission that is none, a second account
with the same key, an entry that no request can ever match.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from flintmq.access.auth_accounts import (
    AccountsFile,
    AuthRefused,
    create_user,
    read_entry,
    subject_name,
)
from flintmq.access.needs import TABLE
from flintmq.access.plain_file import (
    PERMISSIONS,
    PlainAccount,
    load_plain_file,
    policies_of,
    read_account,
    user_of,
)
from flintmq.access.rights import Reserved
from flintmq.access.rules import (
    STAR,
    Action,
    Entry,
    Pattern,
    Resource,
    ResourceType,
    RuleSet,
)
from flintmq.access.sources import is_everywhere, parse_white_addresses
from flintmq.errors import InvalidSetting, MalformedBody
from flintmq.protocol.bodies.account_bodies import AclBody, UserBody

NEEDED: Final = frozenset(
    (right.type, action)
    for row in TABLE.values()
    if not isinstance(row, Reserved)
    for right in row
    for action in right.actions
)
"""Every kind of resource with every action that some request needs on it."""

_PLACEHOLDER: Final = "x" * 7


@dataclass(frozen=True, slots=True)
class AccountFinding:
    """Something about an account file that its owner should know."""

    place: str
    text: str
    is_fault: bool = True
    """Whether a server refuses the file for it."""


def check_accounts_file(content: bytes) -> list[AccountFinding]:
    """Everything that is wrong in an accounts.json (ACL 2.0)."""
    if not content.strip():
        return []
    try:
        file = AccountsFile.from_file(content)
    except MalformedBody as error:
        return [AccountFinding("file", str(error))]
    rules, found = RuleSet(), []
    for number, user in enumerate(file.users):
        place = f"users[{number}] {user.username or ''!r}"
        try:
            rules = create_user(rules, user.username or "", user, None)
        except AuthRefused as error:
            found.append(AccountFinding(place, _words(error)))
        found += _warn_of_user(place, user)
    seen: set[tuple[str, bool, Resource]] = set()
    for number, acl in enumerate(file.acls):
        found += _check_acl(f"acls[{number}]", acl, rules, seen)
    return found


def check_plain_files(files: Mapping[str, bytes]) -> list[AccountFinding]:
    """Everything that is wrong in files of ACL 1.0, by their names, in the order they count."""
    found: list[AccountFinding] = []
    first_at: dict[str, str] = {}
    for name, content in files.items():
        try:
            loaded = load_plain_file(content.decode())
        except UnicodeDecodeError:
            found.append(AccountFinding(name, "is no UTF-8 text"))
            continue
        except InvalidSetting as error:
            found.append(AccountFinding(name, error.reason))
            continue
        found += _check_white(name, loaded.get("globalWhiteRemoteAddresses"))
        accounts = loaded.get("accounts") or []
        if not isinstance(accounts, list):
            found.append(AccountFinding(f"{name}: accounts", "must be a list"))
            continue
        for number, given in enumerate(accounts):
            place = f"{name}: accounts[{number}]"
            if not isinstance(given, dict):
                found.append(AccountFinding(place, "an account is a map of its settings"))
                continue
            key = str(given.get("accessKey") or "")
            place = f"{place} {key!r}"
            if key in first_at:
                text = f"the access key is also at {first_at[key]}, which counts"
                found.append(AccountFinding(place, text, is_fault=False))
            elif key:
                first_at[key] = place
            found += _check_account(place, given)
    return found


# ACL 2.0


def _warn_of_user(place: str, user: UserBody) -> Iterator[AccountFinding]:
    for name, given, known in (
        ("userType", user.user_type, ("Normal", "Super")),
        ("userStatus", user.user_status, ("enable", "disable")),
    ):
        if given is not None and given.strip().lower() not in map(str.lower, known):
            text = f"{name} {given!r} is unknown and counts as {known[0]}"
            yield AccountFinding(place, text, is_fault=False)


def _check_acl(
    place: str, acl: AclBody, rules: RuleSet, seen: set[tuple[str, bool, Resource]]
) -> Iterator[AccountFinding]:
    try:
        name = subject_name(acl.subject or "")
    except AuthRefused:
        yield AccountFinding(place, f"subject {acl.subject!r} must be written as User:name")
        return
    place = f"{place} of {name!r}"
    user = rules.users.get(name)
    if user is None:
        yield AccountFinding(place, "there is no such user")
    elif user.is_super:
        text = "a super user may do everything: its policies have no effect"
        yield AccountFinding(place, text, is_fault=False)
    for number, policy in enumerate(acl.policies):
        type_ = policy.policy_type or ""
        if type_.strip().lower() not in ("", "custom", "default"):
            text = f"policyType {type_!r} is unknown and counts as 'Custom'"
            yield AccountFinding(f"{place}: policies[{number}]", text, is_fault=False)
        is_default = type_.strip().lower() == "default"
        for at, given in enumerate(policy.entries):
            where = f"{place}: policies[{number}].entries[{at}] {given.resource or ''!r}"
            for action in given.actions:
                if Action.parse(action) is None:
                    text = f"action {action!r} is unknown and ignored"
                    yield AccountFinding(where, text, is_fault=False)
            try:
                entry = read_entry(given)
            except AuthRefused as error:
                yield AccountFinding(where, _words(error))
                continue
            key = name, is_default, entry.resource
            if key in seen:
                text = "it replaces an earlier entry with the same resource, which has no effect"
                yield AccountFinding(where, text, is_fault=False)
            seen.add(key)
            if (why := _never_matches(entry)) is not None:
                yield AccountFinding(where, why, is_fault=False)


def _never_matches(entry: Entry) -> str | None:
    """Why no request can match an entry; None where one can."""
    resource = entry.resource
    if resource.pattern is not Pattern.ANY and STAR in resource.name:
        return "it can never match: only a star at the end stands for a prefix"
    if resource.type is ResourceType.NAMESPACE:
        return "it can never match: no request needs a right on a namespace"
    if resource.type is ResourceType.ANY or Action.ALL in entry.actions:
        return None
    if not any((resource.type, action) in NEEDED for action in entry.actions):
        actions = ", ".join(action.title for action in sorted(entry.actions))
        return f"it can never match: no request needs {actions} on a {resource.type.title}"
    return None


# ACL 1.0


def _check_white(name: str, given: object) -> Iterator[AccountFinding]:
    place = f"{name}: globalWhiteRemoteAddresses"
    if given is None:
        return
    if not isinstance(given, list):
        yield AccountFinding(place, "must be a list")
        return
    for text in map(str, given):
        try:
            sources = parse_white_addresses(text)
        except InvalidSetting:
            yield AccountFinding(place, f"{text!r} is no address pattern")
            continue
        everybody = "everybody who reaches the port may do everything, unsigned"
        yield AccountFinding(
            place,
            f"{text!r}: " + (everybody if any(map(is_everywhere, sources)) else "needs no account"),
            is_fault=False,
        )


def _check_account(place: str, given: Mapping[str, Any]) -> Iterator[AccountFinding]:
    try:
        account = read_account(given)
    except InvalidSetting as error:
        yield AccountFinding(f"{place}: {error.setting}", error.reason)
        return
    for name, changed in (
        ("accessKey", replace(account, secret_key=_PLACEHOLDER, white_address="")),
        ("secretKey", replace(account, access_key=_PLACEHOLDER, white_address="")),
        (
            "whiteRemoteAddress",
            replace(account, access_key=_PLACEHOLDER, secret_key=_PLACEHOLDER),
        ),
    ):
        try:
            user_of(changed)
        except InvalidSetting as error:
            yield AccountFinding(f"{place}: {name}", error.reason)
    for name, text in (
        ("defaultTopicPerm", account.default_topic_perm),
        ("defaultGroupPerm", account.default_group_perm),
    ):
        if text.strip().upper() not in PERMISSIONS:
            unknown = f"{text!r} is unknown and counts as DENY"
            yield AccountFinding(f"{place}: {name}", unknown, is_fault=False)
    for name, texts in (("topicPerms", account.topic_perms), ("groupPerms", account.group_perms)):
        yield from _check_permissions(f"{place}: {name}", name == "topicPerms", texts)


def _check_permissions(
    place: str, are_topics: bool, texts: tuple[str, ...]
) -> Iterator[AccountFinding]:
    names: set[str] = set()
    for number, text in enumerate(texts):
        where = f"{place}[{number}] {text!r}"
        alone = (text,), ()
        own, other = alone if are_topics else alone[::-1]
        try:
            policies_of(PlainAccount("", "", topic_perms=own, group_perms=other))
        except InvalidSetting as error:
            yield AccountFinding(where, error.reason.replace("\n", " "))
            continue
        resource = text.partition("=")[0].strip()
        if STAR in resource:
            never = "it can never match: ACL 1.0 knows whole names only"
            yield AccountFinding(where, never, is_fault=False)
        if resource in names:
            twice = "the name has an earlier permission too; a denial in either of them counts"
            yield AccountFinding(where, twice, is_fault=False)
        names.add(resource)


def _words(error: AuthRefused) -> str:
    """RocketMQ's text, in words that say what to do where it does not."""
    return {
        "The resource is null.": "the resource must be written as Type:name, Type:prefix* or *",
        "The actions is empty.": "no known action is given: Pub, Sub, Create, Update, Delete, Get",
        "The user is existed": "the user is in the file twice",
        "The username is blank": "the user has no name",
        "password can not be blank": "the user has no password",
        "The decision is null or illegal.": "the decision must be Allow or Deny",
        "The source ip is invalid.": "sourceIps must be addresses or ranges, as 10.0.0.0/8",
    }.get(error.reason, error.reason)
