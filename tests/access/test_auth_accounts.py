"""Users and policies of ACL 2.0 change as requests 3001 to 3010 say, or not at all."""

from __future__ import annotations

import pytest

from flintmq.access.auth_accounts import (
    AccountsFile,
    AuthRefused,
    accounts_of_rules,
    acl_body,
    change_policies,
    create_user,
    delete_policies,
    delete_user,
    rules_of_accounts,
    update_user,
    user_body,
)
from flintmq.access.rules import RuleSet, User
from flintmq.protocol.bodies.account_bodies import AclBody, EntryBody, PolicyBody, UserBody

NORMAL = User("bob", "bobpw123")


def with_alice() -> RuleSet:
    return create_user(RuleSet(), "alice", UserBody(password="alicepw1"), None)


def acl(*entries: EntryBody, policy: str = "Custom") -> AclBody:
    return AclBody(
        subject="User:alice", policies=(PolicyBody(policy_type=policy, entries=entries),)
    )


def allow(resource: str, *actions: str) -> EntryBody:
    return EntryBody(resource=resource, actions=actions, decision="Allow")


@pytest.mark.parametrize(
    ("name", "given", "asker", "code", "reason"),
    [
        ("", UserBody(password="x"), None, 29, "The username is blank"),
        ("alice", UserBody(password="x"), None, 16, "The user is existed"),
        ("bob", UserBody(), None, 16, "password can not be blank"),
        (
            "bob",
            UserBody(password="x", user_type="Super"),
            NORMAL,
            1,
            "The super user can only be create by super user",
        ),
    ],
)
def test_a_user_that_cannot_be_made_changes_nothing(
    name: str, given: UserBody, asker: User | None, code: int, reason: str
) -> None:
    with pytest.raises(AuthRefused, match=reason) as caught:
        create_user(with_alice(), name, given, asker)

    assert caught.value.code == code


def test_an_update_changes_what_is_given_and_nothing_else() -> None:
    rules = update_user(with_alice(), "alice", UserBody(user_status="disable"), None)

    assert not rules.users["alice"].is_enabled
    assert rules.users["alice"].secret == "alicepw1"


def test_a_deleted_user_takes_its_policies_along_and_an_unknown_one_is_no_fault() -> None:
    rules = change_policies(with_alice(), "User:alice", acl(allow("Topic:a", "Pub")))

    rules = delete_user(delete_user(rules, "alice", None), "alice", None)

    assert rules == RuleSet()


def test_entries_are_merged_by_their_resource() -> None:
    rules = change_policies(
        with_alice(), "User:alice", acl(allow("Topic:a", "Pub"), allow("Topic:b", "Pub"))
    )
    rules = change_policies(
        rules, "User:alice", acl(allow("Topic:a", "Sub"), allow("Topic:c*", "Get"))
    )

    shown = acl_body("alice", rules.policies["alice"]).policies[0].entries
    assert [(e.resource, e.actions) for e in shown] == [
        ("Topic:a", ("Sub",)),
        ("Topic:b", ("Pub",)),
        ("Topic:c*", ("Get",)),
    ]


def test_the_last_entry_takes_the_policies_along() -> None:
    rules = change_policies(with_alice(), "User:alice", acl(allow("Topic:a", "Pub")))

    rules = delete_policies(rules, "User:alice", "Topic:a", None)

    assert rules.policies == {}
    with pytest.raises(AuthRefused, match="The acl is not exist"):
        delete_policies(rules, "User:alice", None, None)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (EntryBody(resource="Nothing:a", actions=("Pub",), decision="Allow"), "resource is null"),
        (EntryBody(resource="Topic:a", actions=("Pubb",), decision="Allow"), "actions is empty"),
        (EntryBody(resource="Topic:a", actions=("Any",), decision="Allow"), "can not be Any"),
        (EntryBody(resource="Topic:a", actions=("Pub",)), "decision is null or illegal"),
        (
            EntryBody(resource="Topic:a", actions=("Pub",), decision="Deny", source_ips=("here",)),
            "source ip is invalid",
        ),
    ],
)
def test_a_wrong_entry_is_refused_with_rocketmqs_text(entry: EntryBody, reason: str) -> None:
    with pytest.raises(AuthRefused, match=reason):
        change_policies(with_alice(), "User:alice", acl(entry))


def test_policies_of_nobody_are_refused() -> None:
    with pytest.raises(AuthRefused, match="The subject of User:eve is not exist"):
        change_policies(with_alice(), "User:eve", acl(allow("Topic:a", "Pub")))
    with pytest.raises(AuthRefused, match="system error"):
        change_policies(with_alice(), "Role:eve", acl(allow("Topic:a", "Pub")))


def test_a_file_gives_the_same_rules_again() -> None:
    entry = EntryBody(
        resource="Topic:a*", actions=("Pub", "Sub"), decision="Allow", source_ips=("10.0.0.0/8",)
    )
    rules = change_policies(with_alice(), "User:alice", acl(entry))
    rules = change_policies(rules, "User:alice", acl(allow("*", "Get"), policy="Default"))

    content = accounts_of_rules(rules).to_file()

    assert rules_of_accounts(AccountsFile.from_file(content)) == rules


def test_a_secret_is_shown_only_where_it_is_asked_for() -> None:
    user = with_alice().users["alice"]

    assert user_body(user, secret=True).password == "alicepw1"
    assert b"alicepw1" not in user_body(user, secret=False).to_body()
    assert "alicepw1" not in repr(user)
