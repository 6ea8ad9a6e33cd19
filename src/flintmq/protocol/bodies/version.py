"""Which state of a table somebody has: `DataVersion`."""

from __future__ import annotations

from flintmq.protocol.bodies.body import RequestBody
from flintmq.protocol.fields import Int64


class DataVersion(RequestBody, frozen=True, kw_only=True):
    """A counter and the time of the last change.  4.9 knows no ``state_version``."""

    counter: Int64 = 0
    state_version: Int64 | None = None
    timestamp: Int64 = 0

    def next(self, now_ms: int) -> DataVersion:
        """The version after one more change."""
        return DataVersion(
            counter=self.counter + 1, state_version=self.state_version, timestamp=now_ms
        )

    def matches(self, other: DataVersion) -> bool:
        """Whether both mean the same state.  A missing ``state_version`` counts as 0."""
        return (
            self.counter == other.counter
            and self.timestamp == other.timestamp
            and (self.state_version or 0) == (other.state_version or 0)
        )
