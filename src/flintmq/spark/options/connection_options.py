"""The connection options that source and sink share: addresses, credentials, TLS."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from flintmq.arrow.reading.access import Access
from flintmq.arrow.reading.patience import RETRY_MS
from flintmq.core.account import Account
from flintmq.errors import InvalidSetting
from flintmq.model.topic import NAME_PATTERN
from flintmq.net.address import NAMESRV_VARIABLE, parse_addresses
from flintmq.net.tls import ClientTls
from flintmq.spark.options.option_table import (
    NotAllowed,
    Option,
    OptionValues,
    duration_ms,
    exact,
    text,
    true_or_false,
)


def _addresses(given: str) -> tuple[str, ...]:
    return tuple(map(str, parse_addresses(given)))


def _namespace(given: str) -> str:
    if given and not NAME_PATTERN.fullmatch(given):
        raise NotAllowed("has characters other than % | a-z A-Z 0-9 _ -")
    return given


NAMESRV: Final = Option[tuple[str, ...]](
    "namesrv",
    _addresses,
    (),
    "host:port;host:port",
    f"The name servers; without it {NAMESRV_VARIABLE} of the driver's environment.",
)
RETRY_TIMEOUT: Final = Option[int](
    "retryTimeout",
    duration_ms,
    RETRY_MS,
    "a time, such as 60s",
    "How long name servers and brokers that do not answer are asked again, at the start, while "
    "planning, reading and sending; then the query fails.  0s: not at all.",
)
NAMESPACE: Final = Option[str](
    "namespace", _namespace, "", "a name", "The namespace that topics and groups belong to."
)
ACCESS_KEY: Final = Option[str | None](
    "accessKey", text, None, "a text", "The account, where brokers ask for one."
)
SECRET_KEY: Final = Option[str | None](
    "secretKey", exact, None, "a text", "The secret of the account.", secret=True
)
SECURITY_TOKEN: Final = Option[str | None](
    "securityToken",
    exact,
    None,
    "a text",
    "A token that goes with a temporary account.",
    secret=True,
)
TLS: Final = Option[bool](
    "tls", true_or_false, False, "true or false", "Speak TLS to name servers and brokers."
)
TLS_CA: Final = Option[str | None](
    "tlsCa", text, None, "a file", "Trust certificates signed by this one, not the system's; PEM."
)
TLS_CERTIFICATE: Final = Option[str | None](
    "tlsCertificate", text, None, "a file", "The certificate to show, where one is asked for; PEM."
)
TLS_KEY: Final = Option[str | None](
    "tlsKey", text, None, "a file", "The key of tlsCertificate, when it is not in the same file."
)
TLS_KEY_PASSWORD: Final = Option[str | None](
    "tlsKeyPassword", exact, None, "a text", "What unlocks the key.", secret=True
)
TLS_SERVER_NAME: Final = Option[str | None](
    "tlsServerName", text, None, "a host name", "The name to expect in certificates of servers."
)
TLS_VERIFY: Final = Option[bool](
    "tlsVerify", true_or_false, True, "true or false", "Check certificates and names of servers."
)

_ACCOUNT: Final[tuple[Option[Any], ...]] = (ACCESS_KEY, SECRET_KEY, SECURITY_TOKEN)
_TLS_DETAILS: Final[tuple[Option[Any], ...]] = (
    TLS_CA,
    TLS_CERTIFICATE,
    TLS_KEY,
    TLS_KEY_PASSWORD,
    TLS_SERVER_NAME,
    TLS_VERIFY,
)
CONNECTION: Final[tuple[Option[Any], ...]] = (
    NAMESRV,
    *_ACCOUNT,
    TLS,
    *_TLS_DETAILS,
    RETRY_TIMEOUT,
)
"""What only a cluster needs, and a store directory does not."""

ACCESS: Final[tuple[Option[Any], ...]] = (*CONNECTION, NAMESPACE)


def access_of(values: OptionValues, environment: Mapping[str, str] = os.environ) -> Access:
    """How to reach the cluster; files are named as executors find them, and are not opened here."""
    name_servers = values[NAMESRV]
    if not name_servers:
        from_outside = environment.get(NAMESRV_VARIABLE, "").strip()
        if not from_outside:
            reason = f"no name server is set: give host:port, or set {NAMESRV_VARIABLE}"
            raise InvalidSetting(NAMESRV.name, "", reason)
        name_servers = _addresses(from_outside)
    return Access(
        name_servers, values[NAMESPACE], _account(values), _tls(values), values[RETRY_TIMEOUT]
    )


def _account(values: OptionValues) -> Account | None:
    values.needs(ACCESS_KEY, SECRET_KEY)
    values.needs(SECRET_KEY, ACCESS_KEY)
    values.needs(SECURITY_TOKEN, ACCESS_KEY)
    access_key, secret_key = values[ACCESS_KEY], values[SECRET_KEY]
    if access_key is None or secret_key is None:
        return None
    return Account(access_key, secret_key, values[SECURITY_TOKEN])


def _tls(values: OptionValues) -> ClientTls | None:
    """Any detail of TLS means TLS."""
    details = [option for option in _TLS_DETAILS if option in values]
    if not values[TLS]:
        if not details:
            return None
        if TLS in values:
            raise values.refuse(TLS, f"contradicts {details[0].name}")
    values.needs(TLS_KEY, TLS_CERTIFICATE)
    values.needs(TLS_KEY_PASSWORD, TLS_CERTIFICATE)
    return ClientTls(
        ca_file=values[TLS_CA],
        certificate_file=values[TLS_CERTIFICATE],
        key_file=values[TLS_KEY],
        key_password=values[TLS_KEY_PASSWORD],
        server_name=values[TLS_SERVER_NAME],
        verify=values[TLS_VERIFY],
    )
