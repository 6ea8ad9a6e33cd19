"""Members that share a topic's queues agree with each other, and with Java members.

``golden/allocations.jsonl`` holds what the strategies of the 4.9.8 and 5.3.3 clients give, which is
the same: for each member, the places of its queues in the sorted list.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flintmq.core.group.allocate import (
    Strategy,
    allocate_averagely,
    allocate_by_circle,
    allocate_by_consistent_hash,
    allocate_by_machine_room,
    allocate_configured,
    allocate_nearby,
    allocate_sticky,
    sorted_members,
)
from flintmq.errors import InvalidSetting
from flintmq.model.queue import QueueRef

GOLDEN = Path(__file__).parents[2] / "golden" / "allocations.jsonl"

NEARBY = allocate_nearby(
    allocate_averagely,
    lambda queue: f"{queue.broker[:2]}{queue.queue_id % 3}",
    lambda member: f"br{len(member) % 2}",
)
JAVA_NAMES: dict[str, Strategy] = {
    "AVG": allocate_averagely,
    "AVG_BY_CIRCLE": allocate_by_circle,
    "MACHINE_ROOM": allocate_by_machine_room(["r1", "r2"]),
    "CONSISTENT_HASH": allocate_by_consistent_hash,
    "MACHINE_ROOM_NEARBY-AVG": NEARBY,
}
SHARING = [
    allocate_averagely,
    allocate_by_circle,
    allocate_by_consistent_hash,
    allocate_sticky,
    NEARBY,
]


def queues(count: int, broker: str = "broker-a") -> list[QueueRef]:
    return [QueueRef("orders", broker, number) for number in range(count)]


def golden() -> list[dict[str, Any]]:
    return [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]


def test_java_members_get_the_same_shares() -> None:
    cases = golden()

    for case in cases:
        parts = [text.rpartition(":") for text in case["queues"]]
        known = [QueueRef("orders", broker, int(number)) for broker, _, number in parts]
        members = list(case["shares"])
        assert known == sorted(known)
        assert members == sorted_members(members)
        for member, places in case["shares"].items():
            own = list(JAVA_NAMES[case["strategy"]](member, known, members))
            assert own == [known[place] for place in places], case

    assert {case["strategy"] for case in cases} == JAVA_NAMES.keys()


@settings(max_examples=40)
@given(st.integers(1, 40), st.sets(st.text("abc0123", min_size=1, max_size=4), min_size=1))
def test_no_queue_is_taken_twice_or_left_out(count: int, names: set[str]) -> None:
    members = sorted_members(names)

    for strategy in SHARING:
        taken = [queue for member in members for queue in strategy(member, queues(count), members)]
        assert sorted(taken) == queues(count)


@settings(max_examples=40)
@given(st.integers(1, 60), st.integers(1, 12))
def test_averagely_by_circle_and_sticky_differ_by_one_queue_at_most(count: int, size: int) -> None:
    members = sorted_members(f"10.0.0.{number}@7" for number in range(size))

    for strategy in (allocate_averagely, allocate_by_circle, allocate_sticky):
        sizes = {len(list(strategy(member, queues(count), members))) for member in members}
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("strategy", [*SHARING, *JAVA_NAMES.values(), allocate_configured([])])
def test_who_is_not_in_the_list_gets_nothing(strategy: Strategy) -> None:
    assert list(strategy("stranger", queues(4), ["a", "b"])) == []


def test_members_beyond_the_number_of_queues_get_nothing() -> None:
    members = ["a", "b", "c"]

    assert [allocate_averagely(member, queues(2), members) for member in members] == [
        queues(2)[:1],
        queues(2)[1:],
        [],
    ]


def test_configured_queues_are_taken_whoever_else_is_there() -> None:
    other = QueueRef("bills", "broker-a", 0)
    strategy = allocate_configured([queues(4)[2], other])

    assert list(strategy("a", queues(4), ["a", "b"])) == [queues(4)[2]]


@pytest.mark.parametrize(
    ("broker", "is_in"), [("r1@b", True), ("r9@b", False), ("plain", False), ("r1@", False)]
)
def test_a_room_is_read_from_the_broker_s_name(broker: str, is_in: bool) -> None:
    strategy = allocate_by_machine_room(["r1"])

    assert bool(strategy("a", queues(1, broker), ["a"])) is is_in


def test_a_queue_in_no_room_is_an_error() -> None:
    strategy = allocate_nearby(allocate_averagely, lambda _: "", lambda _: "here")

    with pytest.raises(InvalidSetting, match="is in no room"):
        strategy("a", queues(1), ["a"])


def moved(strategy: Strategy, count: int, before: list[str], after: list[str]) -> int:
    def owners(members: list[str]) -> dict[QueueRef, str]:
        return {
            queue: member
            for member in members
            for queue in strategy(member, queues(count), members)
        }

    old, new = owners(before), owners(after)
    return sum(old[queue] != new[queue] for queue in old)


def test_sticky_moves_few_queues_when_a_member_leaves() -> None:
    members = sorted_members(f"10.0.0.{number}@{number * 37}" for number in range(8))
    left = members[:3] + members[4:]

    sticky = moved(allocate_sticky, 64, members, left)

    assert 8 <= sticky <= 16
    assert moved(allocate_averagely, 64, members, members[1:]) > 2 * moved(
        allocate_sticky, 64, members, members[1:]
    )


def test_members_are_sorted_as_java_sorts_them() -> None:
    assert sorted_members(["b", "a", "b", "\U00010000", "\uffff"]) == [
        "a",
        "b",
        "\U00010000",
        "\uffff",
    ]
