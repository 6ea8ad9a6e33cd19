"""A server that asks for certificates serves nobody without one.

Findings 3 (plain clients are served where certificates are asked for) and 18 (the command line has
no certificate of its own).
"""

from __future__ import annotations

import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from support.attack.peers import Peer, frame
from support.attack.victim import NotStarted, Victim, serving
from support.cli.serving import COMMAND, environment
from support.net.certificates import Authority, self_signed

RUNTIME = 28


class Guarded(NamedTuple):
    victim: Victim
    authority: Authority
    folder: Path


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    authority = Authority(folder, "authority")
    options = ("--tls-cert", authority.sign("server"), "--tls-client-ca", authority.ca_file)
    with serving(folder, *options, "--tls-mode", "enforcing") as victim:
        yield Guarded(victim, authority, folder)
        assert victim.stop() == 0
        victim.check_log()
        victim.check_store()


def is_served(guarded: Guarded, certificate: str | None, address: str) -> bool:
    context = ssl.create_default_context(cafile=guarded.authority.ca_file)
    if certificate is not None:
        context.load_cert_chain(certificate)
    host, _, port = address.rpartition(":")
    with (
        suppress(OSError),
        socket.create_connection((host, int(port)), 10) as plain,
        context.wrap_socket(plain, server_hostname=host) as secure,
    ):
        secure.sendall(frame(RUNTIME))
        return bool(secure.recv(100))
    return False


@pytest.mark.parametrize("mode", [(), ("--tls-mode", "permissive"), ("--tls-mode", "off")])
def test_a_server_that_would_take_plain_clients_beside_certificates_does_not_start(
    tmp_path: Path, mode: tuple[str, ...]
) -> None:
    authority = Authority(tmp_path, "authority")
    options = ("--tls-cert", authority.sign("server"), "--tls-client-ca", authority.ca_file)
    with pytest.raises(NotStarted, match="enforcing"), serving(tmp_path, *options, *mode):
        pass


@pytest.mark.parametrize("where", ["broker", "namesrv"])
def test_nobody_without_a_certificate_is_served(guarded: Guarded, where: str) -> None:
    address = getattr(guarded.victim, where)
    with Peer(address) as plain:
        assert plain.ask(RUNTIME) is None, "a plain client is served"
    assert not is_served(guarded, None, address)
    assert not is_served(guarded, self_signed(guarded.folder, f"stranger-{where}"), address)
    other = Authority(guarded.folder, f"other-{where}")
    assert not is_served(guarded, other.sign(f"forged-{where}"), address)
    assert is_served(guarded, guarded.authority.sign(f"client-{where}"), address)


def test_bytes_that_are_no_handshake_end_their_connection_only(guarded: Guarded) -> None:
    for data in (b"\x16", b"\x16\x03\x01\xff\xff" + bytes(70_000), b"\x16" * 5_000, b"GET / \r\n"):
        with Peer(guarded.victim.broker) as peer:
            peer.say(data)
    address = guarded.victim.broker
    assert is_served(guarded, guarded.authority.sign("after"), address)


def test_the_command_line_has_a_certificate(guarded: Guarded) -> None:
    certificate = guarded.authority.sign("command")
    arguments = ("--namesrv", guarded.victim.namesrv, "--tls-ca", guarded.authority.ca_file)
    done = subprocess.run(
        [COMMAND, "topic", "list", *arguments, "--tls-cert", certificate],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
