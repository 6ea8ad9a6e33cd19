"""Light queues, as the owner of a store adds records to them.

A record that is appended to its own queue is then added to its light queues in the same turn, so
that either all of them have it or none.
"""

from __future__ import annotations

from collections.abc import Iterable

from flintmq.errors import InvalidName
from flintmq.model.light_queue import LIGHT_QUEUE_ID, is_light
from flintmq.store.files.layout import FILL_UNIT
from flintmq.store.queues.consume_queue import GAP_UNITS_MAX
from flintmq.store.queues.dispatch import QueueGrowth
from flintmq.store.recovery.parts import StoreParts


class LightQueues:
    """Those of one open store."""

    def __init__(self, parts: StoreParts) -> None:
        self.is_on = parts.config.serves_light
        self._queues = parts.queues
        self._dispatch = parts.dispatch

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(is_light(queue.topic) for queue in self._queues)

    def __contains__(self, name: str) -> bool:
        return self._queues.find(name, LIGHT_QUEUE_ID) is not None

    def next_offset(self, name: str) -> int:
        """The offset that the next record of a light queue gets, in the turn under way."""
        return self._dispatch.next_offset(name, LIGHT_QUEUE_ID)

    def add(
        self, names: Iterable[str], log_offset: int, size_bytes: int, code: int, store_ms: int
    ) -> None:
        """Add the record at ``log_offset`` to these queues, as the next of each."""
        for name in names:
            growth = self._dispatch.growth_of((name, LIGHT_QUEUE_ID))
            self._dispatch.add(growth, log_offset, size_bytes, code, store_ms)

    def add_at(
        self,
        places: Iterable[tuple[str, int]],
        log_offset: int,
        size_bytes: int,
        code: int,
        store_ms: int,
    ) -> None:
        """Add a record of another log to its queues, where it says that it is in them.

        One that a queue has already, or that lies far behind its end, is left out.
        """
        for name, offset in places:
            try:
                growth = self._dispatch.growth_of((name, LIGHT_QUEUE_ID))
            except InvalidName:
                continue
            if _brought_to(growth, offset):
                self._dispatch.add(growth, log_offset, size_bytes, code, store_ms)


def _brought_to(growth: QueueGrowth, offset: int) -> bool:
    """Let a queue go on at an offset; not possible for one that it has."""
    gap = offset - growth.stop
    if growth.stop == 0 and gap > 0:
        growth.is_held = False  # its first unit does not lie at the start of a file
        growth.start, growth.stop = type(growth.start)(offset), offset
    elif 0 < gap <= GAP_UNITS_MAX:
        growth.units += FILL_UNIT * gap
        growth.tags_codes += [0] * gap
        growth.stop = offset
    return growth.stop == offset
