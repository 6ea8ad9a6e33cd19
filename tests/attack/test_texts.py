"""Subscriptions that cost more than they should: SQL92 and tags.

Findings 4 (32 kB of SQL92 in each pull or in heartbeats) and 12 (1.5 million tags).
"""

from __future__ import annotations

from random import Random

import pytest

from support.attack.arena import Arena
from support.attack.peers import CUT, asked, flood, frame
from support.attack.said import (
    CREATE_TOPIC,
    HEARTBEAT,
    PULL,
    heartbeat,
    pull_fields,
    sql_text,
    subscription,
    topic_fields,
)
from support.fuzz.expressions import grown

TOPIC = "Texts"
CONFIG = "enablePropertyFilter=true\n"


@pytest.fixture(autouse=True)
def topic(arena: Arena) -> None:
    assert asked(arena.broker, CREATE_TOPIC, topic_fields(TOPIC, 1)).code == 0


def pulls(texts: list[str], kind: str) -> list[bytes]:
    return [
        frame(PULL, pull_fields(TOPIC, wanted=text, kind=kind), opaque=number)
        for number, text in enumerate(texts)
    ]


def test_new_sql_in_every_pull_has_its_allowance(arena: Arena) -> None:
    texts = [sql_text(32_000, number) for number in range(40)]
    with arena.attack("texts: 40 pulls with new SQL92 of 32 kB", cpu_s=6):
        flood(arena.broker, pulls(texts, "SQL92"))
    texts = [sql_text(2_000, number) for number in range(600)]
    with arena.attack("texts: 600 pulls with new SQL92 of 2 kB", cpu_s=12):
        flood(arena.broker, pulls(texts, "SQL92"))


def test_new_sql_over_many_connections_holds_up_nobody(arena: Arena) -> None:
    with arena.attack("texts: 100 connections, 10 new SQL92 of 2 kB each", cpu_s=12):
        for each in range(100):
            texts = [sql_text(2_000, 10_000 + each * 10 + number) for number in range(10)]
            flood(arena.broker, pulls(texts, "SQL92"))


def test_sql_of_the_grammar_is_compiled_or_refused(arena: Arena) -> None:
    chance = Random(7)
    texts = [grown(chance, 12) for _ in range(600)]
    with arena.attack("texts: 600 pulls with grown SQL92", cpu_s=15):
        flood(arena.broker, pulls(texts, "SQL92"))


def test_deep_sql_is_refused(arena: Arena) -> None:
    depth = 5_000
    texts = [
        "(" * depth + "a = 1" + ")" * depth,
        "NOT " * depth + "a = 1",
        "- " * depth + "1 = a",
        "a IN (" + ", ".join(f"'{each}'" for each in range(20_000)) + ")",
        "a = '" + "x" * 1_000_000 + "'",
        "a BETWEEN " * depth,
        "/*" * 100_000,
        "a = 1" + " " * 1_000_000,
    ]
    with arena.attack("texts: deep, long and unfinished SQL92 x 5", cpu_s=8):
        flood(arena.broker, pulls(texts * 5, "SQL92"))


def test_sql_in_heartbeats_has_its_allowance(arena: Arena) -> None:
    """A text is new in every one of them."""
    bodies = [
        heartbeat(
            "c@1",
            f"Readers{each}",
            [
                subscription(f"T{number}", sql_text(32_000, each * 100 + number), "SQL92")
                for number in range(50)
            ],
        )
        for each in range(2)
    ]
    with arena.attack("texts: 100 SQL92 texts of 32 kB in 2 heartbeats", cpu_s=6):
        flood(arena.broker, [frame(HEARTBEAT, body=body) for body in bodies])


def test_many_tags_are_refused(arena: Arena) -> None:
    wanted = " || ".join(f"{each}" for each in range(1_500_000))
    with arena.attack("texts: a pull with 1.5 million tags x 3", cpu_s=4, grow_mb=250):
        flood(arena.broker, pulls([wanted] * 3, "TAG"))
    readable = pulls([f"{each}{wanted[:380_000]}" for each in range(60)], "TAG")
    with arena.attack("texts: 60 pulls with 45,000 tags, each of them new", cpu_s=4):
        assert CUT not in flood(arena.broker, readable)
    body = heartbeat("c@1", "Readers", [subscription(TOPIC, wanted[:1_800_000])])
    with arena.attack("texts: a heartbeat with 250,000 tags x 3", cpu_s=4, grow_mb=250):
        flood(arena.broker, [frame(HEARTBEAT, body=body)] * 3)
