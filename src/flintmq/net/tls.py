"""Settings for TLS, and the contexts made from them.  Nothing older than TLS 1.2 is spoken.

A client checks the certificate and the host name unless that is switched off.  A server shares
one port between plain and encrypted peers in permissive mode, as RocketMQ's own do: the first
byte of a connection tells them apart.

Invariant: a server that asks clients for a certificate serves nobody without one.  So its mode is
enforcing; a plain client would not be asked for anything.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from enum import StrEnum

from flintmq.errors import InvalidSetting

HANDSHAKE_BYTE = 0x16
"""The first byte of a TLS connection.  As a frame it would announce 352 MiB, so no frame has it."""


class TlsMode(StrEnum):
    """Which peers a server takes."""

    OFF = "off"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


@dataclass(frozen=True, slots=True)
class ClientTls:
    """How a client speaks TLS.  As it stands: trust the system's authorities, check the name."""

    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    server_name: str | None = None
    """The name to expect in the certificate, when it is not the host of the address."""
    verify: bool = True

    @property
    def files(self) -> tuple[str, ...]:
        """What the context is made of."""
        given = (self.ca_file, self.certificate_file, self.key_file)
        return tuple(each for each in given if each is not None)

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif self.ca_file is None:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        else:
            _load_authorities(context, "ca_file", self.ca_file)
        if self.certificate_file is not None:
            _load_certificate(context, self.certificate_file, self.key_file, self.key_password)
        return context


@dataclass(frozen=True, slots=True)
class ServerTls:
    """How a server speaks TLS.  With ``client_ca_file`` clients need a certificate too.

    ``client_ca_file`` goes with the mode enforcing only; any other is `InvalidSetting`.
    """

    certificate_file: str
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)
    client_ca_file: str | None = None
    mode: TlsMode = TlsMode.PERMISSIVE

    def __post_init__(self) -> None:
        if self.client_ca_file is not None and self.mode is not TlsMode.ENFORCING:
            reason = (
                "it takes clients without TLS, and those show no certificate: "
                "with a client CA set it to enforcing (--tls-mode enforcing)"
            )
            raise InvalidSetting("tls mode", self.mode.value, reason)

    @property
    def files(self) -> tuple[str, ...]:
        """What the context is made of."""
        given = (self.certificate_file, self.key_file, self.client_ca_file)
        return tuple(each for each in given if each is not None)

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        _load_certificate(context, self.certificate_file, self.key_file, self.key_password)
        if self.client_ca_file is not None:
            _load_authorities(context, "client_ca_file", self.client_ca_file)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def _load_authorities(context: ssl.SSLContext, setting: str, path: str) -> None:
    try:
        context.load_verify_locations(path)
    except OSError as error:
        raise InvalidSetting(setting, path, _words(error)) from None


def _load_certificate(
    context: ssl.SSLContext, path: str, key_path: str | None, password: str | None
) -> None:
    try:
        context.load_cert_chain(path, key_path, password or "")  # "" keeps OpenSSL from asking
    except OSError as error:
        raise InvalidSetting("certificate_file", path, _words(error)) from None


def _words(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"it or its key cannot be read as PEM ({error.reason or error.args[-1]})"
    return error.strerror or str(error)
