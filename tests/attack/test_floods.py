"""Requests that every peer may make, in numbers that no client makes.

Findings 5 (202, 208 and 317 over topics of 65,536 queues), 9 (refused names are kept), 10 (353, 41,
heartbeats and held pulls keep what they are told), 13 (members that differ are logged in squares),
17 (topics and groups by the thousand), 21 (one connection takes all holds).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.attack.arena import Arena
from support.attack.peers import CUT, asked, flood, frame
from support.attack.said import (
    ALL_LAGS,
    CREATE_TOPIC,
    GROUP_LAG,
    HEARTBEAT,
    LOCK,
    PULL,
    SEND,
    TOPIC_STATS,
    heartbeat,
    lock_body,
    pull_fields,
    send_fields,
    subscription,
    topic_fields,
)

COMMIT_OFFSET, GROUP, FORBID, ALL_TOPICS, ALL_GROUPS = 15, 352, 353, 21, 201
CONFIG = "namesPerAddressMax=1000000\n"
"""All of these come from one address, and it is the number of names that is tried."""

HOLDS_OF_ONE = 25_000
"""A quarter of the 100,000 holds there are: what one connection may have."""

LONG = 400_000
"""Characters of a name: a header may have 512 KiB, so that it is read."""

HELD_S = 2.0
"""Without an answer for so long, the rest is held."""


def test_answers_over_large_topics_hold_up_nobody(arena: Arena) -> None:
    topics = [f"Large{number}" for number in range(20)]
    for topic in topics:
        for queues in (65_536, 1_024):  # as many as it lets us have
            if asked(arena.broker, CREATE_TOPIC, topic_fields(topic, queues)).code == 0:
                break
        fields = {"consumerGroup": "G", "topic": topic, "queueId": 0, "commitOffset": 1}
        asked(arena.broker, COMMIT_OFFSET, fields)
    with arena.attack("floods: 202 x 20 over large topics", cpu_s=8, grow_mb=150):
        flood(arena.broker, [frame(TOPIC_STATS, {"topic": topic}) for topic in topics])
    named = {"consumerGroup": "G", "topicList": ";".join(topics)}
    with arena.attack("floods: 208 over 20 large topics x 3", cpu_s=8, grow_mb=150):
        flood(arena.broker, [frame(GROUP_LAG, named)] * 3)
    with arena.attack("floods: 317 x 3", cpu_s=8, grow_mb=150):
        flood(arena.broker, [frame(ALL_LAGS, {"isOrder": "false"})] * 3)


def test_refused_names_are_not_kept(arena: Arena) -> None:
    frames = (
        frame(SEND, send_fields(f"{number:03} " + "x" * LONG), b"x", opaque=number)
        for number in range(400)
    )
    with arena.attack("floods: 160 MB of refused topic names", cpu_s=10, grow_mb=150):
        answers = flood(arena.broker, frames)
        assert answers[0] == 0
        assert answers.total() == 400


def named(number: int, size: int = LONG) -> str:
    return f"{number:03}" + "x" * size


def forbidding(each: int) -> bytes:
    return frame(FORBID, {"group": named(each), "topic": "T", "readable": "false"}, opaque=each)


def locking(each: int) -> bytes:
    return frame(LOCK, body=lock_body(named(each, 1_500_000), "c"), opaque=each)


def beating(each: int) -> bytes:
    return frame(HEARTBEAT, body=heartbeat(named(each, 1_500_000), f"g{each}"), opaque=each)


@pytest.mark.parametrize(
    ("name", "make", "count"),
    [
        ("80 MB of groups in 353", forbidding, 200),
        ("90 MB of groups in 41", locking, 60),
        ("90 MB of clients in heartbeats", beating, 60),
    ],
)
def test_what_peers_say_of_groups_is_limited(
    arena: Arena, name: str, make: Callable[[int], bytes], count: int
) -> None:
    with arena.attack(f"floods: {name}", cpu_s=10, grow_mb=100, keep_mb=40):
        answers = flood(arena.broker, map(make, range(count)))
        assert answers.total() == count, answers


def test_many_forbidden_groups_are_limited(arena: Arena) -> None:
    small = (
        frame(FORBID, {"group": f"Forbidden-{each}", "topic": "x" * 120, "readable": "false"})
        for each in range(20_000)
    )
    with arena.attack("floods: 20,000 forbidden groups", cpu_s=20, grow_mb=150):
        flood(arena.broker, small)


def test_members_that_differ_are_logged_once(arena: Arena) -> None:
    before = len(arena.victim.log())
    frames = (
        frame(
            HEARTBEAT, body=heartbeat(f"c@{each}", "Differing", [subscription("T", f"tag{each}")])
        )
        for each in range(400)
    )
    with arena.attack("floods: 400 members that differ", cpu_s=3):
        flood(arena.broker, frames)
    assert len(arena.victim.log()) - before < 500_000


def test_many_subscriptions_of_one_member(arena: Arena) -> None:
    many = [subscription(f"T{each}") for each in range(10_000)]
    body = heartbeat("c@1", "Many", many)
    with arena.attack("floods: 10 heartbeats of 10,000 subscriptions", cpu_s=12, grow_mb=150):
        flood(arena.broker, [frame(HEARTBEAT, body=body)] * 10)


def test_topics_and_groups_by_the_thousand_hold_up_nobody(arena: Arena) -> None:
    sends = (
        frame(SEND, send_fields(f"Fresh-{each}"), b"hello", opaque=each) for each in range(3_000)
    )
    with arena.attack("floods: 3,000 topics made by sends", cpu_s=30, grow_mb=250, keep_mb=200):
        assert flood(arena.broker, sends)[0] == 3_000
    groups = (frame(GROUP, {"group": f"Fresh-{each}"}, opaque=each) for each in range(30_000))
    with arena.attack("floods: 30,000 groups made by 352", cpu_s=30, grow_mb=250, keep_mb=200):
        assert flood(arena.broker, groups).total() == 30_000
    with arena.attack("floods: all topics and all groups x 5", cpu_s=20, grow_mb=250):
        flood(arena.broker, [frame(ALL_TOPICS), frame(ALL_GROUPS)] * 5)


def test_one_connection_does_not_take_all_holds(arena: Arena) -> None:
    asked(arena.broker, CREATE_TOPIC, topic_fields("Held", 1))
    count = HOLDS_OF_ONE + 2_000
    pulls = (
        frame(PULL, pull_fields("Held", hold_ms=600_000), opaque=each) for each in range(count)
    )
    with arena.attack(f"floods: {count:,} holds of one connection", cpu_s=20, grow_mb=250):
        answers = flood(arena.broker, pulls, idle_s=HELD_S)
        assert answers.total() >= count - HOLDS_OF_ONE - 100, answers


@pytest.mark.parametrize("kind", ["TAG", "SQL92"])
def test_held_pulls_keep_little(arena: Arena, kind: str) -> None:
    asked(arena.broker, CREATE_TOPIC, topic_fields("Held", 1))
    joint = " || " if kind == "TAG" else " OR "
    word = "t{}" if kind == "TAG" else "t{}=1"
    wanted = joint.join(word.format(each) for each in range(30_000))
    fields = pull_fields("Held", wanted=wanted, kind=kind, hold_ms=60_000)
    with arena.attack(f"floods: 60 held pulls of 30,000 {kind} words", cpu_s=8, grow_mb=100):
        frames = (frame(PULL, fields, opaque=each) for each in range(60))
        assert CUT not in flood(arena.broker, frames, idle_s=HELD_S)
