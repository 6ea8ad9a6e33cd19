"""What brokers answer to the accounts of `guarded_brokers`: code and remark, by the dialect."""

from __future__ import annotations

from typing import Final

from support.interop.account_programs import Account
from support.interop.guarded_brokers import AUTH, PLAIN, RIGHT

_PLAIN: Final = "1 org.apache.rocketmq.acl.common.AclException: "

OK: Final = {PLAIN: "0 ", AUTH: "0 "}
NO_SIGNATURE: Final = {
    PLAIN: _PLAIN + "Check signature failed for accessKey=shopkeeper",
    AUTH: "16 check signature failed.",
}
NO_ACCOUNT: Final = {
    PLAIN: _PLAIN + "No acl config for strangers",
    AUTH: "16 User:strangers is not found.",
}
NO_NAME: Final = {
    PLAIN: _PLAIN + "No accessKey is configured",
    AUTH: "16 username cannot be null.",
}
EMPTY_NAME: Final = {**NO_NAME, PLAIN: _PLAIN + "No acl config for "}
"""The C++ client signs for an account without a name when it has none."""


def denied(kind: str, name: str, who: Account = RIGHT) -> dict[str, str]:
    """The account has no right on a topic or a group."""
    resource = f"{kind.title()}:{name}"
    return {
        PLAIN: _PLAIN + f"No default permission for {kind}:{name}",
        AUTH: f"16 User:{who.name} has no permission to access {resource} from 127.0.0.1, ",
    }


NO_ADMIN: Final = {
    PLAIN: _PLAIN,
    AUTH: f"16 User:{RIGHT.name} has no permission to access ",
}
"""Of a request that only admins may ask; which one is asked first is the client's own affair."""


def not_admin(code: int, topic: str, who: Account = RIGHT) -> dict[str, str]:
    """ACL 1.0 asks for an admin where ACL 2.0 asks for a right on the topic."""
    return {
        **denied("topic", topic, who),
        PLAIN: f"{_PLAIN}Need admin permission for request code={code}, but accessKey={who.name}",
    }
