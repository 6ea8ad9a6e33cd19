"""A console with a certificate speaks TLS, keeps cookies to it, and takes a new certificate."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest
from cryptography import x509

from flintmq.embedded.broker import EmbeddedBroker
from flintmq.net.tls import ServerTls
from support.console.browsing import TOKEN, visiting
from support.net.certificates import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority.ca_file)


def name_shown(address: str, authority: Authority) -> str:
    """The common name of the certificate that a new connection is shown."""
    host, _, port = address.removeprefix("https://").partition(":")
    with (
        socket.create_connection((host, int(port)), 60) as plain,
        trusting(authority).wrap_socket(plain, server_hostname=host) as secure,
    ):
        shown = x509.load_der_x509_certificate(secure.getpeercert(binary_form=True) or b"")
    (name,) = shown.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    return str(name.value)


def test_pages_come_by_tls_and_cookies_go_no_other_way(
    broker: EmbeddedBroker, authority: Authority
) -> None:
    tls = ServerTls(authority.sign("console"))
    with visiting(broker.namesrv, tls=tls, trusted=trusting(authority)) as visitor:
        answer = visitor.client.post("/login", data={"token": TOKEN, "next": "/"})
        page = visitor.text("/")

    assert visitor.address.startswith("https://127.0.0.1:")
    assert "; Secure" in answer.headers["set-cookie"]
    assert "broker-a" in page


def test_a_certificate_that_is_replaced_is_shown_from_then_on(
    broker: EmbeddedBroker, authority: Authority, tmp_path: Path
) -> None:
    shown = tmp_path / "shown.pem"
    shown.write_bytes(Path(authority.sign("first")).read_bytes())
    tls = ServerTls(str(shown))
    with visiting(broker.namesrv, tls=tls, trusted=trusting(authority)) as visitor:
        before = name_shown(visitor.address, authority)
        fresh = tmp_path / "fresh.pem"
        fresh.write_bytes(Path(authority.sign("second")).read_bytes())
        fresh.replace(shown)
        after = name_shown(visitor.address, authority)

    assert (before, after) == ("first", "second")


def test_who_speaks_plain_http_gets_no_page(broker: EmbeddedBroker, authority: Authority) -> None:
    tls = ServerTls(authority.sign("console"))
    with visiting(broker.namesrv, tls=tls, trusted=trusting(authority)) as visitor:
        host, _, port = visitor.address.removeprefix("https://").partition(":")
        with socket.create_connection((host, int(port)), 60) as plain:
            plain.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            try:
                said = plain.recv(1_000)
            except ConnectionError:
                said = b""

    assert not said.startswith(b"HTTP")
