"""What the driver of a Spark query tells of it: figures for people, as JSON.

    driver: `RunCounts` ─► GET /runs ─► console

Refuses text that is no list of reports.

Invariant: a report that is written and read again is the same.
"""

from __future__ import annotations

from typing import Final

import msgspec

from flintmq.errors import RemoteProtocolError

PATH: Final = "/runs"
"""Where a program with metrics serves the reports of its queries."""

POINTS_MAX: Final = 360
"""Micro-batches of a query that a chart shows; the oldest are dropped first."""


class BatchPoint(msgspec.Struct, frozen=True):
    """One micro-batch that ended.  ``lag`` is what was left then, None where nobody knows."""

    at_ms: int
    messages: int
    took_ms: int
    lag: int | None


class RunReport(msgspec.Struct, frozen=True):
    """One query, from its start until now."""

    name: str
    """The group of a run of listeners, the directory of a lake, the name or id of a stream."""
    kind: str
    is_active: bool
    started_ms: int
    batches: int
    messages: int
    per_second: float
    """Messages a second while the last micro-batches ran."""
    lag: dict[str, int] | None
    """Messages that were left by topic, None where nobody knows."""
    outcomes: dict[str, int]
    calls: int
    """Of listeners."""
    calls_ms: float
    """How long all of them took, together."""
    points: list[BatchPoint]

    @property
    def behind(self) -> int | None:
        """Messages that were left, of all topics."""
        return None if self.lag is None else sum(self.lag.values())

    @property
    def left_s(self) -> float | None:
        """The time that the lag takes at this rate; None where it is not known."""
        if self.behind is None or not self.per_second:
            return None
        return self.behind / self.per_second

    @property
    def call_ms(self) -> float | None:
        """How long a call of a listener takes, on average."""
        return self.calls_ms / self.calls if self.calls else None


_reports = msgspec.json.Decoder(list[RunReport])


def encode_reports(reports: list[RunReport]) -> bytes:
    return msgspec.json.encode(reports)


def decode_reports(body: bytes) -> list[RunReport]:
    """The reports in an answer; `RemoteProtocolError` when it is something else."""
    try:
        return _reports.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"these are no figures of Spark queries: {error}") from None
