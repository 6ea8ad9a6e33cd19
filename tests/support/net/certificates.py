"""Certificates for the TLS tests: made in a moment, trusted by nobody else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """Signs certificates and keeps them as PEM files, each with its key in the same file."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        certificate = _build(self._name, self._name, self._key, self._key, is_authority=True)
        self.ca_file = str(_write(folder / f"{name}.pem", certificate))

    def sign(
        self, name: str, *, hosts: tuple[str, ...] = ("127.0.0.1", "localhost"), days: int = 1
    ) -> str:
        """A certificate for the hosts that lasts so many days from now, or ended that long ago."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _build(self._name, _named(name), self._key, key, hosts=hosts, days=days)
        return str(_write(self._folder / f"{name}.pem", certificate, key))


def self_signed(folder: Path, name: str) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _build(_named(name), _named(name), key, key, hosts=("127.0.0.1",))
    return str(_write(folder / f"{name}.pem", certificate, key))


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _build(
    issuer: x509.Name,
    subject: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    key: ec.EllipticCurvePrivateKey,
    *,
    hosts: tuple[str, ...] = (),
    days: int = 1,
    is_authority: bool = False,
) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=30))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()),
            critical=False,
        )
    )
    if is_authority:
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(usage, critical=True)
    if hosts:
        names = x509.SubjectAlternativeName([_host(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(
    path: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey | None = None
) -> Path:
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    if key is not None:
        pem += key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    path.write_bytes(pem)
    return path
