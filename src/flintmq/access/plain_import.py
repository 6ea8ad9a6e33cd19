"""Accounts of ACL 1.0 as users and policies of ACL 2.0, by the rule of RocketMQ's own migration.

    admin                       ► Super
    topicPerms, groupPerms      ► Custom entries on literal names; DENY denies everything
    default permissions         ► Default entries on Topic:* and Group:*
    white addresses             ► nothing: ACL 2.0 has no address that needs no account

PUB and SUB come with Get, which accounts of ACL 1.0 have by them.  What cannot be carried over, or
means more in ACL 2.0 than it did, is listed, so that nobody gets or loses a right unseen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from flintmq.access.plain_file import PERMISSIONS, PlainAccount, PlainFile
from flintmq.access.rules import (
    Action,
    Decision,
    Entry,
    Pattern,
    Policies,
    Resource,
    ResourceType,
    RuleSet,
    User,
)
from flintmq.model.group import RETRY_PREFIX


@dataclass(frozen=True, slots=True)
class Imported:
    """Rules with the imported users, and what their owner should know."""

    rules: RuleSet
    users: tuple[str, ...]
    remarks: tuple[str, ...]


def import_plain(files: Iterable[PlainFile], into: RuleSet) -> Imported:
    """Add every account that is no user yet.  Of two with one access key the first one counts."""
    users, policies = dict(into.users), dict(into.policies)
    remarks: list[str] = []
    made: list[str] = []
    for file in files:
        if file.white_addresses:
            addresses = ", ".join(file.white_addresses)
            remarks.append(
                f"globalWhiteRemoteAddresses {addresses}: dropped; peers there need accounts"
            )
        for account in file.accounts:
            name = account.access_key
            if name in users:
                known = "imported before" if name in made else "there is such a user already"
                remarks.append(f"{name}: left as it is, {known}")
                continue
            made.append(name)
            users[name] = User(name, account.secret_key, is_super=account.admin)
            if not account.admin:
                given = Policies(tuple(_own(account)), tuple(_defaults(account)))
                if given != Policies():
                    policies[name] = given
            remarks += _remarks(account)
    return Imported(replace(into, users=users, policies=policies), tuple(made), tuple(remarks))


def _own(account: PlainAccount) -> Iterator[Entry]:
    for type_, text in _permissions(account):
        name, _, permission = text.partition("=")
        resource = _resource(type_, name.strip())
        actions = PERMISSIONS[permission.strip().upper()]
        if actions:
            yield Entry(resource, actions | {Action.GET}, Decision.ALLOW)
        else:
            yield Entry(resource, frozenset({Action.ALL}), Decision.DENY)


def _defaults(account: PlainAccount) -> Iterator[Entry]:
    for type_, text in (
        (ResourceType.TOPIC, account.default_topic_perm),
        (ResourceType.GROUP, account.default_group_perm),
    ):
        if actions := _default(text):
            every = Resource(type_, "", Pattern.ANY)
            yield Entry(every, actions | {Action.GET}, Decision.ALLOW)


def _remarks(account: PlainAccount) -> Iterator[str]:
    name = account.access_key
    if account.white_address:
        yield f"{name}: whiteRemoteAddress {account.white_address} dropped; requests must be signed"
    if account.admin and (account.topic_perms or account.group_perms):
        yield f"{name}: becomes Super; its own topicPerms and groupPerms bind it no more"
        return
    defaults = {
        ResourceType.TOPIC: _default(account.default_topic_perm),
        ResourceType.GROUP: _default(account.default_group_perm),
    }
    for type_, text in _permissions(account):
        resource, _, permission = text.partition("=")
        allowed = PERMISSIONS[permission.strip().upper()]
        gained = defaults[_resource(type_, resource.strip()).type] - allowed
        for action in sorted(gained if allowed else ()):
            yield (
                f"{name}: {text} denied {action.title} in ACL 1.0; the default permission now "
                f"gives it: narrow the default, or use names that differ"
            )


def _permissions(account: PlainAccount) -> Iterator[tuple[ResourceType, str]]:
    for text in account.topic_perms:
        yield ResourceType.TOPIC, text
    for text in account.group_perms:
        yield ResourceType.GROUP, text


def _resource(type_: ResourceType, name: str) -> Resource:
    if name.startswith(RETRY_PREFIX):
        return Resource(ResourceType.GROUP, name.removeprefix(RETRY_PREFIX))
    return Resource(type_, name)


def _default(text: str) -> frozenset[Action]:
    return PERMISSIONS.get(text.strip().upper(), frozenset())
