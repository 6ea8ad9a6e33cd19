"""`flintmq acl` shows and changes who may do what on a running broker, explains decisions, and
checks and imports account files; no secret is ever printed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flintmq import EmbeddedBroker, EmbeddedUser
from flintmq.cli.all_commands import app
from support.cli.admin_shell import AdminShell
from support.cli.asking import Ended
from support.cli.serving import ANYWHERE, running

ROOT = EmbeddedUser("root", "rootpw-secret", is_super=True)
PASSWORD = "alice-secret-1"


@pytest.fixture
def user() -> Iterator[AdminShell]:
    with EmbeddedBroker(accounts=[ROOT]) as broker:
        shell = AdminShell(broker.namesrv, "root", "rootpw-secret")
        yield shell
        assert "-secret" not in shell.printed


def users_of(user: AdminShell) -> dict[str, tuple[bool, bool]]:
    return {
        each["user"]: (each["super"], each["enabled"])
        for each in user.facts("acl", "users", "list")
    }


def test_users_are_created_changed_and_deleted(user: AdminShell, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    create = ("acl", "users", "create")

    user.told(*create, "alice", "--password-file", tmp_path / "password")
    user.told(*create, "bob", FLINTMQ_USER_PASSWORD=PASSWORD)
    user.told(*create, "carol", "--super", typed=f"{PASSWORD}\n{PASSWORD}\n")
    again = user.run(*create, "alice", FLINTMQ_USER_PASSWORD=PASSWORD)
    user.told("acl", "users", "update", "bob", "--disable")

    assert "there is one already" in again.stderr
    assert users_of(user) == {
        "root": (True, True),
        "alice": (False, True),
        "bob": (False, False),
        "carol": (True, True),
    }
    user.told("acl", "users", "delete", "bob", "--yes")
    assert "bob" not in users_of(user)
    assert user.run("acl", "users", "delete", "bob", "--yes").exit_code == 2
    assert user.run("acl", "users", "update", "alice").exit_code == 2


def test_a_changed_password_counts(user: AdminShell) -> None:
    user.told("acl", "users", "create", "carol", "--super", FLINTMQ_USER_PASSWORD=PASSWORD)
    carol = {"FLINTMQ_ACCESS_KEY": "carol", "FLINTMQ_SECRET_KEY": PASSWORD}
    user.told("topic", "list", **carol)

    changed = {"FLINTMQ_USER_PASSWORD": "other-secret-2"}
    user.told("acl", "users", "update", "carol", "--new-password", **changed)

    assert user.run("topic", "list", **carol).exit_code == 1
    user.told("topic", "list", **{**carol, "FLINTMQ_SECRET_KEY": "other-secret-2"})


@pytest.mark.parametrize("content", ["", "two\nlines\n", "x" * 5_000])
def test_a_file_that_holds_no_secret_is_refused(
    user: AdminShell, tmp_path: Path, content: str
) -> None:
    (tmp_path / "password").write_text(content)

    done = user.run("acl", "users", "create", "alice", "--password-file", tmp_path / "password")

    assert done.exit_code == 2
    assert "must be one line" in done.stderr


def test_policies_are_set_explained_and_deleted(user: AdminShell) -> None:
    user.told("acl", "users", "create", "alice", FLINTMQ_USER_PASSWORD=PASSWORD)
    policies = ("acl", "policies")
    user.told(*policies, "set", "alice", "Topic:orders*", "Pub,Sub", "--from", "10.0.0.0/8")
    user.told(*policies, "set", "alice", "Topic:orders-audit", "All", "--deny")
    user.told(*policies, "set", "alice", "Group:*", "Sub", "--default")

    listed = {
        (each["policy"], each["resource"]): (each["decision"], each["actions"], each["from"])
        for each in user.facts(*policies, "list", "--user", "alice")
    }
    assert listed == {
        ("Custom", "Topic:orders*"): ("Allow", ["Pub", "Sub"], ["10.0.0.0/8"]),
        ("Custom", "Topic:orders-audit"): ("Deny", ["All"], []),
        ("Default", "Group:*"): ("Allow", ["Sub"], []),
    }

    explain = ("acl", "explain", "alice", "Pub")
    near, far = ("--from", "10.1.2.3"), ("--from", "192.0.2.1")
    allowed = user.run(*explain, "Topic:orders-1", *near)
    assert allowed.exit_code == 0
    assert "Custom entry: Allow Pub, Sub on Topic:orders* from 10.0.0.0/8" in allowed.stdout
    denied = user.run(*explain, "Topic:orders-audit", *near)
    assert denied.exit_code == 1
    assert "Custom entry: Deny All on Topic:orders-audit" in denied.stdout
    assert user.run(*explain, "Topic:orders-1", *far).exit_code == 1

    assert user.run(*policies, "delete", "alice", "Topic:other", "--yes").exit_code == 2
    user.told(*policies, "delete", "alice", "Topic:orders*", "--yes")
    assert len(user.facts(*policies, "list")) == 2
    user.told(*policies, "delete", "alice", "--all", "--yes")
    assert user.facts(*policies, "list") == []


@pytest.mark.parametrize(
    "words",
    [
        ("acl", "policies", "set", "alice", "orders", "Pub"),
        ("acl", "policies", "set", "alice", "Topic:orders", "Publish"),
        ("acl", "policies", "set", "alice", "Topic:orders", "Pub", "--from", "somewhere"),
        ("acl", "policies", "delete", "alice"),
        ("acl", "explain", "alice", "Write", "Topic:orders"),
        ("acl", "explain", "alice", "Pub", "Topic:orders*"),
        ("acl", "explain", "alice", "Pub", "Topic:orders", "--from", "somewhere"),
    ],
    ids=" ".join,
)
def test_a_word_that_means_nothing_is_a_usage_error(user: AdminShell, words: tuple[str]) -> None:
    assert user.run(*words).exit_code == 2


def test_accounts_of_acl_1_are_not_looked_for_in_acl_2(user: AdminShell) -> None:
    for words in (("list",), ("delete", "shop1234", "--yes")):
        done = user.run("acl", "accounts", *words)
        assert done.exit_code == 2
        assert "flintmq acl users and policies are for ACL 2.0" in done.stderr


def test_a_broker_without_access_control_is_named_as_such() -> None:
    with EmbeddedBroker() as broker:
        shell = AdminShell(broker.namesrv, "", "")
        done = shell.run("acl", "explain", "alice", "Pub", "Topic:orders")

    assert "it has no access control" in done.stderr


PLAIN = """
accounts:
  - {accessKey: admin123, secretKey: admin-secret, admin: true}
"""


def owner_only(path: Path, content: str) -> Path:
    path.write_text(content)
    path.chmod(0o600)
    return path


def test_accounts_of_acl_1_are_set_explained_and_deleted(tmp_path: Path) -> None:
    owner_only(tmp_path / "plain_acl.yml", PLAIN)
    with running(
        *("serve", "--data", tmp_path / "data", "--acl", "plain", "--accounts", tmp_path),
        *("--namesrv-listen", ANYWHERE, "--broker-listen", ANYWHERE),
    ) as served:
        user = AdminShell(served.namesrv, "admin123", "admin-secret")
        accounts = ("acl", "accounts")
        user.told(
            *(*accounts, "set", "shop1234", "--topic", "orders=PUB", "--default-group", "SUB"),
            FLINTMQ_ACCOUNT_SECRET="shop-secret",
        )
        user.told(*accounts, "set", "shop1234", "--topic", "orders=PUB", "--topic", "x=SUB")
        listed = {each["access_key"]: each for each in user.facts(*accounts, "list")}
        allowed = user.run("acl", "explain", "shop1234", "Pub", "Topic:orders")
        denied = user.run("acl", "explain", "shop1234", "Sub", "Topic:orders")
        shop = {"FLINTMQ_ACCESS_KEY": "shop1234", "FLINTMQ_SECRET_KEY": "shop-secret"}
        refused = user.run(*accounts, "list", **shop)
        elsewhere = [
            user.run("acl", "users", "list"),
            user.run("acl", "policies", "set", "shop1234", "Topic:x", "Pub"),
        ]
        user.told(*accounts, "delete", "shop1234", "--yes")
        left = [each["access_key"] for each in user.facts(*accounts, "list")]

    assert listed["shop1234"]["topic_perms"] == ["orders=PUB", "x=SUB"]
    assert listed["shop1234"]["default_group_perm"] == "SUB"
    assert listed["admin123"]["admin"] is True
    assert (allowed.exit_code, denied.exit_code, refused.exit_code) == (0, 1, 1)
    assert left == ["admin123"]
    for done in elsewhere:
        assert done.exit_code == 2
        assert "flintmq acl accounts is for ACL 1.0" in done.stderr
    assert "-secret" not in user.printed


# Files


def offline(*words: str | Path) -> Ended:
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Ended(done.exit_code, done.stdout, done.stderr)


def test_files_are_checked_without_a_broker(tmp_path: Path) -> None:
    path = owner_only(tmp_path / "plain_acl.yml", PLAIN)
    (tmp_path / "acl").mkdir()
    owner_only(tmp_path / "acl" / "more.yml", "accounts: [{accessKey: a, secretKey: b-secret}]")

    done = offline("acl", "check", tmp_path)
    assert done.exit_code == 1
    assert "acl/more.yml: accounts[0] 'a': accessKey" in done.stdout
    assert "secret" not in done.stdout
    alone = offline("acl", "check", path)
    assert (alone.exit_code, alone.stdout) == (0, "nothing is wrong\n")
    path.chmod(0o644)
    assert "chmod 600" in offline("acl", "check", path).stdout
    assert offline("acl", "check", tmp_path / "nowhere").exit_code == 2


def test_an_imported_file_is_one_that_a_server_takes(tmp_path: Path) -> None:
    plain = PLAIN + "  - {accessKey: shop1234, secretKey: shop-secret, topicPerms: [orders=PUB]}\n"
    owner_only(tmp_path / "plain_acl.yml", plain)
    made = tmp_path / "accounts" / "accounts.json"

    done = offline("acl", "import", tmp_path, "--to", made)

    assert done.exit_code == 0, done
    assert "2 users are added" in done.stdout
    assert "secret" not in done.stdout
    assert made.stat().st_mode & 0o077 == 0
    assert offline("acl", "check", made).exit_code == 0
    explain = ("acl", "explain", "shop1234", "Pub")
    assert offline(*explain, "Topic:orders", "--file", made).exit_code == 0
    assert offline(*explain, "Topic:other", "--file", made.parent).exit_code == 1
    again = offline("acl", "import", tmp_path, "--to", made, "--json")
    assert json.loads(again.stdout)["users"] == []


def test_quotas_are_set_listed_explained_and_deleted(user: AdminShell) -> None:
    quotas = ("acl", "quotas")
    user.told("acl", "users", "create", "alice", FLINTMQ_USER_PASSWORD=PASSWORD)
    told = user.told(*quotas, "set", "account:alice", "send", "1000/s", "1MiB/s")
    assert "broker-a: quotas=account:alice send 1000/s 1MiB/s" in told
    user.told(*quotas, "set", "account:*", "send", "5/s")
    user.told(*quotas, "set", "group:billing", "consume", "2KiB/s")
    user.told(*quotas, "set", "account:alice", "send", "900/s")

    assert user.facts(*quotas, "list") == [
        {
            "broker": "broker-a",
            "holder": holder,
            "for": use,
            "messages_per_second": messages,
            "bytes_per_second": size_bytes,
        }
        for holder, use, messages, size_bytes in (
            ("account:*", "send", 5, None),
            ("group:billing", "consume", None, 2_048),
            ("account:alice", "send", 900, None),
        )
    ]
    pub = user.run("acl", "explain", "alice", "Pub", "Topic:orders")
    sub = user.run("acl", "explain", "root", "Sub", "Group:billing")
    assert "quota: account:alice send 900/s" in pub.stdout
    assert "quota: account:*" not in pub.stdout
    assert "quota: group:billing consume 2KiB/s" in sub.stdout
    assert "quota: account:* send 5/s" in sub.stdout

    user.told(*quotas, "delete", "account:alice", "send")
    again = user.run(*quotas, "delete", "account:alice", "send")
    wrong = user.run(*quotas, "set", "alice", "send", "1/s")
    assert "there is no such quota" in again.stderr
    assert "it must be like" in wrong.stderr
    assert [each["holder"] for each in user.facts(*quotas, "list")] == [
        "account:*",
        "group:billing",
    ]
