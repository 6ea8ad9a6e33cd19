"""Unique ids for messages whose sender gave them none.

They are made as clients make theirs: address, process, a constant, the time since the month
began, a counter.  Nothing here asks a clock, so the same calls give the same ids.
"""

from __future__ import annotations

from datetime import UTC, datetime

from flintmq.model.host import Host
from flintmq.model.message_id import UniqueIds


class OwnIds:
    """Makes the ids of one broker."""

    def __init__(self, host: Host, process_id: int, started_ms: int) -> None:
        self._ids = UniqueIds(host.packed, process_id, started_ms)
        self._month_ms = range(0)

    def make(self, now_ms: int) -> str:
        if now_ms not in self._month_ms:
            self._month_ms = month_of(now_ms)
        return self._ids.make(now_ms, self._month_ms.start)


def month_of(now_ms: int) -> range:
    """The milliseconds of the month around a time, in the zone of this machine."""
    now = datetime.fromtimestamp(now_ms / 1_000, UTC).astimezone()
    first = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    years, month = divmod(first.month, 12)
    after = first.replace(year=first.year + years, month=month + 1)
    return range(int(first.timestamp()) * 1_000, int(after.timestamp()) * 1_000)
