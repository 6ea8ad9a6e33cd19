"""Accounts of ACL 1.0 on running brokers (requests 50, 51, 54).

Every broker keeps its own files: a change goes to every master, or to those that are named.
What is listed has no secrets.
"""

from __future__ import annotations

from dataclasses import dataclass

from flintmq.core.admin.cluster import fetch_cluster
from flintmq.core.ask import ask
from flintmq.core.conversation import Conversation
from flintmq.core.routes import NameServers
from flintmq.errors import InvalidSetting
from flintmq.protocol.bodies.account_bodies import PlainAccountBody, PlainAccountsBody
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.headers.account import PlainAccountHeader, PlainAccountOf


@dataclass(frozen=True, slots=True)
class BrokerAccount:
    """An account of ACL 1.0 on one broker."""

    broker: str
    access_key: str
    is_admin: bool
    default_topic_perm: str
    default_group_perm: str
    topic_perms: tuple[str, ...]
    group_perms: tuple[str, ...]
    white_address: str


def list_accounts(
    namesrv: NameServers, *, broker: str | None = None, cluster: str | None = None
) -> Conversation[list[BrokerAccount]]:
    """The accounts of each broker (GET_BROKER_CLUSTER_ACL_CONFIG, 54)."""
    masters = (yield from fetch_cluster(namesrv)).masters(cluster, broker)
    found: list[BrokerAccount] = []
    for name, address in masters.items():
        accounts = (yield from accounts_at(address)).plain_access_configs
        found += [_shown(name, each) for each in accounts]
    return found


def change_account(
    namesrv: NameServers,
    access_key: str,
    secret_key: str | None = None,
    *,
    is_admin: bool | None = None,
    default_topic_perm: str | None = None,
    default_group_perm: str | None = None,
    topic_perms: tuple[str, ...] | None = None,
    group_perms: tuple[str, ...] | None = None,
    white_address: str | None = None,
    broker: str | None = None,
    cluster: str | None = None,
) -> Conversation[list[str]]:
    """Create or change an account (UPDATE_AND_CREATE_ACL_CONFIG, 50); says at which brokers.

    Without a secret an account keeps the one it has; one that is made needs it.
    """
    masters = (yield from fetch_cluster(namesrv)).masters(cluster, broker)
    for name, address in masters.items():
        secret = secret_key or (yield from _secret_at(address, access_key))
        if secret is None:
            raise InvalidSetting(
                "access key",
                access_key,
                f"{name} has no such account; its secret is needed to make it",
            )
        header = PlainAccountHeader(
            access_key=access_key,
            secret_key=secret,
            white_remote_address=white_address,
            admin=is_admin,
            default_topic_perm=default_topic_perm,
            default_group_perm=default_group_perm,
            topic_perms=None if topic_perms is None else ",".join(topic_perms),
            group_perms=None if group_perms is None else ",".join(group_perms),
        )
        yield from ask(address, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, header)
    return list(masters)


def delete_account(
    namesrv: NameServers, access_key: str, *, broker: str | None = None, cluster: str | None = None
) -> Conversation[list[str]]:
    """Delete an account (DELETE_ACL_CONFIG, 51); says at which brokers."""
    masters = (yield from fetch_cluster(namesrv)).masters(cluster, broker)
    for address in masters.values():
        header = PlainAccountOf(access_key=access_key)
        yield from ask(address, RequestCode.DELETE_ACL_CONFIG, header)
    return list(masters)


def accounts_at(address: str) -> Conversation[PlainAccountsBody]:
    """The accounts of the broker at an address, with their secrets: not to be shown."""
    reply = yield from ask(address, RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG)
    return PlainAccountsBody.from_body(reply.body)


def _shown(broker: str, account: PlainAccountBody) -> BrokerAccount:
    return BrokerAccount(
        broker,
        account.access_key,
        account.admin,
        account.default_topic_perm or "DENY",
        account.default_group_perm or "DENY",
        account.topic_perms,
        account.group_perms,
        account.white_remote_address or "",
    )


def _secret_at(address: str, access_key: str) -> Conversation[str | None]:
    accounts = (yield from accounts_at(address)).plain_access_configs
    return next((each.secret_key for each in accounts if each.access_key == access_key), None)
