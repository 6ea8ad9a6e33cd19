"""A quota is a text that reads back as it was written, and holds over any time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.access.quotas import (
    METERS_MAX,
    Quota,
    QuotaOwner,
    Quotas,
    QuotaUse,
    parse_quotas,
    show_quotas,
)

SEND, CONSUME = QuotaUse.SEND, QuotaUse.CONSUME
NAMES = st.text("abcXYZ019_-%*@.", min_size=1, max_size=20)
RATES = st.none() | st.integers(1, 2**40)
QUOTAS = st.builds(
    Quota,
    st.sampled_from(QuotaOwner),
    NAMES,
    st.sampled_from(QuotaUse),
    RATES,
    RATES,
).filter(lambda quota: quota.messages is not None or quota.size_bytes is not None)


@settings(max_examples=200, deadline=None)
@given(st.lists(QUOTAS, unique_by=lambda each: (each.holder, each.name, each.use)))
def test_what_is_shown_reads_back(quotas: list[Quota]) -> None:
    assert parse_quotas(show_quotas(quotas)) == tuple(quotas)


def test_rates_have_units_and_spaces_do_not_matter() -> None:
    assert parse_quotas(" account:alice   send 1000/s 1MiB/s ;; group:* consume 10KiB/s; ") == (
        Quota(QuotaOwner.ACCOUNT, "alice", SEND, 1_000, 1024**2),
        Quota(QuotaOwner.GROUP, "*", CONSUME, None, 10 * 1024),
    )
    assert parse_quotas("") == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("alice send 1/s", "it must be like"),
        ("account:alice read 1/s", "it must be like"),
        ("account:alice send", "it must be like"),
        ("account:alice send 1MB/s", "it must be like"),
        ("account:alice send -1/s", "it must be like"),
        ("account:alice send 0/s", "from 1 to"),
        ("account:alice send 2000GiB/s", "from 1 to"),
        ("account:alice send 1/s 2/s", "one rate of messages"),
        ("account:alice send 1B/s 2KiB/s", "one rate of messages"),
        ("account:a send 1/s; account:a send 2/s", "twice"),
        (";".join(f"account:a{n} send 1/s" for n in range(1_001)), "1000 quotas"),
    ],
)
def test_a_fault_is_named(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_quotas(text)


def used(quotas: Quotas, account: str | None, group: str, now_ms: int, size: int = 1) -> bool:
    """Send one message if the quotas allow it."""
    if quotas.exhausted(SEND, account, group, now_ms) is not None:
        return False
    quotas.pay(SEND, account, group, 1, size, now_ms)
    return True


def test_an_own_quota_counts_before_that_of_everybody() -> None:
    quotas = Quotas(parse_quotas("account:* send 2/s; account:alice send 5/s"))
    for who, count in (("alice", 5), ("bob", 2), ("carol", 2)):
        assert [used(quotas, who, "g", 0) for _ in range(7)].count(True) == count, who


def test_account_and_group_both_count_and_the_reason_names_which() -> None:
    quotas = Quotas(parse_quotas("account:alice send 3/s; group:g send 10B/s"))
    assert used(quotas, "alice", "g", 0, size=100)
    over = quotas.exhausted(SEND, "alice", "g", 0)
    assert over is not None
    assert over.reason.startswith("[FLOWCONTROL]the quota of group g is 10B/s to send")
    assert over.quota.limit == "quota.group.send"
    assert over.wait_ms(0) == pytest.approx(9_000, abs=2)
    assert used(quotas, "alice", "other", 0)
    assert used(quotas, None, "other", 0), "who has no account has no quota of one"


def test_sends_and_pulls_have_balances_of_their_own() -> None:
    quotas = Quotas(parse_quotas("group:g send 1/s; group:g consume 1/s"))
    assert used(quotas, None, "g", 0)
    assert not used(quotas, None, "g", 0)
    assert quotas.exhausted(CONSUME, None, "g", 0) is None


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 1_000),
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 500)), min_size=1, max_size=200),
)
def test_over_any_time_nobody_gets_more_than_the_rate_and_one_second(
    rate: int, events: list[tuple[int, int]]
) -> None:
    """Plus the last message, which may be larger than what was left."""
    quotas = Quotas([Quota(QuotaOwner.ACCOUNT, "a", SEND, None, rate)])
    now_ms = sent = last = 0
    for pause_ms, size in events:
        now_ms += pause_ms
        if used(quotas, "a", "g", now_ms, size):
            sent, last = sent + size, size
            assert sent - last <= rate * (now_ms / 1_000 + 1)


def test_balances_of_quotas_that_stay_the_same_stay() -> None:
    quotas = Quotas(parse_quotas("account:a send 1/s; account:b send 1/s"))
    assert used(quotas, "a", "g", 0)
    assert used(quotas, "b", "g", 0)
    quotas.configure(parse_quotas("account:a send 1/s; account:b send 9/s; group:g consume 1/s"))
    assert not used(quotas, "a", "g", 0)
    assert used(quotas, "b", "g", 0)
    assert (quotas.sends, quotas.consumes) == (True, True)
    quotas.configure(())
    assert (quotas.sends, quotas.consumes) == (False, False)
    assert used(quotas, "a", "g", 0)


def test_names_that_peers_invent_take_limited_memory() -> None:
    quotas = Quotas(parse_quotas("group:* send 1/s"))
    for number in range(2 * METERS_MAX + 10):
        used(quotas, None, f"g{number}", 0)
    assert len(quotas._meters) <= METERS_MAX
    assert len(quotas._found) <= METERS_MAX
