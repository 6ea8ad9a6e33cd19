"""Users and policies of ACL 2.0 on running brokers (requests 3001 to 3010).

Every broker keeps its own: a change goes to every master, or to those that are named, and a list
says which broker has what.  Only a super user is served.  What is listed has no passwords.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from flintmq.core.admin.cluster import fetch_cluster
from flintmq.core.ask import ask
from flintmq.core.conversation import Conversation
from flintmq.core.routes import NameServers
from flintmq.protocol.bodies.account_bodies import (
    AclBody,
    EntryBody,
    PolicyBody,
    UserBody,
    read_acls,
    read_users,
)
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.account import AclOf, AclsLike, DeleteAcl, UserOf, UsersLike

_SUBJECT = "User:"


@dataclass(frozen=True, slots=True)
class BrokerUser:
    """A user of one broker."""

    broker: str
    name: str
    is_super: bool
    is_enabled: bool


@dataclass(frozen=True, slots=True)
class BrokerPolicy:
    """One entry of a user's policies on one broker, in the words of RocketMQ's tools."""

    broker: str
    user: str
    policy: str
    """``Custom`` or ``Default``."""
    resource: str
    actions: tuple[str, ...]
    decision: str
    sources: tuple[str, ...] = ()
    """Addresses it holds for; none means all."""


def list_users(
    namesrv: NameServers, *, broker: str | None = None, cluster: str | None = None
) -> Conversation[list[BrokerUser]]:
    """The users of each broker (AUTH_LIST_USER, 3005)."""
    found: list[BrokerUser] = []
    for name, address in (yield from _masters(namesrv, cluster, broker)).items():
        for user in (yield from users_at(address)):
            is_super = (user.user_type or "").lower() == "super"
            is_enabled = (user.user_status or "").lower() != "disable"
            found.append(BrokerUser(name, user.username or "", is_super, is_enabled))
    return found


def create_user(
    namesrv: NameServers,
    name: str,
    password: str,
    *,
    is_super: bool = False,
    broker: str | None = None,
    cluster: str | None = None,
) -> Conversation[list[str]]:
    """Make a user (AUTH_CREATE_USER, 3001); says at which brokers."""
    body = UserBody(username=name, password=password, user_type=_type(is_super=is_super))
    code, header = RequestCode.AUTH_CREATE_USER, UserOf(username=name)
    return (
        yield from _at_each(
            namesrv, cluster, broker, lambda address: _done(address, code, header, body.to_body())
        )
    )


def update_user(
    namesrv: NameServers,
    name: str,
    *,
    password: str | None = None,
    is_super: bool | None = None,
    is_enabled: bool | None = None,
    broker: str | None = None,
    cluster: str | None = None,
) -> Conversation[list[str]]:
    """Change what is given of a user (AUTH_UPDATE_USER, 3002); says at which brokers."""
    body = UserBody(
        username=name,
        password=password,
        user_type=None if is_super is None else _type(is_super=is_super),
        user_status=None if is_enabled is None else ("enable" if is_enabled else "disable"),
    )
    code, header = RequestCode.AUTH_UPDATE_USER, UserOf(username=name)
    return (
        yield from _at_each(
            namesrv, cluster, broker, lambda address: _done(address, code, header, body.to_body())
        )
    )


def delete_user(
    namesrv: NameServers, name: str, *, broker: str | None = None, cluster: str | None = None
) -> Conversation[list[str]]:
    """Delete a user and its policies (AUTH_DELETE_USER, 3003); says at which brokers."""
    code, header = RequestCode.AUTH_DELETE_USER, UserOf(username=name)
    return (
        yield from _at_each(namesrv, cluster, broker, lambda address: _done(address, code, header))
    )


def list_policies(
    namesrv: NameServers,
    user: str | None = None,
    *,
    broker: str | None = None,
    cluster: str | None = None,
) -> Conversation[list[BrokerPolicy]]:
    """The entries of all policies, or of one user's (AUTH_LIST_ACL, 3010)."""
    found: list[BrokerPolicy] = []
    for name, address in (yield from _masters(namesrv, cluster, broker)).items():
        for acl in (yield from acls_at(address)):
            subject = (acl.subject or "").removeprefix(_SUBJECT)
            if user in (None, subject):
                found += _entries(name, subject, acl)
    return found


def change_policy(
    namesrv: NameServers,
    user: str,
    resource: str,
    actions: Iterable[str],
    *,
    is_allowed: bool = True,
    sources: Iterable[str] = (),
    is_default: bool = False,
    broker: str | None = None,
    cluster: str | None = None,
) -> Conversation[list[str]]:
    """Allow or deny actions on a resource (AUTH_UPDATE_ACL, 3007); says at which brokers.

    An entry of the user with the same resource is replaced; others stay.
    """
    entry = EntryBody(
        resource=resource,
        actions=tuple(actions),
        source_ips=tuple(sources) or None,
        decision="Allow" if is_allowed else "Deny",
    )
    policy = PolicyBody(policy_type="Default" if is_default else "Custom", entries=(entry,))
    body = AclBody(subject=_SUBJECT + user, policies=(policy,))
    code, header = RequestCode.AUTH_UPDATE_ACL, AclOf(subject=_SUBJECT + user)
    return (
        yield from _at_each(
            namesrv, cluster, broker, lambda address: _done(address, code, header, body.to_body())
        )
    )


def delete_policies(
    namesrv: NameServers,
    user: str,
    resource: str | None = None,
    *,
    is_default: bool = False,
    broker: str | None = None,
    cluster: str | None = None,
) -> Conversation[list[str]]:
    """Delete an entry of a user, or all without a resource (AUTH_DELETE_ACL, 3008)."""
    header = DeleteAcl(
        subject=_SUBJECT + user,
        resource=resource,
        policy_type="Default" if is_default else "Custom",
    )
    code = RequestCode.AUTH_DELETE_ACL
    return (
        yield from _at_each(namesrv, cluster, broker, lambda address: _done(address, code, header))
    )


def users_at(address: str) -> Conversation[tuple[UserBody, ...]]:
    """The users of the broker at an address, with their passwords: not to be shown."""
    reply = yield from ask(address, RequestCode.AUTH_LIST_USER, UsersLike())
    return read_users(reply.body)


def acls_at(address: str) -> Conversation[tuple[AclBody, ...]]:
    """The policies of the broker at an address."""
    reply = yield from ask(address, RequestCode.AUTH_LIST_ACL, AclsLike())
    return read_acls(reply.body)


# Inside


def _masters(
    namesrv: NameServers, cluster: str | None, broker: str | None
) -> Conversation[dict[str, str]]:
    return (yield from fetch_cluster(namesrv)).masters(cluster, broker)


def _at_each(
    namesrv: NameServers,
    cluster: str | None,
    broker: str | None,
    change: Callable[[str], Conversation[None]],
) -> Conversation[list[str]]:
    """Make a change at one broker after the other; the first refusal is raised."""
    masters = yield from _masters(namesrv, cluster, broker)
    for address in masters.values():
        yield from change(address)
    return list(masters)


def _done(
    address: str, code: RequestCode, header: UserOf | AclOf, body: bytes = b""
) -> Conversation[None]:
    yield from ask(address, code, header, body)


def _entries(broker: str, user: str, acl: AclBody) -> Iterable[BrokerPolicy]:
    for policy in acl.policies:
        for entry in policy.entries:
            yield BrokerPolicy(
                broker,
                user,
                policy.policy_type or "Custom",
                entry.resource or "",
                entry.actions,
                entry.decision or "",
                entry.source_ips or (),
            )


def _type(*, is_super: bool) -> str:
    return "Super" if is_super else "Normal"
