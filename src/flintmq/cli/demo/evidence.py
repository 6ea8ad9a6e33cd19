"""The results of a run, and the checks of its summary.

    the producer   which messages the broker acknowledged
    the listeners  which they consumed, and the ledger in the order they wrote it
    the broker     dead letters, lag, and what still waits for a retry

Invariant: without evidence a check fails.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from flintmq.cli.demo.orders import CONSUMED, DEAD, SENT_BACK
from flintmq.model.message import ReceivedMessage


class Attempt(NamedTuple):
    """One message in one call of its listener."""

    run_by: str
    topic: str
    message_id: str
    outcome: str
    tries: int
    started_ms: int


class Tally:
    """Counts the attempts that listeners append to a file.

    Invariant: the sum of ``by`` is that of ``consumed`` and ``repeats``.
    """

    def __init__(self, path: Path) -> None:
        self.consumed: dict[str, Attempt] = {}  # the first that consumed it, by message id
        self.dead: set[str] = set()
        self.repeats = 0  # attempts that consumed a message once more
        self.dead_again = 0  # attempts that gave a dead letter up once more
        self.sent_back = 0
        self.by: Counter[str] = Counter()  # attempts that consumed: messages and repeats, by runner
        self.seconds: Counter[tuple[str, int]] = Counter()  # by runner and second since 1970
        self._path = path
        self._read_bytes = 0

    def update(self) -> None:
        """Count the complete lines that are new."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._read_bytes)
            lines, newline, _ = file.read().rpartition(b"\n")
        self._read_bytes += len(lines) + len(newline)
        for line in lines.decode().split("\n") if newline else ():
            run_by, topic, message_id, outcome, tries, started_ms = line.split(",")
            self.count(Attempt(run_by, topic, message_id, outcome, int(tries), int(started_ms)))

    def count(self, attempt: Attempt) -> None:
        message_id = attempt.message_id
        if attempt.outcome == SENT_BACK:
            self.sent_back += 1
        elif attempt.outcome == DEAD:
            self.dead_again += message_id in self.dead
            self.dead.add(message_id)
        elif attempt.outcome == CONSUMED:
            self.repeats += message_id in self.consumed
            self.consumed.setdefault(message_id, attempt)
            self.by[attempt.run_by] += 1
            self.seconds[attempt.run_by, attempt.started_ms // 1_000] += 1


_SCHEMA: Final = pa.schema(
    {
        "order": pa.string(),
        "customer": pa.string(),
        "status": pa.string(),
        "cents": pa.int64(),
        "tries": pa.int32(),
        "consumed_by": pa.string(),
        "consumed_at": pa.timestamp("us", tz="UTC"),
        "message_id": pa.string(),
    }
)


def write_orders(stored: Iterable[ReceivedMessage], tally: Tally, path: Path) -> pa.Table:
    """Write the consumed orders as Parquet: messages of the topic with their attempts."""
    rows = [
        {
            **json.loads(message.body),
            "status": message.tags,
            "tries": attempt.tries,
            "consumed_by": attempt.run_by,
            "consumed_at": datetime.fromtimestamp(attempt.started_ms / 1_000, UTC),
            "message_id": message.message_id,
        }
        for message in {each.message_id: each for each in stored}.values()
        if (attempt := tally.consumed.get(message.message_id)) is not None
    ]
    path.mkdir()
    pq.write_table(pa.Table.from_pylist(rows, _SCHEMA).sort_by("order"), path / "part-0.parquet")
    return pq.read_table(path)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What each side says at the end.  Messages are named by their ids."""

    wanted: frozenset[str]
    unwanted: frozenset[str]
    hopeless: frozenset[str]
    entries: Mapping[str, int]
    consumed: frozenset[str]
    dead: frozenset[str]
    ledger: tuple[str, ...]
    lag: int
    waiting: int
    consumed_orders: int
    table_rows: int
    by: Mapping[str, int] = field(default_factory=dict)


class Check(NamedTuple):
    """One sentence that must be true, and what was found."""

    what: str
    found: str
    is_good: bool


def check_all(evidence: Evidence) -> list[Check]:
    """The checks of the summary, in its order."""
    e, sent, consumed, dead = evidence, evidence.wanted, evidence.consumed, evidence.dead
    delivered = e.unwanted & (consumed | dead)
    ran = ", ".join(f"{name} {count:,}" for name, count in sorted(e.by.items()) if count)
    return [
        _check(
            "sent = consumed + dead letters",
            f"{len(sent):,} = {len(consumed):,} + {len(dead):,}",
            bool(sent) and len(sent) == len(consumed) + len(dead),
            {
                "lost": len(sent - consumed - dead),
                "never sent": len((consumed | dead) - sent - e.unwanted),
                "both consumed and dead": len(consumed & dead),
            },
        ),
        _check(
            "dead letters are those planned",
            f"{len(dead & e.hopeless):,} of {len(e.hopeless):,}",
            dead == e.hopeless,
            {"too many": len(dead - e.hopeless), "missing": len(e.hopeless - dead)},
        ),
        _check(
            "unwanted tags are not delivered",
            f"{len(delivered):,} of {len(e.unwanted):,} consumed",
            not delivered,
        ),
        _check_ledger(e),
        _check(
            "nothing is left at the broker",
            f"lag {e.lag:,}, {e.waiting:,} waiting",
            not e.lag and not e.waiting,
        ),
        _check(
            "the table has each consumed order",
            f"{e.table_rows:,} of {e.consumed_orders:,} rows",
            0 < e.table_rows == e.consumed_orders,
        ),
        _check("Spark and threads both consumed", ran or "nobody", ran.count(", ") == 1),
    ]


def _check_ledger(evidence: Evidence) -> Check:
    posted, breaks = read_ledger(evidence.ledger)
    entries = {customer: count for customer, count in evidence.entries.items() if count}
    complete = sum(posted[customer] == count for customer, count in entries.items())
    return _check(
        "each customer's ledger is in order",
        f"{sum(entries.values()):,} entries of {complete} customers",
        bool(entries),
        {
            "out of order": breaks,
            "customers without all their entries": len(entries) - complete,
            "unknown customers": len(posted.keys() - entries.keys()),
        },
    )


def _check(what: str, found: str, is_good: bool, faults: Mapping[str, int] | None = None) -> Check:
    wrong = ", ".join(f"{count:,} {fault}" for fault, count in (faults or {}).items() if count)
    return Check(what, f"{found}: {wrong}" if wrong else found, is_good and not wrong)


def read_ledger(lines: Iterable[str]) -> tuple[Counter[str], int]:
    """Each customer's last entry, and how many entries were written too early.

    An entry may be written again; a new one has to be the next of its customer.
    """
    posted: Counter[str] = Counter()
    breaks = 0
    for line in lines:
        customer, _, number = line.partition(" ")
        entry = int(number) if number.isdecimal() else 0
        breaks += not 1 <= entry <= posted[customer] + 1
        posted[customer] = max(posted[customer], entry)
    return posted, breaks
