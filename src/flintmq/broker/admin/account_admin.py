"""Accounts, as admins show and change them.

    50 to 54       ACL 1.0: accounts of plain_acl.yml
    3001 to 3010   ACL 2.0: users and policies

Access control lets only super users come here (`access.needs`).  A change is on disk before it
takes effect.  Secrets are in the answers that real tools need them in (54, 3004, 3005), because
whoever gets such an answer may change the secret as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from flintmq.access.accounts import PLAIN_FILE, AuthAccounts, PlainAccounts
from flintmq.access.auth_accounts import (
    AuthRefused,
    acl_body,
    change_policies,
    create_user,
    delete_policies,
    delete_user,
    subject_name,
    update_user,
    user_body,
)
from flintmq.access.plain_file import PlainAccount, PlainFile
from flintmq.access.rules import RuleSet
from flintmq.broker.consume.end_transaction import NOTHING_SAID
from flintmq.broker.requests.outcome import Answer, Outcome, Refusal
from flintmq.broker.requests.peer import Peer
from flintmq.broker.state.broker_state import BrokerState, Processor
from flintmq.logs import logger
from flintmq.protocol.bodies.account_bodies import AclBody, UserBody
from flintmq.protocol.bodies.common_bodies import DataVersion
from flintmq.protocol.codes import RequestCode, ResponseCode
from flintmq.protocol.headers.account import (
    AclOf,
    AclsLike,
    AclVersionAnswer,
    DeleteAcl,
    PlainAccountHeader,
    PlainAccountOf,
    UserOf,
    UsersLike,
    WhiteAddresses,
)
from flintmq.protocol.headers.common_headers import NoFields
from flintmq.protocol.typed_request import TypedRequest

log = logger(__name__)

A = TypeVar("A", PlainAccounts, AuthAccounts)

_DONE = Answer(remark=NOTHING_SAID)


def _accounts(request: TypedRequest[Any], state: BrokerState, kind: type[A]) -> A:
    """The accounts, if they are of this kind; else a code of the other kind is not served."""
    if not isinstance(state.accounts, kind):
        remark = f" request type {request.code} not supported"
        raise Refusal(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
    return state.accounts


@contextmanager
def _refusing() -> Iterator[None]:
    """A change that cannot be made is refused with its code and text."""
    try:
        yield
    except AuthRefused as error:
        raise Refusal(error.code, error.reason) from None


# ACL 1.0


def change_account(
    request: TypedRequest[PlainAccountHeader], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """UPDATE_AND_CREATE_ACL_CONFIG (50): change an account field by field, or make it."""
    accounts = _accounts(request, state, PlainAccounts)
    header = request.header
    before = accounts.find(header.access_key) or PlainAccount(header.access_key, "")
    changed = PlainAccount(
        header.access_key,
        header.secret_key or "",
        _given(header.white_remote_address, before.white_address),
        before.admin if header.admin is None else header.admin,
        _given(header.default_topic_perm, before.default_topic_perm),
        _given(header.default_group_perm, before.default_group_perm),
        before.topic_perms if header.topic_perms is None else _split(header.topic_perms),
        before.group_perms if header.group_perms is None else _split(header.group_perms),
    )
    with _refusing():
        accounts.change_account(changed, now_ms)
    log.info("%s: account %s is changed", peer.address, header.access_key)
    return Answer()


def delete_account(
    request: TypedRequest[PlainAccountOf], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """DELETE_ACL_CONFIG (51): remove an account."""
    accounts = _accounts(request, state, PlainAccounts)
    with _refusing():
        accounts.delete_account(request.header.access_key, now_ms)
    log.info("%s: account %s is deleted", peer.address, request.header.access_key)
    return Answer()


def change_white_addresses(
    request: TypedRequest[WhiteAddresses], state: BrokerState, peer: Peer, now_ms: int
) -> Outcome:
    """UPDATE_GLOBAL_WHITE_ADDRS_CONFIG (53): addresses that need no account."""
    accounts = _accounts(request, state, PlainAccounts)
    texts = _split(request.header.global_white_addrs)
    with _refusing():
        accounts.change_white_addresses(texts, request.header.acl_file_full_path or "", now_ms)
    log.info("%s: global white addresses are changed: %s", peer.address, texts)
    return Answer()


def show_version(
    request: TypedRequest[NoFields], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """GET_BROKER_CLUSTER_ACL_INFO (52): the version of every account file."""
    accounts = _accounts(request, state, PlainAccounts)
    versions = {name: _version(file) for name, file in accounts.files.items()}
    default = versions.get(PLAIN_FILE, DataVersion(counter=0, timestamp=0))
    shown = {
        name: {"counter": version.counter, "timestamp": version.timestamp}
        for name, version in versions.items()
    }
    header = AclVersionAnswer(
        broker_name=state.config.broker_name,
        broker_addr=state.address,
        cluster_name=state.config.cluster,
        version=default.to_body().decode(),
        all_acl_file_version=msgspec.json.encode(shown).decode(),
    )
    return Answer(header=header)


def show_accounts(
    request: TypedRequest[NoFields], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """GET_BROKER_CLUSTER_ACL_CONFIG (54): all accounts."""
    accounts = _accounts(request, state, PlainAccounts)
    white = [text for file in accounts.files.values() for text in file.white_addresses]
    shown = [_shown(account) for file in accounts.files.values() for account in file.accounts]
    body = {"globalWhiteAddrs": white, "plainAccessConfigs": shown}
    return Answer(body=msgspec.json.encode(body))


def _shown(account: PlainAccount) -> dict[str, object]:
    fields: dict[str, object] = {
        "accessKey": account.access_key,
        "admin": account.admin,
        "defaultGroupPerm": account.default_group_perm,
        "defaultTopicPerm": account.default_topic_perm,
        "groupPerms": list(account.group_perms),
        "secretKey": account.secret_key,
        "topicPerms": list(account.topic_perms),
        "whiteRemoteAddress": account.white_address,
    }
    return {name: value for name, value in fields.items() if value not in ("", [])}


def _version(file: PlainFile) -> DataVersion:
    return DataVersion(counter=file.counter, timestamp=file.timestamp_ms)


def _given(text: str | None, before: str) -> str:
    return before if text is None else text


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


# ACL 2.0


def _change(accounts: AuthAccounts, peer: Peer, what: str, rules: RuleSet) -> Outcome:
    accounts.change(rules)
    log.info("%s: %s", peer.address, what)
    return _DONE


def new_user(
    request: TypedRequest[UserOf], state: BrokerState, peer: Peer, _now_ms: int
) -> Outcome:
    """AUTH_CREATE_USER (3001): make a user."""
    accounts, name = _accounts(request, state, AuthAccounts), request.header.username
    with _refusing():
        changed = create_user(accounts.rules, name, UserBody.from_body(request.body), None)
    return _change(accounts, peer, f"user {name} is created", changed)


def change_user(
    request: TypedRequest[UserOf], state: BrokerState, peer: Peer, _now_ms: int
) -> Outcome:
    """AUTH_UPDATE_USER (3002): change what is given of a user."""
    accounts, name = _accounts(request, state, AuthAccounts), request.header.username
    with _refusing():
        changed = update_user(accounts.rules, name, UserBody.from_body(request.body), None)
    return _change(accounts, peer, f"user {name} is changed", changed)


def remove_user(
    request: TypedRequest[UserOf], state: BrokerState, peer: Peer, _now_ms: int
) -> Outcome:
    """AUTH_DELETE_USER (3003): delete a user and its policies."""
    accounts, name = _accounts(request, state, AuthAccounts), request.header.username
    return _change(
        accounts, peer, f"user {name} is deleted", delete_user(accounts.rules, name, None)
    )


def show_user(
    request: TypedRequest[UserOf], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """AUTH_GET_USER (3004): one user; no body where there is none."""
    name = request.header.username
    if not name.strip():
        raise Refusal(ResponseCode.INVALID_PARAMETER, "The username is blank")
    user = _accounts(request, state, AuthAccounts).rules.users.get(name)
    if user is None:
        return _DONE
    return replace(_DONE, body=user_body(user, secret=True).to_body())


def list_users(
    request: TypedRequest[UsersLike], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """AUTH_LIST_USER (3005): users whose names contain a text."""
    wanted = request.header.filter_text or ""
    users = _accounts(request, state, AuthAccounts).rules.users.values()
    return _listed([user_body(user, secret=True) for user in users if wanted in user.name])


def change_acl(
    request: TypedRequest[AclOf], state: BrokerState, peer: Peer, _now_ms: int
) -> Outcome:
    """AUTH_CREATE_ACL (3006) and AUTH_UPDATE_ACL (3007): add and replace entries of a user."""
    accounts, subject = _accounts(request, state, AuthAccounts), request.header.subject
    with _refusing():
        changed = change_policies(accounts.rules, subject, AclBody.from_body(request.body))
    return _change(accounts, peer, f"policies of {subject} are changed", changed)


def remove_acl(
    request: TypedRequest[DeleteAcl], state: BrokerState, peer: Peer, _now_ms: int
) -> Outcome:
    """AUTH_DELETE_ACL (3008): delete one entry of a user, or all of them."""
    header = request.header
    accounts = _accounts(request, state, AuthAccounts)
    with _refusing():
        changed = delete_policies(
            accounts.rules, header.subject, header.resource, header.policy_type
        )
    what = header.resource or "all"
    return _change(accounts, peer, f"policies of {header.subject} are deleted: {what}", changed)


def show_acl(
    request: TypedRequest[AclOf], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """AUTH_GET_ACL (3009): the policies of a user; no body where there are none."""
    rules = _accounts(request, state, AuthAccounts).rules
    with _refusing():
        name = subject_name(request.header.subject)
    if name not in rules.users:
        raise Refusal(ResponseCode.NO_PERMISSION, "The subject is not exist.")
    policies = rules.policies.get(name)
    if policies is None:
        return _DONE
    return replace(_DONE, body=acl_body(name, policies).to_body())


def list_acls(
    request: TypedRequest[AclsLike], state: BrokerState, _peer: Peer, _now_ms: int
) -> Outcome:
    """AUTH_LIST_ACL (3010): policies by parts of their subjects and resources."""
    header = request.header
    policies = _accounts(request, state, AuthAccounts).rules.policies
    shown = [
        acl_body(name, each, header.resource_filter)
        for name, each in policies.items()
        if (header.subject_filter or "") in f"User:{name}"
    ]
    return _listed([acl for acl in shown if acl.policies])


def _listed(found: list[UserBody] | list[AclBody]) -> Outcome:
    """An array, or no body where there is nothing, as RocketMQ answers."""
    if not found:
        return _DONE
    body = b"[" + b",".join(each.to_body() for each in found) + b"]"
    return replace(_DONE, body=body)


PROCESSORS: dict[RequestCode, Processor] = {
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: change_account,
    RequestCode.DELETE_ACL_CONFIG: delete_account,
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: change_white_addresses,
    RequestCode.GET_BROKER_CLUSTER_ACL_INFO: show_version,
    RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG: show_accounts,
    RequestCode.AUTH_CREATE_USER: new_user,
    RequestCode.AUTH_UPDATE_USER: change_user,
    RequestCode.AUTH_DELETE_USER: remove_user,
    RequestCode.AUTH_GET_USER: show_user,
    RequestCode.AUTH_LIST_USER: list_users,
    RequestCode.AUTH_CREATE_ACL: change_acl,
    RequestCode.AUTH_UPDATE_ACL: change_acl,
    RequestCode.AUTH_DELETE_ACL: remove_acl,
    RequestCode.AUTH_GET_ACL: show_acl,
    RequestCode.AUTH_LIST_ACL: list_acls,
}
