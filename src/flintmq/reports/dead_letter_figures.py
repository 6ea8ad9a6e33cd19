"""What a report on dead letters holds, whoever counted it: how many by topic, reason and day.

The reason of a dead letter is, in this order: a property that the user names; the error of the
message's last outcome, where outcomes of `flintmq.spark.run` were kept; the property `DLQ_REASON`,
which our consumers write; why it cannot be decoded; else only how often it was tried.  Numbers and
ids in reasons are written as ``#``, so that the same error with another order number is the same
reason.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from flintmq.errors import MissingExtra
from flintmq.reports.dead_letter_plot import plot_dead_letters
from flintmq.reports.report_output import ReportTable, ready_directory, utc_text

GROUPS_MAX: Final = 100_000
"""Rows of the table, the largest groups first; what one process holds with ease."""

REASON_CHARACTERS_MAX: Final = 200
UNKNOWN: Final = "unknown, tries: %d"

TABLE: Final = "dead_letters"
PICTURE: Final = "dead_letters.png"
HEAD: Final = ("topic", "reason", "day", "messages", "tries_max", "first", "last")

ID_PATTERN: Final = r"\b(?=[0-9A-Fa-f-]*[0-9])[0-9A-Fa-f]{2}[0-9A-Fa-f-]{6,}\b"
NUMBER_PATTERN: Final = r"[0-9]+"
"""What differs between errors that are alike; also for Java's regular expressions."""


@dataclass(frozen=True, slots=True)
class DeadLetterGroup:
    """Dead letters that have topic, reason and day in common.  Times are in milliseconds."""

    topic: str | None
    reason: str
    day: str
    messages: int
    tries_max: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class DeadLetterReport:
    """How many dead letters a group has, the largest groups first.

    ``left_out`` dead letters are in groups beyond `GROUPS_MAX`.
    """

    group: str
    messages: int
    groups: tuple[DeadLetterGroup, ...]
    left_out: int = 0

    def table(self) -> ReportTable:
        rows = tuple(
            (
                each.topic,
                each.reason,
                each.day,
                each.messages,
                each.tries_max,
                utc_text(each.first_ms),
                utc_text(each.last_ms),
            )
            for each in self.groups
        )
        return ReportTable(TABLE, HEAD, rows)

    def write(self, out: str) -> tuple[Path, ...]:
        """The table as CSV and Parquet, and a picture; where they are."""
        directory = ready_directory(out, PICTURE)
        shown = self.table()
        if find_spec("pyarrow") is None:
            raise MissingExtra("pyarrow", "arrow")
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = list(zip(*shown.rows, strict=True)) or [()] * len(HEAD)
        kinds = (pa.string(),) * 3 + (pa.int64(),) * 2 + (pa.string(),) * 2
        arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        parquet = directory / f"{TABLE}.parquet"
        pq.write_table(pa.table(dict(zip(HEAD, arrays, strict=True))), parquet)
        picture = directory / PICTURE
        by_day_and_topic: Counter[tuple[str, str]] = Counter()
        by_reason: Counter[str] = Counter()
        for each in self.groups:
            by_day_and_topic[each.day, each.topic or "unknown topic"] += each.messages
            by_reason[each.reason] += each.messages
        plot_dead_letters(self.group, by_day_and_topic, by_reason, picture)
        return shown.write(directory), parquet, picture


def same_words_text(error: str) -> str:
    """The first line of an error, without what differs from message to message."""
    line = error.strip(" ").partition("\n")[0].strip(" ")
    alike = re.sub(NUMBER_PATTERN, "#", re.sub(ID_PATTERN, "#", line))
    return alike[:REASON_CHARACTERS_MAX]
