"""Name server, broker and commands work together where everybody must show a certificate."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flintmq.cli.all_commands import app
from flintmq.cli.shared.spark_job import source_options
from flintmq.errors import Unreachable
from flintmq.net.blocking.blocking import BlockingChannels
from flintmq.net.tls import ClientTls
from flintmq.protocol.codes import RequestCode
from flintmq.protocol.command import request
from support.cli.serving import ANYWHERE, COMMAND, Served, environment, failing, running
from support.cli.story import all_commands
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


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "authority")


@pytest.fixture(scope="module")
def served(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A cluster that serves nobody without a certificate."""
    tls = ("--tls-cert", authority.sign("served"), "--tls-client-ca", authority.ca_file)
    listen = ("--namesrv-listen", ANYWHERE, "--broker-listen", ANYWHERE)
    data = ("--data", tmp_path_factory.mktemp("data"))
    with running("serve", *listen, *data, *tls, "--tls-mode", "enforcing") as started:
        yield started


ASKING = sorted(
    words
    for words, command in all_commands().items()
    if {"tls_cert", "access_key"} <= {each.name for each in command.params}
    and words not in {("run",), ("console",), ("proxy",)}  # they serve on, and say it when asked
)


@pytest.mark.parametrize("words", ASKING, ids=" ".join)
def test_a_command_without_a_certificate_is_told_the_flag(
    served: Served,
    authority: Authority,
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every command there is, called as its first example says."""
    monkeypatch.chdir(tmp_path)
    known = {"NAMESRV_ADDR": served.namesrv, "FLINTMQ_TLS_CA": str(authority.ca_file)}
    example = all_commands()[words].examples[0].replace("127.0.0.1:9876", served.namesrv)
    line = shlex.split(example)[1:]

    done = CliRunner().invoke(app, line, env=known, input="y\n")

    failed = 1 if words == ("perf", "send") else 3  # a load goes on after a failure, and counts
    assert (done.exit_code, type(done.exception)) == (failed, SystemExit), done.output
    assert "--tls-cert" in done.stderr


def test_commands_of_every_kind_work_with_a_certificate(
    served: Served, authority: Authority, tmp_path: Path
) -> None:
    shop = (
        "from flintmq import App\n"
        "app = App('billing', start_from='first')\n"
        "@app.listener('orders')\n"
        "def listen(messages):\n    print('got', messages[0].body.decode(), flush=True)\n"
    )
    (tmp_path / "shop.py").write_text(shop)
    (tmp_path / "config.toml").write_text(
        f"[clusters.here]\nnamesrv = '{served.namesrv}'\ntls_ca = '{authority.ca_file}'\n"
        f"tls_cert = '{authority.sign('named')}'\n"
    )
    flags = ("--namesrv", served.namesrv, "--tls-ca", str(authority.ca_file))
    own = (*flags, "--tls-cert", str(authority.sign("me")))
    named = ("--cluster", "here")
    file = {"FLINTMQ_CONFIG": str(tmp_path / "config.toml")}

    for words in (
        ("topic", "create", "orders"),
        ("send", "orders", "o-1", "--key", "o-1"),
        ("tail", "orders", "--from", "start", "-e"),
        ("message", "find", "orders", "--key", "o-1"),
        ("group", "create", "billing"),
        ("group", "lag", "billing"),
        ("group", "show", "billing"),
        ("dlq", "list"),
    ):
        done = CliRunner().invoke(app, [*words, *own])
        again = CliRunner().invoke(app, [*named, *words], env=file)
        assert (done.exit_code, again.exit_code) == (0, 0), (done.output, again.output)

    for before, after in (((), own), (named, ())):
        for processes in (1, 2):
            more = ("--processes", str(processes))
            _join(tmp_path, processes, *before, "run", "shop:app", *after, *more)


def _join(directory: Path, processes: int, *words: str) -> None:
    """A program of a user gets in, and ends when it is told to."""
    variables = environment(FLINTMQ_CONFIG=str(directory / "config.toml"))
    process = subprocess.Popen(
        [COMMAND, *words], stdout=subprocess.PIPE, text=True, cwd=directory, env=variables
    )
    assert process.stdout is not None
    with process.stdout:
        ready = 0
        while ready < processes:
            line = process.stdout.readline()
            assert line, "it ended"
            ready += line.startswith("flintmq ready app=shop:app")
        process.terminate()
        process.stdout.read()
    assert process.wait(timeout=60) == 0


def test_a_server_that_wants_tls_is_told_of_to_who_speaks_none(served: Served) -> None:
    done = CliRunner().invoke(app, ["topic", "list", "--namesrv", served.namesrv])

    assert done.exit_code == 3
    assert "does it want TLS? --tls-ca FILE" in done.stderr


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--tls-ca", "nowhere.pem"), "--tls-ca 'nowhere.pem': No such file"),
        (("--tls-cert", "nowhere.pem"), "--tls-cert 'nowhere.pem': No such file"),
        (("--tls-key", "key.pem"), "--tls-key 'key.pem': it needs the certificate it belongs to"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_by_its_flag(flags: tuple[str, ...], said: str) -> None:
    code, words = failing("topic", "list", *flags)

    assert code == 2
    assert said in words


@pytest.mark.parametrize("command", ["serve", "broker", "namesrv"])
def test_a_server_names_its_files_by_their_flags_too(command: str) -> None:
    code, words = failing(command, "--tls-cert", "nowhere.pem")

    assert code == 1
    assert "--tls-cert 'nowhere.pem': No such file" in words


def test_a_broker_names_the_files_for_name_servers_by_their_flags() -> None:
    code, words = failing("broker", "--namesrv-cert", "nowhere.pem")

    assert code == 1
    assert "--namesrv-cert 'nowhere.pem': No such file" in words


def test_a_name_server_that_would_serve_plain_clients_beside_certificates_does_not_start(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path, "authority")
    tls = ("--tls-cert", authority.sign("server"), "--tls-client-ca", authority.ca_file)

    code, said = failing("namesrv", "--listen", ANYWHERE, *tls)

    assert code == 1
    assert "--tls-mode enforcing" in said


def test_spark_shows_the_same_certificate() -> None:
    tls = ClientTls(ca_file="ca.pem", certificate_file="me.pem", key_file="me.key")

    options = source_options({"namesrv": "a:1", "tls": tls})

    assert (options["tlsCa"], options["tlsCertificate"], options["tlsKey"]) == (
        *("ca.pem", "me.pem", "me.key"),
    )
