"""Servers write an audit log and serve administrators at their own address, as their flags say."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flintmq.cli.all_commands import app
from support.cli.asking import Ended
from support.cli.serving import ANYWHERE, failing, running

ROOT = {"FLINTMQ_ACCESS_KEY": "root", "FLINTMQ_SECRET_KEY": "rootpw12"}
FIRST = {"FLINTMQ_FIRST_USER_PASSWORD": "rootpw12"}
INNER = {"FLINTMQ_INNER_ACCESS_KEY": "inner", "FLINTMQ_INNER_SECRET_KEY": "innerpw1"}


def run(namesrv: str, *words: str, **variables: str) -> Ended:
    environment = {"NAMESRV_ADDR": namesrv, "FLINTMQ_NAMESRV": None, **variables}
    done = CliRunner().invoke(app, list(words), env=environment)
    return Ended(done.exit_code, done.stdout, done.stderr)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def decisions(path: Path) -> set[tuple[str | None, str, str]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {(each["user"], each["request"], each["decision"]) for each in lines}


def test_serve_audits_and_has_an_address_for_administrators(tmp_path: Path) -> None:
    audit, admin_at = tmp_path / "audit.jsonl", f"127.0.0.1:{free_port()}"
    with running(
        *("serve", "--data", tmp_path / "data", "--acl", "auth", "--first-user", "root"),
        *("--namesrv-listen", ANYWHERE, "--broker-listen", ANYWHERE),
        *("--audit", audit, "--admin-listen", admin_at),
        **FIRST,
    ) as served:
        create = ("topic", "create", "orders")
        elsewhere = run(served.namesrv, *create, **ROOT)
        stranger = run(served.namesrv, *create, FLINTMQ_ADMIN_AT=admin_at)
        there = run(served.namesrv, *create, **ROOT, FLINTMQ_ADMIN_AT=admin_at)
        found = decisions(audit)

    assert elsewhere.exit_code == 1
    assert f"administrative requests are served at {admin_at} only" in elsewhere.stderr
    assert stranger.exit_code == 1
    assert there.exit_code == 0, there
    assert ("root", "UPDATE_AND_CREATE_TOPIC", "allow") in found
    assert (None, "GET_BROKER_CLUSTER_INFO", "deny") in found


@pytest.mark.parametrize("kind", ["serve", "namesrv"])
def test_a_name_server_has_an_address_for_administrators(tmp_path: Path, kind: str) -> None:
    admin_at = f"127.0.0.1:{free_port()}"
    words: tuple[str | Path, ...] = ("namesrv", "--listen", ANYWHERE, "--admin-listen", admin_at)
    if kind == "serve":
        listen = ("--namesrv-listen", ANYWHERE, "--broker-listen", ANYWHERE)
        words = ("serve", "--data", tmp_path, *listen, "--namesrv-admin-listen", admin_at)
    with running(*words) as served:
        elsewhere = run(served.namesrv, "cluster", "list")
        there = run(admin_at, "cluster", "list")

    assert elsewhere.exit_code == 1
    assert f"administrative requests are served at {admin_at} only" in elsewhere.stderr
    if kind == "serve":
        assert there.exit_code == 0, there
    else:
        assert "no broker is registered" in there.stderr


def test_broker_and_name_server_have_audit_logs_of_their_own(tmp_path: Path) -> None:
    account = ("--acl", "auth", "--accounts", tmp_path / "accounts")
    with running(
        "namesrv", "--listen", ANYWHERE, *account, "--audit", tmp_path / "namesrv.jsonl", **INNER
    ) as namesrv:
        with running(
            *("broker", "--data", tmp_path / "data", "--namesrv", namesrv.namesrv),
            *("--listen", ANYWHERE, *account, "--audit", tmp_path / "broker.jsonl"),
            **INNER,
        ):
            run(namesrv.namesrv, "topic", "list")
        assert ("inner", "REGISTER_BROKER", "allow") in decisions(tmp_path / "namesrv.jsonl")
    assert (tmp_path / "broker.jsonl").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--audit", "x.jsonl"), "audit 'x.jsonl': it needs --acl"),
        (("--audit-all",), "it needs --audit FILE"),
        (("--admin-listen", "nowhere"), "nowhere"),
        (("--admin-listen", "0.0.0.0:10921"), "0.0.0.0:10921"),
        (("--namesrv-admin-listen", "nowhere"), "nowhere"),
        (("--namesrv-admin-listen", "0.0.0.0:9886"), "0.0.0.0:9886"),
    ],
    ids=" ".join,
)
def test_flags_that_cannot_be_meant_stop_the_start(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    code, told = failing("serve", "--data", tmp_path, *words)

    assert code == 1
    assert re.search(re.escape(said), told)
