"""`flintmq acl` does with real brokers what it does with ours, and explains what they do.

4.9 has accounts (ACL 1.0), 5.3 users and policies (ACL 2.0).  What a broker does not have is an
error that says where to look.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flintmq import Message, Producer
from flintmq.errors import BrokerRefused, SendFailed
from support.cli.admin_shell import AdminShell
from support.interop.account_programs import Account
from support.interop.filled import SEND_MS
from support.interop.guarded_brokers import (
    ANALYST,
    AUTH,
    BOSS,
    PACKER,
    PLAIN,
    PLAIN_FILE,
    REAL_VERSIONS,
    RIGHT,
    WRONG,
    Guarded,
)
from support.interop.real import RealRocketMQ

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(600),  # the first test starts servers
]

APPRENTICE = Account("apprentice", "learns-fast")
SECRETS = [account.secret for account in (BOSS, RIGHT, ANALYST, PACKER, APPRENTICE)]
USAGE, FAILED = 2, 1


@pytest.fixture
def shell(guarded: Guarded) -> AdminShell:
    return AdminShell(guarded.namesrv, *BOSS)


def may_send(at: Guarded, topic: str, who: Account = APPRENTICE) -> bool:
    try:
        with Producer("shop", namesrv=at.namesrv, **who.keys) as producer:
            producer.send(Message(topic, b"x"), timeout_ms=SEND_MS)
    except (BrokerRefused, SendFailed):
        return False
    return True


def explained(shell: AdminShell, who: str, action: str, resource: str, *more: str) -> bool:
    """Whether the command says yes; it must say one or the other."""
    done = shell.run("acl", "explain", who, action, resource, *more)
    assert done.exit_code in (0, FAILED), done
    assert done.stdout.startswith("denied:" if done.exit_code else "allowed:"), done
    return done.exit_code == 0


def test_users_and_policies_are_changed_and_decide(guarded: Guarded, shell: AdminShell) -> None:
    users, policies, name = ("acl", "users"), ("acl", "policies"), APPRENTICE.name
    secret = {"FLINTMQ_USER_PASSWORD": APPRENTICE.secret}
    if guarded.acl == PLAIN:
        for words in ((*users, "list"), (*users, "create", name), (*policies, "list")):
            done = shell.run(*words, **secret)
            assert done.exit_code == USAGE, done
            assert "flintmq acl accounts is for ACL 1.0" in done.stderr
        return

    shell.told(*users, "create", name, **secret)
    assert "there is one already" in shell.run(*users, "create", name, **secret).stderr
    listed = {each["user"]: each for each in shell.facts(*users, "list")}
    assert listed[name]["super"] is False
    assert listed[BOSS.name]["super"] is True
    assert not may_send(guarded, "orders")

    allowed = ("Topic:orders", "Pub,Sub", "--from", "127.0.0.0/8")
    shell.told(*policies, "set", name, *allowed)
    shell.told(*policies, "set", name, "Group:*", "Sub", "--default")
    found = {
        (each["policy"], each["resource"]): (each["decision"], each["actions"], each["from"])
        for each in shell.facts(*policies, "list", "--user", name)
    }
    assert found == {
        ("Custom", "Topic:orders"): ("Allow", ["Pub", "Sub"], ["127.0.0.0/8"]),
        ("Default", "Group:*"): ("Allow", ["Sub"], []),
    }
    for topic in ("orders", "wages"):
        assert explained(shell, name, "Pub", f"Topic:{topic}") == may_send(guarded, topic)
    assert explained(shell, name, "Sub", "Group:billing")
    assert not explained(shell, name, "Pub", "Topic:orders", "--from", "10.0.0.1")
    shell.told(*policies, "set", name, "Topic:orders", "Pub", "--deny")
    assert not explained(shell, name, "Pub", "Topic:orders")
    assert not may_send(guarded, "orders")

    shell.told(*users, "update", name, "--super")
    assert explained(shell, name, "Pub", "Topic:wages")
    assert may_send(guarded, "wages")
    shell.told(*users, "update", name, "--disable")
    assert not explained(shell, name, "Pub", "Topic:wages")
    assert not may_send(guarded, "wages")
    for line in (
        "users update nobody-here --disable",
        "policies set nobody-here Topic:orders Pub",
        f"policies delete {name} Topic:nothing --yes",
        "users delete nobody-here --yes",
    ):
        done = shell.run("acl", *line.split())
        assert done.exit_code == USAGE, done
        assert "there is no such user" in done.stderr or "no Custom entry" in done.stderr
    shell.told(*policies, "delete", name, "Topic:orders", "--yes")
    shell.told(*policies, "delete", name, "--all", "--yes")
    assert shell.facts(*policies, "list", "--user", name) == []
    shell.told(*users, "delete", name, "--yes")
    assert name not in {each["user"] for each in shell.facts(*users, "list")}
    assert not any(secret in shell.printed for secret in SECRETS)


def test_accounts_of_acl_1_are_changed_and_decide(guarded: Guarded, shell: AdminShell) -> None:
    accounts, name = ("acl", "accounts"), APPRENTICE.name
    secret = {"FLINTMQ_ACCOUNT_SECRET": APPRENTICE.secret}
    if guarded.acl == AUTH:
        for words in (("list",), ("set", name, "--topic", "orders=PUB"), ("delete", name, "--yes")):
            done = shell.run(*accounts, *words, **secret)
            assert done.exit_code == USAGE, done
            assert "flintmq acl users and policies are for ACL 2.0" in done.stderr
        return

    shell.told(*accounts, "set", name, "--topic", "orders=PUB", **secret)
    listed = {each["access_key"]: each for each in shell.facts(*accounts, "list")}
    assert listed[name]["topic_perms"] == ["orders=PUB"]
    assert listed[RIGHT.name]["group_perms"] == ["billing=SUB", "counting=SUB"]
    assert listed[BOSS.name]["admin"] is True
    for topic in ("orders", "wages"):
        assert explained(shell, name, "Pub", f"Topic:{topic}") == may_send(guarded, topic)
    shell.told(*accounts, "set", name, "--topic", "wages=PUB", "--default-topic", "DENY")
    assert (may_send(guarded, "orders"), may_send(guarded, "wages")) == (False, True)
    for words in (("set", name, "--topic", "orders=XX"), ("delete", "nobody-here", "--yes")):
        done = shell.run(*accounts, *words)
        assert done.exit_code in (FAILED, USAGE), done
        assert done.stderr.startswith("flintmq: "), done
    shell.told(*accounts, "delete", name, "--yes")
    assert not may_send(guarded, "wages")
    assert name not in {each["access_key"] for each in shell.facts(*accounts, "list")}
    assert not any(secret in shell.printed for secret in SECRETS)


def test_a_wrong_account_is_told_what_is_wrong(guarded: Guarded) -> None:
    words = {PLAIN: ("acl", "accounts", "list"), AUTH: ("acl", "users", "list")}[guarded.acl]
    remark = {PLAIN: "Check signature failed", AUTH: "check signature failed"}[guarded.acl]
    for command in (words, ("acl", "explain", RIGHT.name, "Pub", "Topic:orders")):
        done = AdminShell(guarded.namesrv, *WRONG).run(*command)
        assert done.exit_code == FAILED
        assert remark in done.stderr
        assert WRONG.secret not in done.stderr


def test_an_import_is_the_migration_of_5_3(
    guarded: Guarded, shell: AdminShell, tmp_path: Path
) -> None:
    """A real 5.3 took over the same file of ACL 1.0 at its start.

    Ours gives Get beside Pub and Sub: ACL 1.0 asks no more for offsets, and clients must go on.
    """
    if guarded.acl != AUTH or guarded.whose != "real":
        pytest.skip("only 5.3 takes a file over")
    source, target = tmp_path / "plain_acl.yml", tmp_path / "accounts.json"
    source.write_text(PLAIN_FILE)
    source.chmod(0o600)
    shell.told("acl", "check", source)
    shell.told("acl", "import", source, "--to", target)
    shell.told("acl", "check", target)

    imported = json.loads(target.read_text())
    ours = {
        (acl["subject"].removeprefix("User:"), policy["policyType"], entry["resource"]): (
            entry["decision"],
            sorted(set(entry["actions"]) - {"Get"}),
        )
        for acl in imported["acls"]
        for policy in acl["policies"]
        for entry in policy["entries"]
    }
    theirs = {
        (each["user"], each["policy"], each["resource"]): (
            each["decision"],
            sorted(set(each["actions"]) - {"Get"}),
        )
        for each in shell.facts("acl", "policies", "list")
    }
    assert ours == theirs
    supers = {user["username"] for user in imported["users"] if user["userType"] == "Super"}
    assert supers == {each["user"] for each in shell.facts("acl", "users", "list") if each["super"]}


@pytest.mark.parametrize("version", list(REAL_VERSIONS.values()))
def test_a_real_broker_without_access_control_is_named_as_such(
    version: str, java: None, tmp_path: Path
) -> None:
    """4.9 never answers a question for accounts then, 5.3 fails at one for users."""
    with RealRocketMQ(version, tmp_path) as servers:
        shell = AdminShell(servers.namesrv, *BOSS)
        for words in (
            ("accounts", "list"),
            ("users", "list"),
            ("policies", "list"),
            ("explain", RIGHT.name, "Pub", "Topic:orders"),
        ):
            done = shell.run("acl", *words)
            assert done.exit_code == USAGE, done
            assert servers.broker in done.stderr
            assert (
                "off there" in done.stderr or "aclEnable" in done.stderr or "Enabled" in done.stderr
            )
