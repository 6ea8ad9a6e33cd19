"""Headers of requests that show and change accounts.

50 to 54       ACL 1.0, RocketMQ 4.9
3001 to 3010   ACL 2.0, RocketMQ 5.3
"""

from __future__ import annotations

from msgspec import field

from flintmq.protocol.fields import Header


class PlainAccountHeader(Header, frozen=True, kw_only=True):
    """UPDATE_AND_CREATE_ACL_CONFIG (50): an account; what is absent stays as it is."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool | None = None
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


class PlainAccountOf(Header, frozen=True, kw_only=True):
    """DELETE_ACL_CONFIG (51): the account to remove."""

    access_key: str


class WhiteAddresses(Header, frozen=True, kw_only=True):
    """UPDATE_GLOBAL_WHITE_ADDRS_CONFIG (53): addresses that need no account."""

    global_white_addrs: str
    acl_file_full_path: str | None = None


class AclVersionAnswer(Header, frozen=True, kw_only=True):
    """Answer to GET_BROKER_CLUSTER_ACL_INFO (52): which accounts are in force."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    version: str
    all_acl_file_version: str


class UserOf(Header, frozen=True, kw_only=True):
    """AUTH_CREATE_USER (3001) to AUTH_GET_USER (3004): the user."""

    username: str


class UsersLike(Header, frozen=True, kw_only=True):
    """AUTH_LIST_USER (3005): users whose names contain a text."""

    filter_text: str | None = field(default=None, name="filter")


class AclOf(Header, frozen=True, kw_only=True):
    """AUTH_CREATE_ACL (3006), AUTH_UPDATE_ACL (3007), AUTH_GET_ACL (3009): the subject."""

    subject: str


class DeleteAcl(AclOf, frozen=True, kw_only=True):
    """AUTH_DELETE_ACL (3008): one entry of a subject, or all of them."""

    resource: str | None = None
    policy_type: str | None = None


class AclsLike(Header, frozen=True, kw_only=True):
    """AUTH_LIST_ACL (3010): policies whose subject and resource contain these texts."""

    subject_filter: str | None = None
    resource_filter: str | None = None
