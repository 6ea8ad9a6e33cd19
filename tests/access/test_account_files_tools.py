"""Faults in account files are all found with their places, and accounts of ACL 1.0 are imported
into ACL 2.0 with what they may do.
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from flintmq.access.account_faults import (
    AccountFinding,
    check_accounts_file,
    check_plain_files,
)
from flintmq.access.control import AccessControl
from flintmq.access.decide import Need
from flintmq.access.explain import explain, parse_need
from flintmq.access.plain_file import PlainAccount, PlainFile, read_plain_file, rules_of_files
from flintmq.access.plain_import import import_plain
from flintmq.access.rights import Context
from flintmq.access.rules import (
    Action,
    Decision,
    Dialect,
    Entry,
    Policies,
    PolicyType,
    Resource,
    ResourceType,
    RuleSet,
    User,
)
from flintmq.access.sources import parse_address


def lines(found: list[AccountFinding]) -> list[str]:
    return [
        f"{'fault' if each.is_fault else 'warning'} {each.place}: {each.text}" for each in found
    ]


def accounts(users: list[dict[str, Any]], *entries: dict[str, Any]) -> bytes:
    acl = {"subject": "User:alice", "policies": [{"policyType": "Custom", "entries": entries}]}
    return msgspec.json.encode({"users": users, "acls": [acl] if entries else []})


ALICE = {"username": "alice", "password": "alicepw1", "userType": "Normal"}


def entry(resource: str, *actions: str, **more: Any) -> dict[str, Any]:
    return {"resource": resource, "actions": actions, "decision": "Allow", **more}


# Checks


def test_every_fault_of_an_accounts_file_is_found_with_its_place() -> None:
    content = accounts(
        [ALICE, ALICE, {"username": "bob"}],
        entry("orders", "Pub"),
        entry("Topic:a", "Write"),
        entry("Topic:b", "Pub", sourceIps=["somewhere"]),
        entry("Topic:c", "Pub", decision="Perhaps"),
    )

    found = [line for line in lines(check_accounts_file(content)) if line.startswith("fault")]

    assert len(found) == 6
    assert "users[1] 'alice': the user is in the file twice" in found[0]
    assert "users[2] 'bob': the user has no password" in found[1]
    assert "entries[0] 'orders': the resource must be written as" in found[2]
    assert "entries[1] 'Topic:a': no known action" in found[3]
    assert "entries[2] 'Topic:b': sourceIps" in found[4]
    assert "entries[3] 'Topic:c': the decision" in found[5]


def test_entries_that_never_match_are_warnings() -> None:
    content = accounts(
        [ALICE],
        entry("Topic:ab*ef", "Pub"),
        entry("Group:g", "Pub"),
        entry("Namespace:n", "Get"),
        entry("Topic:a", "Pub"),
        entry("Topic:a", "Sub"),
        entry("Topic:*", "All"),
    )

    found = check_accounts_file(content)

    assert [each.is_fault for each in found] == [False] * 4
    assert [each.text.split(":")[0] for each in found] == [
        *["it can never match"] * 3,
        "it replaces an earlier entry with the same resource, which has no effect",
    ]


def test_policies_of_nobody_are_a_fault_and_those_of_a_super_user_a_warning() -> None:
    root = {"username": "alice", "password": "alicepw1", "userType": "Super"}

    assert lines(check_accounts_file(accounts([], entry("Topic:a", "Pub")))) == [
        "fault acls[0] of 'alice': there is no such user"
    ]
    assert "have no effect" in lines(check_accounts_file(accounts([root], entry("*", "All"))))[0]


def test_every_fault_of_plain_files_is_found_with_its_place() -> None:
    files = {
        "acl/a.yml": b"accounts: [{accessKey: short, secretKey: secret123}]",
        "acl/b.yml": b"accounts: [",
        "plain_acl.yml": b"""
globalWhiteRemoteAddresses: [1.2.3.4.5, '*']
accounts:
  - accessKey: account1
    secretKey: tiny
    whiteRemoteAddress: nowhere
    topicPerms: [a=XX, b, c=PUB]
  - {accessKey: account1, secretKey: secret123, defaultTopicPerm: PUBLISH, topicPerms: [x*=PUB]}
""",
    }

    found = lines(check_plain_files(files))

    assert [line.split(" ")[0] for line in found].count("fault") == 7
    text = "\n".join(found)
    assert "fault acl/a.yml: accounts[0] 'short': accessKey: must have 7" in text
    assert "fault acl/b.yml: is no YAML" in text
    assert "globalWhiteRemoteAddresses: '1.2.3.4.5' is no address pattern" in text
    assert "warning plain_acl.yml: globalWhiteRemoteAddresses: '*': everybody" in text
    assert "accounts[0] 'account1': secretKey: must have 7" in text
    assert "accounts[0] 'account1': whiteRemoteAddress: " in text
    assert "topicPerms[0] 'a=XX': " in text
    assert "topicPerms[1] 'b': " in text
    assert "warning plain_acl.yml: accounts[1] 'account1': the access key is also at" in text
    assert "defaultTopicPerm: 'PUBLISH' is unknown and counts as DENY" in text
    assert "'x*=PUB': it can never match" in text
    assert "tiny" not in text


def test_files_that_a_server_takes_have_no_faults() -> None:
    plain = b"accounts: [{accessKey: account1, secretKey: secret123, topicPerms: [a=PUB|SUB]}]"

    assert check_plain_files({"plain_acl.yml": plain}) == []
    assert check_accounts_file(accounts([ALICE], entry("Topic:a*", "Pub", "Sub"))) == []


# Import

PERMS = ["DENY", "PUB", "SUB", "PUB|SUB"]
NAMES = ["a", "b", "c"]


@st.composite
def plain_accounts(draw: st.DrawFn) -> PlainAccount:
    def own() -> tuple[str, ...]:
        names = draw(st.lists(st.sampled_from(NAMES), unique=True))
        return tuple(f"{name}={draw(st.sampled_from(PERMS))}" for name in names)

    return PlainAccount(
        "account1",
        "secret123",
        default_topic_perm=draw(st.sampled_from(PERMS)),
        default_group_perm=draw(st.sampled_from(PERMS)),
        topic_perms=own(),
        group_perms=own(),
    )


def controls(account: PlainAccount) -> tuple[AccessControl, AccessControl, str]:
    files = [PlainFile((account,))]
    imported = import_plain(files, RuleSet())
    context = Context("")
    return (
        AccessControl(Dialect.PLAIN, rules_of_files(files), context),
        AccessControl(Dialect.AUTH, imported.rules, context),
        "\n".join(imported.remarks),
    )


@given(plain_accounts(), st.sampled_from(NAMES), st.booleans(), st.sampled_from(["Pub", "Sub"]))
def test_an_imported_account_may_do_what_it_could_and_more_only_where_that_is_said(
    account: PlainAccount, name: str, is_topic: bool, action: str
) -> None:
    before, after, remarks = controls(account)
    kind = ResourceType.TOPIC if is_topic else ResourceType.GROUP
    need = parse_need(action, f"{kind.title}:{name}")

    was = explain(before, "account1", need, None).is_allowed
    becomes = explain(after, "account1", need, None).is_allowed

    if was != becomes:
        assert becomes
        assert f"denied {action} in ACL 1.0" in remarks


def test_what_is_dropped_is_said() -> None:
    file = read_plain_file("""
globalWhiteRemoteAddresses: [10.0.0.*]
accounts:
  - {accessKey: admin123, secretKey: secret123, admin: true, topicPerms: [a=PUB]}
  - {accessKey: account1, secretKey: secret123, whiteRemoteAddress: 10.0.0.1}
  - {accessKey: known123, secretKey: secret123}
""")
    known = RuleSet(users={"known123": User("known123", "other")})

    done = import_plain([file], known)

    assert done.users == ("admin123", "account1")
    assert done.rules.users["admin123"].is_super
    assert done.rules.users["known123"].secret == "other"
    text = "\n".join(done.remarks)
    for part in ("10.0.0.*: dropped", "bind it no more", "10.0.0.1 dropped", "known123: left"):
        assert part in text


# Explanations

ANYWHERE = parse_address("10.0.0.7")


def explained(policies: Policies, need: Need) -> tuple[bool, str]:
    rules = RuleSet(
        users={
            "alice": User("alice", "x"),
            "root": User("root", "x", is_super=True),
            "gone": User("gone", "x", is_enabled=False),
        },
        policies={"alice": policies},
    )
    control = AccessControl(Dialect.AUTH, rules, Context(""))
    assert explain(control, "root", need, ANYWHERE).reason == "'root' is a super user"
    assert not explain(control, "gone", need, ANYWHERE).is_allowed
    assert not explain(control, "nobody", need, ANYWHERE).is_allowed
    done = explain(control, "alice", need, ANYWHERE)
    return done.is_allowed, done.reason


def test_an_explanation_names_the_entry_that_decided() -> None:
    wide = Resource.parse("Topic:ord*")
    assert wide is not None
    allow = Entry(wide, frozenset({Action.PUB}), Decision.ALLOW)
    need = parse_need("pub", "Topic:orders")

    assert explained(Policies(default=(allow,)), need) == (
        True,
        f"{PolicyType.DEFAULT.title} entry: Allow Pub on Topic:ord* from anywhere",
    )
    assert explained(Policies(), need)[0] is False
