"""How much a store holds, and on how full a disk: for those who look after it."""

from __future__ import annotations

from flintmq.model.queue import LogOffset
from flintmq.protocol.record import store_time_ms
from flintmq.store.lookup import record_view
from flintmq.store.parts import StoreParts


class StoreExtent:
    """Looks at one open store.  Nothing is remembered: every question is asked again."""

    def __init__(self, parts: StoreParts) -> None:
        self._parts = parts

    @property
    def start_offset(self) -> LogOffset:
        """Where the oldest file of the log begins."""
        return self._parts.log.min_offset

    def earliest_ms(self) -> int | None:
        """When the oldest record of the log was stored, or nothing without one."""
        view = record_view(self._parts.log, self.start_offset)
        return None if view is None else store_time_ms(view, 0)

    def disk_bytes(self) -> tuple[int, int]:
        """Bytes used and bytes still usable on the disk of the store."""
        return self._parts.disk.usage(self._parts.directory)
