"""An `Admin` that asks brokers for accounts of one dialect.

A broker that has the other dialect, or no access control, does not know the requests, fails at
them, or (RocketMQ 4.9) never answers.  It is no old broker and no dead one, so the error says where
its accounts are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from flintmq.access.rules import Dialect
from flintmq.client.engine.client_config import ClientSettings
from flintmq.errors import BrokerRefused, InvalidSetting, Unreachable
from flintmq.protocol.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from flintmq.client.admin import Admin

_ELSEWHERE: Final = {
    Dialect.AUTH: (
        "it has no users and policies (ACL 2.0); flintmq acl accounts is for ACL 1.0, "
        "or access control is off there"
    ),
    Dialect.PLAIN: (
        "it has no accounts of ACL 1.0; flintmq acl users and policies are for ACL 2.0, "
        "or access control is off there"
    ),
}


_OFF_4_9: Final = "it gives no answer about accounts, as RocketMQ 4.9 does where aclEnable is off"
_OFF_5: Final = (
    "users and policies do not work there: RocketMQ 5 needs authenticationEnabled, "
    "authorizationEnabled and their metadata providers; it answered: "
)
_FAULTS_OF_5: Final = ("An system error occurred", "MetadataProvider is not configured")
"""Remarks of a RocketMQ 5 that has no accounts, to requests about accounts."""


@contextmanager
def admin_of(dialect: Dialect, settings: ClientSettings) -> Iterator[Admin]:
    """An admin for requests about accounts of this dialect, and no others."""
    from flintmq.client.admin import Admin

    with Admin(**settings) as admin, asking_about(dialect):
        yield admin


@contextmanager
def asking_about(dialect: Dialect) -> Iterator[None]:
    """Let errors say that a broker has no accounts of this dialect, where that is the reason."""
    try:
        yield
    except BrokerRefused as error:
        if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise InvalidSetting("broker", error.address, _ELSEWHERE[dialect]) from None
        if any(fault in error.remark for fault in _FAULTS_OF_5):
            raise InvalidSetting("broker", error.address, _OFF_5 + error.remark) from None
        raise
    except Unreachable as error:
        if RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG.name not in error.reason:
            raise
        raise InvalidSetting("broker", error.address, _OFF_4_9) from None


def require_user(admin: Admin, user: str, broker: str | None, cluster: str | None) -> None:
    """Raise `InvalidSetting` where no broker has this user of ACL 2.0."""
    if user not in {each.name for each in admin.users(broker=broker, cluster=cluster)}:
        raise InvalidSetting("user", user, "there is no such user; flintmq acl users list")
