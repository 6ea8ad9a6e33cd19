"""How fast tag and SQL92 filters are read and tested.

An evaluation is one message against one expression that is already compiled, and every part of
the expression is looked at: the last branch is the one that is true.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from flintmq.filter.sql_eval import compile_sql
from flintmq.filter.tags import parse_tags

EXPRESSIONS = {
    "simple": "amount > 100",
    "medium": "(kind = 'x' OR kind = 'c19') AND amount BETWEEN 10 AND 500 AND region IS NOT NULL",
    "long": " OR ".join(
        f"(region = 'r19' AND amount > {n} AND weight < 50.{n} AND kind IN ('a{n}', 'c{n}'))"
        for n in range(20)
    ),
}
TAGS = "paid || refunded || cancelled || shipped"

MESSAGE = {
    "region": "r19",
    "amount": "250",
    "weight": "12.25",
    "kind": "c19",
    "KEYS": "order-17",
    "UNIQ_KEY": "7F0000010A2C18B4AAC2A0B4C5D60000",
}

ROUNDS = 5
ROUND_S = 0.2
CALLS_BETWEEN_CLOCKS = 20


def run() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name, text in EXPRESSIONS.items():
        rows.append(row(f"sql92 compile, {name}", partial(compile_sql, text)))
    for name, text in EXPRESSIONS.items():
        predicate = compile_sql(text)
        assert predicate.matches(MESSAGE)
        rows.append(row(f"sql92 evaluate, {name}", partial(predicate.matches, MESSAGE)))
    rows.append(row("tags parse", partial(parse_tags, TAGS)))
    return rows


def row(name: str, act: Callable[[], object]) -> dict[str, object]:
    """Calls per second of CPU time, the best of a few rounds: the others were disturbed."""
    best = 0.0
    for _ in range(ROUNDS):
        count = 0
        start = now = time.process_time()
        while now - start < ROUND_S:
            for _ in range(CALLS_BETWEEN_CLOCKS):
                act()
            count += CALLS_BETWEEN_CLOCKS
            now = time.process_time()
        best = max(best, count / (now - start))
    return {"name": name, "value": round(best), "unit": "1/s"}
