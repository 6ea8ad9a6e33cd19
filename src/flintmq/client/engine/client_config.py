"""What every client may be told, whether it sends or consumes.

Where name servers are comes from ``namesrv`` or, without it, from the environment: it is read
when a client starts, so a module may make its clients before the environment is complete.

Invariant: a `ClientConfig` that exists has usable values; only the name server may be missing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypedDict, TypeVar

from flintmq.client.engine.setting_names import in_own_names, unknown_setting
from flintmq.client.engine.timing import SYSTEM, Timing
from flintmq.client.hooks.request_hooks import RequestHook
from flintmq.core.account import Account, account_of
from flintmq.errors import InvalidSetting
from flintmq.model.topic import check_namespace
from flintmq.net.address import Address, name_servers, parse_addresses
from flintmq.net.limits import CONNECT_MS
from flintmq.net.tls import ClientTls

_WITHOUT_AT = re.compile(r"[^@\s]+")
"""``@`` separates the parts of a client id."""


_RENAMED: Final = {"timing": "_timing"}

C = TypeVar("C")

ADMIN_VARIABLE: Final = "FLINTMQ_ADMIN_AT"
"""Where a broker serves administrative requests, if it has an address of their own."""


class ClientSettings(TypedDict, total=False):
    """The fields of `ClientConfig` as keyword arguments of every client."""

    namesrv: str | None
    namespace: str
    access_key: str | None
    secret_key: str | None
    security_token: str | None
    tls: ClientTls | bool
    instance_name: str | None
    unit_name: str | None
    client_ip: str | None
    route_ms: int
    heartbeat_ms: int
    call_timeout_ms: int
    connect_ms: int
    start_timeout_ms: int
    request_hooks: tuple[RequestHook, ...]
    _timing: Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Settings of one client.  Without an ``instance_name`` its id is unlike any other."""

    namesrv: str | None = None
    """``host:port``, several separated by ``;``."""
    namespace: str = ""
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    security_token: str | None = field(default=None, repr=False)
    tls: ClientTls | bool = False
    """True trusts the authorities of the system."""
    instance_name: str | None = None
    unit_name: str | None = None
    client_ip: str | None = None
    route_ms: int = 30_000
    """How often the name server is asked again."""
    heartbeat_ms: int = 30_000
    """How often brokers hear from us; they forget a client after 120 seconds."""
    call_timeout_ms: int = 3_000
    """For every call that has no timeout of its own."""
    connect_ms: int = CONNECT_MS
    start_timeout_ms: int = 30_000
    """How long the start of a consumer waits for a name server that does not answer yet: programs
    of one deployment start in any order, and a name server on a JVM takes 5 to 20 seconds.  0 fails
    at once.  A producer asks nothing at its start: its sends wait within their own timeout."""
    request_hooks: tuple[RequestHook, ...] = ()
    _timing: Timing = SYSTEM
    """What the client waits by.  Not for programs: an embedded broker gives one it can move."""

    def __post_init__(self) -> None:
        for name in ("route_ms", "heartbeat_ms", "call_timeout_ms", "connect_ms"):
            value = getattr(self, name)
            if not isinstance(value, int) or value <= 0:
                raise InvalidSetting(name, str(value), "give a number of milliseconds above 0")
        check_start_timeout(self.start_timeout_ms)
        for name in ("instance_name", "unit_name", "client_ip"):
            text = getattr(self, name)
            if text is not None and not _WITHOUT_AT.fullmatch(text):
                raise InvalidSetting(name, str(text), "must not be empty or have an @ or a space")
        check_namespace(self.namespace)
        account_of(self.access_key, self.secret_key, self.security_token)
        if self.namesrv is not None:
            parse_addresses(self.namesrv)

    @property
    def name_servers(self) -> tuple[str, ...]:
        """Where the name servers are, from the setting or the environment."""
        return name_servers(self.namesrv, os.environ)

    @property
    def timing(self) -> Timing:
        """The clock and the timers of the client."""
        return self._timing

    @property
    def account(self) -> Account | None:
        return account_of(self.access_key, self.secret_key, self.security_token)

    @property
    def client_tls(self) -> ClientTls | None:
        if isinstance(self.tls, ClientTls):
            return self.tls
        return ClientTls() if self.tls else None


def admin_address(given: str | None) -> str | None:
    """Where administrative requests go, from the setting or the environment."""
    chosen = given or os.environ.get(ADMIN_VARIABLE) or None
    return None if chosen is None else str(Address.parse(chosen))


def check_start_timeout(value: object) -> None:
    if not isinstance(value, int) or value < 0:
        raise InvalidSetting("start_timeout_ms", str(value), "give milliseconds, 0 or more")


def split_settings(
    settings: Mapping[str, Any], own: type[C], renamed: Mapping[str, str] = {}
) -> tuple[ClientConfig, C]:
    """Keyword arguments as settings of every client and of ``own``, a dataclass of one kind.

    ``renamed`` has the deprecated names of ``own``.  A name that nobody has is `InvalidSetting`,
    which says what was probably meant.
    """
    renamed = {**_RENAMED, **renamed}
    given = in_own_names(settings, renamed)
    common = {entry.name for entry in fields(ClientConfig)}
    special = {entry.name for entry in fields(own)}  # type: ignore[arg-type]  # says the docstring
    for name, value in given.items():
        if name not in common and name not in special:
            raise unknown_setting(name, value, common | special, renamed)
    return (
        ClientConfig(**{name: value for name, value in given.items() if name in common}),
        own(**{name: value for name, value in given.items() if name in special}),
    )
