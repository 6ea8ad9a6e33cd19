"""The account a client acts for, where brokers ask for one."""

from __future__ import annotations

from dataclasses import dataclass, field

from flintmq.errors import InvalidSetting
from flintmq.protocol.command import Command
from flintmq.protocol.signature import sign


@dataclass(frozen=True, slots=True)
class Account:
    """An access key and what proves that it is ours.  Secrets are not shown."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def sign(self, request: Command) -> Command:
        """The request with the fields a broker checks.  Nothing may change it afterwards."""
        return sign(request, self.access_key, self.secret_key, self.security_token)


def account_of(
    access_key: str | None, secret_key: str | None, security_token: str | None
) -> Account | None:
    """The account of these settings, None without one; `InvalidSetting` when a part is missing."""
    if (access_key is None) != (secret_key is None):
        reason = "access_key and secret_key go together"
        raise InvalidSetting("access_key", access_key or "", reason)
    if access_key is None or secret_key is None:
        if security_token is not None:
            raise InvalidSetting("security_token", "…", "it needs an access_key")
        return None
    return Account(access_key, secret_key, security_token)
