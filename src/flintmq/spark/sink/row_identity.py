"""Which row of which write a message was: a property the sink gives to all it sends.

    SPARK_ROW = <write> . <batch> . <partition> . <row>

``write`` is the id of a streaming query without its dashes, or of one batch write; ``row``
counts from 0 within the partition.  A task that is tried again and a batch that is run again
after a crash give the same rows the same identity, as long as they give them in the same order:
so it is after reading, selecting and filtering.  After a shuffle the order may differ, unless
the partitions are sorted; whoever drops repeats therefore compares bodies as well.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

ROW_PROPERTY: Final = "SPARK_ROW"

_FORM = re.compile(r"([A-Za-z0-9_-]{1,64})\.([0-9]{1,19})\.([0-9]{1,10})\.([0-9]{1,19})", re.ASCII)


class RowIdentity(NamedTuple):
    """The identity of a row, read from its property."""

    write: str
    batch: int
    partition: int
    row: int

    def __str__(self) -> str:
        return f"{prefix_of(self.write, self.batch, self.partition)}{self.row}"


def prefix_of(write: str, batch: int, partition: int) -> str:
    """What the identities of all rows of a partition begin with."""
    return f"{write}.{batch}.{partition}."


def parse_identity(text: str | None) -> RowIdentity | None:
    """Read the identity property; None when it is missing or not of this form."""
    found = _FORM.fullmatch(text) if text else None
    if found is None:
        return None
    return RowIdentity(found[1], int(found[2]), int(found[3]), int(found[4]))
