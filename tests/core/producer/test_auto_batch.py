"""What waits leaves together, in order, within its limits, and never with what must go alone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.core.producer.auto_batch import (
    GATHERED_BYTES_MAX,
    GATHERED_MAX,
    UNDER_WAY_MAX,
    Gathering,
    gathered_bytes,
)
from flintmq.core.producer.send_draft import DraftRules, draft_batches
from flintmq.model.message import Message

RULES = DraftRules()


def add(gathering: Gathering[int], message: Message, item: int) -> None:
    size_bytes = gathered_bytes(message, RULES)
    assert size_bytes is not None
    gathering.add(message, size_bytes, item)


def test_a_message_leaves_at_once_and_others_wait_for_room() -> None:
    gathering: Gathering[int] = Gathering(RULES)
    message = Message("orders", b"x")
    for item in range(UNDER_WAY_MAX):
        add(gathering, message, item)
        assert [group for _, group in gathering.next_groups()] == [[item]]
    for item in range(5):
        add(gathering, message, item)
    assert gathering.next_groups() == []
    gathering.ended(("orders", True))
    assert [group for _, group in gathering.next_groups()] == [[0, 1, 2, 3, 4]]


def test_topics_and_safety_do_not_wait_for_each_other() -> None:
    gathering: Gathering[int] = Gathering(RULES)
    for item in range(4):
        add(gathering, Message("a", b"x"), item)
        add(gathering, Message("b", b"x"), 10 + item)
        add(gathering, Message("b", b"x", wait_stored=False), 20 + item)
    assert dict(gathering.next_groups()) == {
        ("a", True): [0, 1, 2, 3],
        ("b", True): [10, 11, 12, 13],
        ("b", False): [20, 21, 22, 23],
    }


@given(sizes=st.lists(st.integers(1, 4_000), min_size=1, max_size=600))
@settings(max_examples=30)
def test_groups_keep_the_order_and_the_limits(sizes: list[int]) -> None:
    gathering: Gathering[int] = Gathering(RULES)
    for item, size in enumerate(sizes):
        add(gathering, Message("orders", bytes(size)), item)
    left: list[int] = []
    while groups := gathering.next_groups():
        for lane, group in groups:
            assert 1 <= len(group) <= GATHERED_MAX
            assert sum(sizes[item] for item in group) <= GATHERED_BYTES_MAX
            left += group
            gathering.ended(lane)
    assert left == list(range(len(sizes)))


@given(
    body=st.binary(min_size=1, max_size=3_000),
    keys=st.lists(st.text("kéy€", min_size=1, max_size=8), max_size=4),
    properties=st.dictionaries(
        st.text("abc", min_size=1, max_size=9), st.text("z😀", min_size=1), max_size=4
    ),
)
@settings(max_examples=60)
def test_the_size_is_never_too_small(
    body: bytes, keys: list[str], properties: dict[str, str]
) -> None:
    message = Message("orders", body, tags="paid", keys=keys, properties=properties)
    size_bytes = gathered_bytes(message, RULES)
    assert size_bytes is not None
    (draft,) = draft_batches([message], "orders", unique_ids=["F" * 32], now_ms=0, rules=RULES)
    assert len(draft.body) <= size_bytes


@pytest.mark.parametrize(
    "message",
    [
        Message("orders", bytes(RULES.compress_from_bytes)),
        Message("orders", b"x", delay_level=1),
        Message("orders", b"x", delay_ms=5),
        Message("orders", b"x", deliver_at_ms=5),
        Message("%RETRY%group", b"x"),
        Message("orders", b"x", tags="x" * 40_000),
    ],
)
def test_what_no_batch_may_hold_goes_alone(message: Message) -> None:
    assert gathered_bytes(message, RULES) is None
