"""`flintmq console` says where to open it, and does not stand open to others."""

from __future__ import annotations

import re
import signal
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from flintmq.embedded.broker import EmbeddedBroker
from support.cli.serving import ANYWHERE, COMMAND, environment, failing, running
from support.net.certificates import Authority

PATIENCE_S = 60
TOKEN = ("--console-token", "x" * 16)


@contextmanager
def console(namesrv: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command as a user runs it, and the address it printed."""
    process = subprocess.Popen(
        [COMMAND, "console", "-n", namesrv, "--listen", ANYWHERE, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        assert process.stdout is not None
        found = re.fullmatch(r"flintmq console ready at (\S+)\n", process.stdout.readline())
        assert found is not None
        yield process, found[1]
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_the_link_it_prints_leads_in_and_a_signal_ends_it(broker: EmbeddedBroker) -> None:
    with console(broker.namesrv) as (process, link):
        with httpx.Client(timeout=PATIENCE_S, follow_redirects=True) as client:
            page = client.get(link)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=PATIENCE_S)

    assert (page.status_code, page.url.path) == (200, "/")
    assert "broker-a" in page.text
    assert process.returncode == 0
    assert "Traceback" not in errors
    assert "token=" not in errors


def test_serve_runs_it_beside_the_servers(tmp_path: Path) -> None:
    free = ("--namesrv-listen", ANYWHERE, "--broker-listen", ANYWHERE, "--data", tmp_path)
    with running("serve", *free, "--console", ANYWHERE) as served:
        assert served.process.stderr is not None
        lines = iter(served.process.stderr.readline, "")
        link = next(line.split()[-1] for line in lines if "the console is at" in line)
        with httpx.Client(timeout=PATIENCE_S, follow_redirects=True) as client:
            page = client.get(link)
        code = served.stop()

    assert "broker-a" in page.text
    assert code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--listen", "0.0.0.0:8088"), "set FLINTMQ_CONSOLE_TOKEN"),
        (("--listen", "0.0.0.0:8088", "--token", "x" * 16), "--host NAME"),
        (("--token", "short"), "at least 16 characters"),
    ],
)
def test_it_does_not_start_where_strangers_could_come_in(
    arguments: tuple[str, ...], says: str
) -> None:
    code, said = failing("console", *arguments)

    assert code != 0
    assert says in said.replace("\n", " ")
    assert "short" not in said


def test_beside_access_control_people_sign_in_with_accounts(tmp_path: Path) -> None:
    free = ("--namesrv-listen", ANYWHERE, "--broker-listen", ANYWHERE, "--data", tmp_path)
    refused = failing("serve", *free, "--console", ANYWHERE, "--acl", "auth", *TOKEN)
    with running(
        "serve",
        *free,
        *("--console", ANYWHERE, "--acl", "auth", "--first-user", "root"),
        FLINTMQ_FIRST_USER_PASSWORD="the-first-secret",
    ) as served:
        assert served.process.stderr is not None
        lines = iter(served.process.stderr.readline, "")
        address = next(line.split()[-1] for line in lines if "the console is at" in line)
        form = {"username": "root", "token": "the-first-secret"}
        with httpx.Client(timeout=PATIENCE_S, follow_redirects=True) as client:
            page = client.post(f"{address}login", data=form)
        code = served.stop()

    assert refused[0] == 1
    assert "sign in with accounts" in refused[1]
    assert "broker-a" in page.text
    assert code == 0


def test_a_login_by_accounts_takes_no_token() -> None:
    code, said = failing("console", "--login", "accounts", "--token", "x" * 16)

    assert code != 0
    assert "give no token" in said


def test_with_a_certificate_it_speaks_https(broker: EmbeddedBroker, tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    trusted = ssl.create_default_context(cafile=authority.ca_file)
    with (
        console(broker.namesrv, "--https-cert", authority.sign("console")) as (_, link),
        httpx.Client(timeout=PATIENCE_S, follow_redirects=True, verify=trusted) as client,
    ):
        page = client.get(link)

    assert link.startswith("https://")
    assert (page.status_code, page.url.path) == (200, "/")


def test_a_key_needs_its_certificate(tmp_path: Path) -> None:
    code, said = failing("console", "--https-key", tmp_path / "key.pem")

    assert code == 2
    assert "it needs a certificate: --https-cert" in said
