"""Name server, broker and commands work together where everybody must show a certificate."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from flintmq.cli.shared.spark_job import source_options
from flintmq.errors import Unreachable
from flintmq.net.blocking.blocking import BlockingChannels
from flintmq.net.tls import ClientTls
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import request
from support.cli.serving import ANYWHERE, COMMAND, environment, failing, running
from support.net.certificates import Authority


def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        timeout=60,
    )


def test_name_server_broker_and_commands_show_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    asking = ("--tls-client-ca", authority.ca_file, "--tls-mode", "enforcing")
    with running(
        "namesrv", "--listen", ANYWHERE, "--tls-cert", authority.sign("namesrv"), *asking
    ) as namesrv:
        own = ("--namesrv-ca", authority.ca_file, "--namesrv-cert", authority.sign("broker"))
        with running(
            *("broker", "--namesrv", namesrv.namesrv, "--listen", ANYWHERE, *own),
            *("--data", tmp_path / "store", "--tls-cert", authority.sign("served"), *asking),
        ):
            where = ("--namesrv", namesrv.namesrv, "--tls-ca", authority.ca_file)
            made = command("topic", "create", "orders", *where, "--tls-cert", authority.sign("me"))
            shown = command("topic", "list", *where, "--tls-cert", authority.sign("me"))
            stranger = command("topic", "list", *where)
        with BlockingChannels() as plain, pytest.raises(Unreachable):
            plain.call(namesrv.namesrv, request(RequestCode.GET_BROKER_CLUSTER_INFO), 10_000)

    assert made.returncode == 0, made.stderr
    assert "orders" in shown.stdout
    assert stranger.returncode != 0
    assert "orders" not in stranger.stdout


def test_a_name_server_that_would_serve_plain_clients_beside_certificates_does_not_start(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path, "authority")
    tls = ("--tls-cert", authority.sign("server"), "--tls-client-ca", authority.ca_file)

    code, said = failing("namesrv", "--listen", ANYWHERE, *tls)

    assert code == 1
    assert "--tls-mode enforcing" in said


def test_a_key_without_its_certificate_is_refused(tmp_path: Path) -> None:
    code, said = failing("topic", "list", "--tls-key", "key.pem")

    assert code != 0
    assert "it needs the certificate it belongs to" in said


def test_spark_shows_the_same_certificate() -> None:
    tls = ClientTls(ca_file="ca.pem", certificate_file="me.pem", key_file="me.key")

    options = source_options({"namesrv": "a:1", "tls": tls})

    assert (options["tlsCa"], options["tlsCertificate"], options["tlsKey"]) == (
        *("ca.pem", "me.pem", "me.key"),
    )
