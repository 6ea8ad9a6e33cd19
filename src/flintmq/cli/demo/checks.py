"""Whether the story ended as it had to, by what three sides say that do not ask each other.

    the producer   which messages the broker acknowledged
    the listeners  which they consumed, and in the book in which order
    the broker     dead letters, lag, and what still waits

Invariant: without evidence a check fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Evidence:
    """What each side says at the end.  Messages are named by their ids."""

    wanted: frozenset[str]
    unwanted: frozenset[str]
    hopeless: frozenset[str]
    entries: Mapping[str, int]
    consumed: frozenset[str]
    dead: frozenset[str]
    book: tuple[str, ...]
    lag: int
    waiting: int
    consumed_orders: int
    table_rows: int
    by: Mapping[str, int] = field(default_factory=dict)
    """How many attempts of each runner ended well."""


@dataclass(frozen=True, slots=True)
class Check:
    """One sentence that had to be true, and what was found."""

    what: str
    found: str
    is_good: bool


def check_all(evidence: Evidence) -> list[Check]:
    return [
        _nothing_is_lost(evidence),
        _dead_letters(evidence),
        _tags(evidence),
        _order(evidence),
        _lag(evidence),
        _table(evidence),
        _both_ran(evidence),
    ]


def _nothing_is_lost(evidence: Evidence) -> Check:
    sent, consumed, dead = evidence.wanted, evidence.consumed, evidence.dead
    found = f"{len(sent):,} = {len(consumed):,} + {len(dead):,}"
    wrong = {
        "lost": len(sent - consumed - dead),
        "never sent": len((consumed | dead) - sent - evidence.unwanted),
        "both consumed and dead": len(consumed & dead),
    }
    is_good = bool(sent) and not any(wrong.values()) and len(sent) == len(consumed) + len(dead)
    return Check("sent = consumed + dead letters", _with(found, wrong), is_good)


def _dead_letters(evidence: Evidence) -> Check:
    dead, hopeless = evidence.dead, evidence.hopeless
    wrong = {"too many": len(dead - hopeless), "missing": len(hopeless - dead)}
    found = f"{len(dead & hopeless):,} of {len(hopeless):,}"
    return Check("dead letters are those planned", _with(found, wrong), dead == hopeless)


def _tags(evidence: Evidence) -> Check:
    wrong = evidence.unwanted & (evidence.consumed | evidence.dead)
    found = f"{len(wrong):,} of {len(evidence.unwanted):,} consumed"
    return Check("unwanted tags are not delivered", found, not wrong)


def _order(evidence: Evidence) -> Check:
    posted, breaks = read_book(evidence.book)
    entries = {customer: count for customer, count in evidence.entries.items() if count}
    complete = sum(posted[customer] == count for customer, count in entries.items())
    found = f"{sum(entries.values()):,} entries of {complete} customers"
    wrong = {
        "out of order": breaks,
        "customers without all their entries": len(entries) - complete,
        "unknown customers": len(posted.keys() - entries.keys()),
    }
    is_good = bool(entries) and not any(wrong.values())
    return Check("each customer's ledger is in order", _with(found, wrong), is_good)


def read_book(lines: Iterable[str]) -> tuple[Counter[str], int]:
    """How many entries each customer has in the book, and how many came before their time.

    An entry may be written again; a new one has to be the next of its customer.
    """
    posted: Counter[str] = Counter()
    breaks = 0
    for line in lines:
        customer, _, number = line.partition(" ")
        entry = int(number) if number.isdecimal() else 0
        if not 1 <= entry <= posted[customer] + 1:
            breaks += 1
        posted[customer] = max(posted[customer], entry)
    return posted, breaks


def _lag(evidence: Evidence) -> Check:
    found = f"lag {evidence.lag:,}, {evidence.waiting:,} waiting"
    return Check("nothing is left at the broker", found, not evidence.lag and not evidence.waiting)


def _table(evidence: Evidence) -> Check:
    rows, orders = evidence.table_rows, evidence.consumed_orders
    is_good = bool(rows) and rows == orders
    return Check("the table has each consumed order", f"{rows:,} of {orders:,} rows", is_good)


def _both_ran(evidence: Evidence) -> Check:
    found = ", ".join(f"{name} {count:,}" for name, count in sorted(evidence.by.items()))
    is_good = len([count for count in evidence.by.values() if count]) == 2
    return Check("Spark and threads both consumed", found or "nobody", is_good)


def _with(found: str, wrong: Mapping[str, int]) -> str:
    faults = [f"{count:,} {what}" for what, count in wrong.items() if count]
    return found if not faults else f"{found}: {', '.join(faults)}"
