"""Which rule decides: the most exact one, in the order RocketMQ documents."""

from __future__ import annotations

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flintmq.access.auth_accounts import read_entry
from flintmq.access.decide import Need, best_entry, decide
from flintmq.access.rules import Action, Entry, Policies, Resource, ResourceType, User
from flintmq.protocol.bodies.account_bodies import EntryBody

ALICE = User("alice", "alicepw1")
HERE = ip_address("127.0.0.1")


def entry(resource: str, decision: str, *actions: str, sources: tuple[str, ...] = ()) -> Entry:
    return read_entry(
        EntryBody(
            resource=resource,
            actions=actions or ("Pub", "Sub"),
            decision=decision,
            source_ips=sources,
        )
    )


def publishes(topic: str) -> Need:
    return Need(Resource(ResourceType.TOPIC, topic), frozenset({Action.PUB}))


def is_allowed(need: Need, *custom: Entry, default: tuple[Entry, ...] = ()) -> bool:
    return decide(ALICE, Policies(custom, default), need, HERE).is_allowed


@pytest.mark.parametrize(
    ("entries", "allowed"),
    [
        ([("Topic:abcdef", "Allow"), ("Topic:abc*", "Deny")], True),
        ([("Topic:abcdef", "Deny"), ("Topic:abc*", "Allow")], False),
        ([("Topic:a*", "Allow"), ("Topic:abcd*", "Deny")], False),
        ([("Topic:a*", "Deny"), ("Topic:abcd*", "Allow")], True),
        ([("Topic:abcdef", "Deny"), ("Topic:*", "Allow")], False),
        ([("Topic:*", "Deny"), ("*", "Allow")], False),
        ([("Topic:*", "Allow"), ("*", "Deny")], True),
        ([("Any:x", "Allow")], True),
        ([("Group:*", "Allow")], False),
        ([("Topic:ab*ef", "Allow")], False),
        ([], False),
    ],
)
def test_the_most_exact_entry_decides_in_whatever_order_they_are_listed(
    entries: list[tuple[str, str]], allowed: bool
) -> None:
    made = [entry(resource, decision) for resource, decision in entries]

    assert is_allowed(publishes("abcdef"), *made) is allowed
    assert is_allowed(publishes("abcdef"), *reversed(made)) is allowed


def test_of_two_equally_exact_entries_the_one_that_denies_decides() -> None:
    both = entry("Topic:a", "Allow"), entry("Topic:a", "Deny")

    assert not is_allowed(publishes("a"), *both)


def test_default_entries_count_only_where_no_custom_entry_matches() -> None:
    default = (entry("Topic:*", "Allow"),)

    assert is_allowed(publishes("a"), default=default)
    assert not is_allowed(publishes("a"), entry("*", "Deny"), default=default)
    assert is_allowed(publishes("a"), entry("Topic:a", "Deny", "Sub"), default=default)


def test_one_of_the_actions_of_a_need_is_enough() -> None:
    need = Need(Resource(ResourceType.TOPIC, "a"), frozenset({Action.SUB, Action.GET}))

    assert is_allowed(need, entry("Topic:a", "Allow", "Get"))
    assert not is_allowed(need, entry("Topic:a", "Allow", "Pub"))
    assert is_allowed(need, entry("Topic:a", "Allow", "All"))


@pytest.mark.parametrize(
    ("source", "peer", "allowed"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.0/8", "127.9.9.9", True),
        ("10.0.0.0/8", "127.0.0.1", False),
        ("::/0", "127.0.0.1", True),
        ("2001:db8::/32", "2001:db8::7", True),
        ("2001:db8::/32", "10.0.0.1", False),
    ],
)
def test_an_entry_holds_for_its_source_addresses(source: str, peer: str, allowed: bool) -> None:
    rule = entry("Topic:a", "Allow", sources=(source,))
    verdict = decide(ALICE, Policies((rule,)), publishes("a"), ip_address(peer))

    assert verdict.is_allowed is allowed


def test_a_peer_without_an_address_matches_no_entry_with_sources() -> None:
    limited = Policies((entry("Topic:a", "Allow", sources=("127.0.0.1",)),))

    assert not decide(ALICE, limited, publishes("a"), None).is_allowed


def test_a_super_user_may_do_everything_and_a_user_without_rules_nothing() -> None:
    root = User("root", "rootpw12", is_super=True)

    assert decide(root, Policies((entry("*", "Deny"),)), publishes("a"), HERE).is_allowed
    assert not is_allowed(publishes("a"))


def test_a_verdict_names_the_entry_that_decided() -> None:
    rule = entry("Topic:a*", "Deny")
    verdict = decide(ALICE, Policies((rule,)), publishes("abc"), HERE)

    assert not verdict.is_allowed
    assert str(verdict.entry) == "Deny Pub, Sub on Topic:a* from anywhere"


resources = st.sampled_from(["*", "Topic:*", "Topic:a*", "Topic:ab*", "Topic:abc", "Group:*"])
entries = st.builds(entry, resources, st.sampled_from(["Allow", "Deny"]))


@given(st.lists(entries))
def test_a_literal_deny_denies_whatever_else_is_there(made: list[Entry]) -> None:
    assert not is_allowed(publishes("abc"), *made, entry("Topic:abc", "Deny"))


@given(st.lists(entries, min_size=1))
def test_the_order_of_entries_never_matters(made: list[Entry]) -> None:
    assert best_entry(made).decision is best_entry(sorted(made, key=str)).decision
