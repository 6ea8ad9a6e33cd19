"""A certificate authority of one's own, and certificates it signs, as PEM files in a directory.

    ca.pem, ca.key            whom to trust, and what signs
    server.pem, server.key    for servers: valid for the given hosts
    client.pem, client.key    for clients that have to show one

Keys are on the curve P-256 and are readable by their owner only.  A server's certificate is one of
a client too, because brokers show it to their name servers.  No file is ever overwritten; an
authority that is there already signs again, so that a certificate can be renewed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from flintmq.errors import InvalidSetting

AUTHORITY_DAYS: Final = 3_650
"""How long an authority holds: ten years, so that certificates can be renewed below it."""

CLOCK_SLACK: Final = timedelta(minutes=5)
"""Certificates hold from a moment ago: clocks of other machines may be behind."""

HOST_CHARS_MAX: Final = 253
"""What a name in DNS may have."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def make_certificates(directory: Path, hosts: Sequence[str], days: int) -> list[Path]:
    """Make what is not there; the files that were made.  `InvalidSetting` where one is in the way.

    Nothing is written where a server's or a client's certificate is there already.
    """
    names = [_host(host) for host in hosts]
    kinds = ("server", "client")
    for path in (directory / f"{kind}.{end}" for kind in kinds for end in ("pem", "key")):
        if path.exists():
            reason = "it is there already, and is not overwritten: remove it, or give another DIR"
            raise InvalidSetting("file", str(path), reason)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    authority, made = _authority(directory)
    both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    for kind, usages, alternatives in zip(kinds, (both, both[1:]), (names, []), strict=True):
        pair = _signed(f"flintmq {kind}", authority, usages, alternatives, days)
        made += _write(directory, kind, pair)
    return made


def _authority(directory: Path) -> tuple[Pair, list[Path]]:
    certificate, key = directory / "ca.pem", directory / "ca.key"
    if certificate.exists() and key.exists():
        return _read(certificate, key), []
    for path in (certificate, key):
        if path.exists():
            reason = "ca.pem and ca.key belong together, and the other one is missing"
            raise InvalidSetting("file", str(path), reason)
    made = ec.generate_private_key(ec.SECP256R1())
    name = _named("flintmq authority")
    builder = _builder(name, name, made, made, AUTHORITY_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    pair = Pair(builder.sign(made, hashes.SHA256()), made)
    return pair, _write(directory, "ca", pair)


def _read(certificate: Path, key: Path) -> Pair:
    try:
        read = serialization.load_pem_private_key(key.read_bytes(), password=None)
        pair = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (ValueError, TypeError, OSError) as error:
        raise InvalidSetting("authority", str(key), f"it cannot be read: {error}") from None
    if not isinstance(read, ec.EllipticCurvePrivateKey) or pair.public_key() != read.public_key():
        raise InvalidSetting("authority", str(key), "it is not the key of ca.pem")
    return Pair(pair, read)


def _signed(
    name: str,
    authority: Pair,
    usages: Sequence[x509.ObjectIdentifier],
    names: Sequence[x509.GeneralName],
    days: int,
) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(authority.certificate.subject, _named(name), authority.key, key, days)
    builder = builder.add_extension(
        x509.BasicConstraints(ca=False, path_length=None), critical=True
    )
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return Pair(builder.sign(authority.key, hashes.SHA256()), key)


def _builder(
    issuer: x509.Name,
    subject: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    key: ec.EllipticCurvePrivateKey,
    days: int,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    above = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    return (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SLACK)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(own, critical=False)
        .add_extension(above, critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    if (
        not host
        or len(host) > HOST_CHARS_MAX
        or any(c in host for c in " :/")
        or not host.isascii()
    ):
        raise InvalidSetting("--host", host, "give the name or the IP address of a machine")
    return x509.DNSName(host)


def _write(directory: Path, name: str, pair: Pair) -> list[Path]:
    key = pair.key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    certificate = pair.certificate.public_bytes(serialization.Encoding.PEM)
    made = []
    for path, content, mode in (
        (directory / f"{name}.key", key, 0o600),
        (directory / f"{name}.pem", certificate, 0o644),
    ):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(descriptor, "wb") as opened:
                opened.write(content)
        except OSError as error:
            raise InvalidSetting("file", str(path), error.strerror or str(error)) from None
        made.append(path)
    return made
