"""mqadmin of both generations shows and changes our accounts, with every command it has for them.

What it prints is checked, and what then is in our account files and decides.  Clients with right
and wrong accounts are in `test_access_of_clients`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flintmq import Message, Producer
from flintmq.errors import BrokerRefused, SendFailed
from support.interop.account_programs import Account
from support.interop.filled import SEND_MS
from support.interop.guarded_brokers import AUTH, BOSS, PLAIN, RIGHT, Guarded, ours
from support.interop.javaclient import NEW, OLD, MqAdmin

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("java"),
    pytest.mark.timeout(600),  # servers and JVMs start
]

SHOWING = "4.9.7"
"""The last release whose tools show accounts of ACL 1.0; 4.9.8 has no such command."""
CLUSTER = ("-c", "DefaultCluster")
APPRENTICE = Account("apprentice", "learns-fast")


@contextmanager
def tools(version: str, at: Guarded, directory: Path, account: Account) -> Iterator[MqAdmin]:
    mqadmin = MqAdmin(version, at.namesrv, directory)
    (directory / "home" / "conf" / "tools.yml").write_text(
        f"accessKey: {account.name}\nsecretKey: {account.secret}\n"
    )
    with mqadmin:
        yield mqadmin


@contextmanager
def two_tools(version: str, at: Guarded, directory: Path) -> Iterator[tuple[MqAdmin, MqAdmin]]:
    """Tools of somebody without rights, and of the admin."""
    with (
        tools(version, at, directory / "weak", RIGHT) as weak,
        tools(version, at, directory / "admin", BOSS) as admin,
    ):
        yield weak, admin


def may_send(at: Guarded, topic: str, who: Account = APPRENTICE) -> bool:
    try:
        with Producer("shop", namesrv=at.namesrv, **who.keys) as producer:
            producer.send(Message(topic, b"x"), timeout_ms=SEND_MS)
    except (BrokerRefused, SendFailed):
        return False
    return True


def test_mqadmin_of_4_9_changes_our_accounts(tmp_path: Path) -> None:
    with ours(PLAIN, tmp_path / "broker") as at, two_tools(OLD, at, tmp_path) as (weak, admin):
        file, before = at.accounts, at.accounts.read_text()
        broker = ("-b", at.broker)
        key = ("-a", APPRENTICE.name)
        new = (*key, "-s", APPRENTICE.secret, "-i", "DENY", "-u", "SUB", "-t", "orders=PUB")
        for command, options in {
            "updateAclConfig": new,
            "deleteAccessConfig": ("-a", RIGHT.name),
            "clusterAclConfigVersion": (),
            "updateGlobalWhiteAddr": ("-g", "127.0.0.1"),
        }.items():
            assert "Need admin permission" in weak(command, *broker, *options), command
        assert file.read_text() == before

        assert "success" in admin("updateAclConfig", *broker, *new)
        assert "orders=PUB" in file.read_text()
        assert (may_send(at, "orders"), may_send(at, "wages")) == (True, False)

        secret = ("-s", APPRENTICE.secret)
        more = ("-t", "wages=PUB,orders=DENY", "-g", "billing=SUB", "-w", "10.10.103.*")
        assert "success" in admin("updateAclConfig", *CLUSTER, *key, *secret, *more, "-m", "false")
        for part in ("wages=PUB", "orders=DENY", "billing=SUB", "10.10.103.*"):
            assert part in file.read_text()
        assert (may_send(at, "orders"), may_send(at, "wages")) == (False, True)

        assert "broker-a" in admin("clusterAclConfigVersion", *CLUSTER)
        assert "broker-a" in admin("clusterAclConfigVersion", *broker)
        assert "success" in admin("updateGlobalWhiteAddr", *broker, "-g", "10.10.104.*")
        assert "success" in admin(
            "updateGlobalWhiteAddr", *CLUSTER, "-g", "10.10.105.*,10.10.106.*"
        )
        for part in ("10.10.105.*", "10.10.106.*"):
            assert part in file.read_text()
        assert "10.10.104.*" not in file.read_text()
        assert "success" in admin("deleteAccessConfig", *broker, *key)
        assert APPRENTICE.name not in file.read_text()
        assert not may_send(at, "wages")


def test_what_mqadmin_of_4_9_says_wrong_changes_nothing(tmp_path: Path) -> None:
    with ours(PLAIN, tmp_path / "broker") as at, tools(OLD, at, tmp_path / "t", BOSS) as mqadmin:
        before = at.accounts.read_text()
        broker, key = ("-b", at.broker), ("-a", APPRENTICE.name, "-s", APPRENTICE.secret)
        said = {
            "short": mqadmin("updateAclConfig", *broker, "-a", "short", "-s", "tiny1"),
            "permission": mqadmin("updateAclConfig", *broker, *key, "-t", "orders=XX"),
            "form": mqadmin("updateAclConfig", *broker, *key, "-t", "orders"),
            "address": mqadmin("updateAclConfig", *broker, *key, "-w", "1.2.3.4.5"),
            "unknown": mqadmin("deleteAccessConfig", *broker, "-a", "nobody-here"),
            "white": mqadmin("updateGlobalWhiteAddr", *broker, "-g", "1.2.3.4.5"),
        }
        assert at.accounts.read_text() == before
    for part in ("CODE: 209", "must have 7 characters or more"):
        assert part in said["short"]
    assert "tiny1" not in said["short"]
    assert "Parse resource permission error for orders=XX" in said["permission"]
    assert "Parse Resource format error for orders" in said["form"]
    assert "Netaddress examine Exception netaddress is 1.2.3.4.5" in said["address"]
    for part in ("CODE: 210", "The accesskey[nobody-here] corresponding to accessConfig"):
        assert part in said["unknown"]
    assert "CODE: 211" in said["white"]


def test_mqadmin_of_4_9_shows_our_accounts(tmp_path: Path) -> None:
    with ours(PLAIN, tmp_path / "broker") as at, two_tools(SHOWING, at, tmp_path) as (weak, admin):
        for where in (("-b", at.broker), CLUSTER):
            refused = weak("getAclConfig", *where)
            assert BOSS.secret not in refused
            shown = admin("getAclConfig", *where)
            for part in (RIGHT.name, BOSS.name, "orders=PUB|SUB", "billing=SUB"):
                assert part in shown, shown


def test_mqadmin_of_5_3_shows_and_changes_our_users(tmp_path: Path) -> None:
    with ours(AUTH, tmp_path / "broker") as at, two_tools(NEW, at, tmp_path) as (weak, admin):
        broker, user = ("-b", at.broker), ("-u", APPRENTICE.name)
        before = at.accounts.read_text()
        for command, options in {
            "listUser": (),
            "getUser": ("-u", BOSS.name),
            "createUser": (*user, "-p", APPRENTICE.secret, "-t", "Super"),
            "updateUser": ("-u", RIGHT.name, "-t", "Super"),
            "deleteUser": ("-u", BOSS.name),
        }.items():
            printed = weak(command, *broker, *options)
            assert "is not a super user" in printed, printed
            assert BOSS.secret not in printed
        assert at.accounts.read_text() == before

        new = (*user, "-p", "learns-slowly", "-t", "Normal")
        assert "success" in admin("createUser", *CLUSTER, *new)
        assert "The user is existed" in admin("createUser", *broker, *new)
        assert APPRENTICE.name in admin("listUser", *CLUSTER)
        listed = admin("listUser", *broker, "-f", "pprent")
        assert APPRENTICE.name in listed
        assert BOSS.name not in listed
        assert "success" in admin("updateUser", *broker, *user, "-p", APPRENTICE.secret)
        assert "success" in admin("updateUser", *broker, *user, "-t", "Super")
        assert may_send(at, "wages")
        assert "success" in admin("updateUser", *CLUSTER, *user, "-s", "disable")
        assert "disable" in admin("getUser", *broker, *user)
        assert not may_send(at, "wages")
        assert "success" in admin("deleteUser", *broker, *user)
        assert APPRENTICE.name not in admin("listUser", *broker)


def test_mqadmin_of_5_3_shows_and_changes_our_policies(tmp_path: Path) -> None:
    with ours(AUTH, tmp_path / "broker") as at, two_tools(NEW, at, tmp_path) as (weak, admin):
        broker, subject = ("-b", at.broker), ("-s", f"User:{APPRENTICE.name}")
        rule = ("-r", "Topic:orders*,Topic:wages", "-a", "Pub,Sub", "-i", "127.0.0.0/8")
        before = at.accounts.read_text()
        own = ("-s", f"User:{RIGHT.name}")
        for command, options in {
            "listAcl": (),
            "getAcl": own,
            "createAcl": (*own, "-r", "Topic:wages", "-a", "All", "-d", "Allow"),
            "updateAcl": (*own, "-r", "Topic:wages", "-a", "All", "-d", "Allow"),
            "deleteAcl": own,
        }.items():
            assert "is not a super user" in weak(command, *broker, *options), command
        assert at.accounts.read_text() == before

        assert "is not exist" in admin("createAcl", *broker, *subject, *rule, "-d", "Allow")
        user = ("-u", APPRENTICE.name, "-p", APPRENTICE.secret, "-t", "Normal")
        assert "success" in admin("createUser", *broker, *user)
        assert "success" in admin("createAcl", *broker, *subject, *rule, "-d", "Allow")
        listed = admin("listAcl", *broker, *subject)
        for part in ("Topic:orders*", "Topic:wages", "127.0.0.0/8"):
            assert part in listed
        assert "Topic:wages" not in admin("listAcl", *CLUSTER, *subject, "-r", "Topic:orders")
        assert (may_send(at, "orders"), may_send(at, "wages")) == (True, True)
        changed = ("-r", "Topic:orders*", "-a", "Pub", "-d", "Deny")
        assert "success" in admin("updateAcl", *CLUSTER, *subject, *changed)
        assert "Deny" in admin("getAcl", *broker, *subject)
        assert (may_send(at, "orders"), may_send(at, "wages")) == (False, True)
        assert "success" in admin("deleteAcl", *broker, *subject, "-r", "Topic:wages")
        assert "Topic:wages" not in admin("listAcl", *broker, *subject)
        assert not may_send(at, "wages")
        assert "success" in admin("deleteAcl", *CLUSTER, *subject)
        assert "Topic:orders*" not in admin("listAcl", *broker, *subject)


def test_mqadmin_of_5_3_copies_users_and_policies_from_one_of_our_brokers_to_another(
    tmp_path: Path,
) -> None:
    with (
        ours(AUTH, tmp_path / "here") as here,
        ours(AUTH, tmp_path / "there") as there,
        two_tools(NEW, here, tmp_path) as (weak, admin),
    ):
        ways = ("-f", here.broker, "-t", there.broker)
        user = ("-u", APPRENTICE.name, "-p", APPRENTICE.secret, "-t", "Normal")
        subject = ("-s", f"User:{APPRENTICE.name}")
        assert "success" in admin("createUser", "-b", here.broker, *user)
        rule = ("-r", "Topic:wages", "-a", "Pub", "-d", "Allow")
        assert "success" in admin("createAcl", "-b", here.broker, *subject, *rule)
        assert "is not a super user" in weak("copyUser", *ways, "-u", APPRENTICE.name)
        assert "is not a super user" in weak("copyAcl", *ways, *subject)
        assert not may_send(there, "wages")

        assert "success" in admin("copyUser", *ways, "-u", APPRENTICE.name)
        assert not may_send(there, "wages")
        assert "success" in admin("copyAcl", *ways, *subject)
        assert (may_send(there, "wages"), may_send(there, "orders")) == (True, False)
