"""Accounts in requests and answers: users and policies of ACL 2.0, accounts of ACL 1.0.

Names of enums are compared without case by whoever reads them; what is absent stays as it is.
Passwords are part of a user: a `repr` of one is not for a log.
"""

from __future__ import annotations

from typing import Final

import msgspec

from flintmq.protocol import fastjson
from flintmq.protocol.bodies.body import RequestBody


class UserBody(RequestBody, frozen=True, kw_only=True):
    """A user as it travels.  What is absent stays as it is."""

    password: str | None = None
    user_status: str | None = None
    user_type: str | None = None
    username: str | None = None


class EntryBody(RequestBody, frozen=True, kw_only=True):
    """One entry of a policy as it travels."""

    actions: tuple[str, ...] = ()
    decision: str | None = None
    resource: str | None = None
    source_ips: tuple[str, ...] | None = None


class PolicyBody(RequestBody, frozen=True, kw_only=True):
    """A policy as it travels."""

    entries: tuple[EntryBody, ...] = ()
    policy_type: str | None = None


class AclBody(RequestBody, frozen=True, kw_only=True):
    """All policies of a subject as they travel."""

    description: str | None = None
    policies: tuple[PolicyBody, ...] = ()
    subject: str | None = None


class PlainAccountBody(RequestBody, frozen=True, kw_only=True):
    """An account of ACL 1.0 in the answer to GET_BROKER_CLUSTER_ACL_CONFIG (54)."""

    access_key: str = ""
    admin: bool = False
    default_group_perm: str | None = None
    default_topic_perm: str | None = None
    group_perms: tuple[str, ...] = ()
    secret_key: str = ""
    topic_perms: tuple[str, ...] = ()
    white_remote_address: str | None = None


class PlainAccountsBody(RequestBody, frozen=True, kw_only=True):
    """Answer to GET_BROKER_CLUSTER_ACL_CONFIG (54): all accounts of ACL 1.0."""

    global_white_addrs: tuple[str, ...] = ()
    plain_access_configs: tuple[PlainAccountBody, ...] = ()


_USERS: Final = msgspec.json.Decoder(tuple[UserBody, ...])
_ACLS: Final = msgspec.json.Decoder(tuple[AclBody, ...])


def read_users(body: bytes) -> tuple[UserBody, ...]:
    """The answer to AUTH_LIST_USER (3005); no body means no users."""
    return fastjson.read(body, _USERS, "users") if body else ()


def read_acls(body: bytes) -> tuple[AclBody, ...]:
    """The answer to AUTH_LIST_ACL (3010); no body means no policies."""
    return fastjson.read(body, _ACLS, "policies") if body else ()
