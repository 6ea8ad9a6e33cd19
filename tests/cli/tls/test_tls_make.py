"""`flintmq tls make` makes certificates with which servers and commands work at once, for their
owner alone, and overwrites nothing.
"""

from __future__ import annotations

import json
import ssl
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flintmq.cli.all_commands import app
from flintmq.errors import Unreachable
from flintmq.net.blocking.blocking import BlockingChannels
from flintmq.net.tls import ClientTls
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import request
from support.cli.serving import ANYWHERE, COMMAND, environment, running
from support.client.support import wait_for

FILES = {f"{name}.{end}" for name in ("ca", "server", "client") for end in ("pem", "key")}


def made(directory: Path, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["tls", "make", str(directory), *words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def test_servers_and_commands_work_with_them(tmp_path: Path) -> None:
    certs = tmp_path / "certs"
    assert made(certs)[0] == 0
    serving = ("--tls-cert", certs / "server.pem", "--tls-key", certs / "server.key")
    asking = ("--tls-client-ca", certs / "ca.pem", "--tls-mode", "enforcing")
    where = ("--namesrv-listen", ANYWHERE, "--broker-listen", ANYWHERE)
    own = ("--tls-cert", certs / "client.pem", "--tls-key", certs / "client.key")

    with running("serve", "--data", tmp_path / "data", *where, *serving, *asking) as served:
        cluster = ("--namesrv", served.namesrv, "--tls-ca", certs / "ca.pem")
        done = [
            subprocess.run(
                [COMMAND, "topic", *words, *cluster, *more],
                capture_output=True,
                text=True,
                check=False,
                env=environment(),
                timeout=60,
            )
            for words, more in (
                (("create", "orders"), own),
                (("list",), own),
                (("list",), ()),
            )
        ]

    assert done[0].returncode == 0, done[0].stderr
    assert "orders" in done[1].stdout
    assert done[2].returncode == 3
    assert "--tls-cert" in done[2].stderr


def test_keys_are_for_their_owner_alone_and_certificates_hold_for_the_hosts(
    tmp_path: Path,
) -> None:
    code, said = made(tmp_path, "--host", "mq.example", "--host", "10.0.0.5", "--json")

    assert code == 0
    assert {Path(path).name for path in json.loads(said)["files"]} == FILES
    for path in tmp_path.glob("*.key"):
        assert path.stat().st_mode & 0o077 == 0, path
    shown = ssl._ssl._test_decode_cert(str(tmp_path / "server.pem"))  # type: ignore[attr-defined]  # the only reader in the library
    assert set(shown["subjectAltName"]) == {("DNS", "mq.example"), ("IP Address", "10.0.0.5")}


def test_nothing_is_overwritten_and_an_authority_signs_again(tmp_path: Path) -> None:
    made(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    code, said = made(tmp_path)
    assert code == 2
    assert "is not overwritten" in said
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before

    for name in ("server", "client"):
        for end in ("pem", "key"):
            (tmp_path / f"{name}.{end}").unlink()
    assert made(tmp_path)[0] == 0
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert {name for name in FILES if after[name] == before[name]} == {"ca.pem", "ca.key"}


@pytest.mark.parametrize("host", ["", "a b", "mq.example:9876", "http://mq"])
def test_what_is_no_host_is_refused_and_nothing_is_made(tmp_path: Path, host: str) -> None:
    code, said = made(tmp_path / "certs", "--host", host)

    assert code == 2
    assert "--host" in said
    assert not (tmp_path / "certs").exists()


def test_half_an_authority_is_refused(tmp_path: Path) -> None:
    made(tmp_path)
    for path in tmp_path.iterdir():
        if path.name != "ca.pem":
            path.unlink()

    code, said = made(tmp_path)

    assert code == 2
    assert "belong together" in said


def test_renewed_files_are_taken_by_a_running_server(tmp_path: Path) -> None:
    """The whole way: two authorities, and a server that changes from one to the other."""
    first, second = tmp_path / "first", tmp_path / "second"
    made(first)
    made(second)
    tls = ("--tls-cert", first / "server.pem", "--tls-key", first / "server.key")

    with running("namesrv", "--listen", ANYWHERE, *tls) as served:
        assert _answers(served.namesrv, first / "ca.pem")
        for name in ("server.key", "server.pem"):
            (second / name).replace(first / name)
        renewed = (first / "server.pem").read_text()
        wait_for(lambda: _shown(served.namesrv) == renewed)
        assert _answers(served.namesrv, second / "ca.pem")
        assert not _answers(served.namesrv, first / "ca.pem")


def _shown(address: str) -> str:
    """The certificate a server shows to anybody."""
    host, _, port = address.rpartition(":")
    return ssl.get_server_certificate((host, int(port)))


def _answers(namesrv: str, authority: Path) -> bool:
    with BlockingChannels(tls=ClientTls(ca_file=str(authority))) as channels:
        try:
            channels.call(namesrv, request(RequestCode.GET_BROKER_CLUSTER_INFO), 10_000)
        except Unreachable:
            return False
    return True
