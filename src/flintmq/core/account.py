"""The account a client acts for, where brokers ask for one."""

from __future__ import annotations

from dataclasses import dataclass, field

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
