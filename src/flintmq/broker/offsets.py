"""How far every group has come in every queue.

A commit is stored as given, also when it is smaller than the last one; that is logged with
both numbers and counted.  -1 counts as unknown.  A pending reset, the 5.x way of resetting,
is handed out once to the next pull and keeps commits out until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from flintmq.errors import Overloaded
from flintmq.logs import logger
from flintmq.model.queue import QueueOffset
from flintmq.protocol.bodies.offset import ConsumerOffsets
from flintmq.protocol.bodies.version import DataVersion

log = logger(__name__)

SEPARATOR = "@"
"""Between topic and group in the saved table; neither name may hold it."""

QUEUES_MAX = 65_536
"""Queues of one topic a group may have offsets in: nobody checks the ids clients commit for."""


class Offsets:
    """Offsets by topic and group, then queue id."""

    def __init__(self, saved: ConsumerOffsets | None) -> None:
        self._table: dict[tuple[str, str], dict[int, int]] = {}
        for key, queues in (saved.offset_table if saved else {}).items():
            topic, separator, group = key.partition(SEPARATOR)
            if separator:
                self._table[topic, group] = dict(queues)
            else:
                log.warning("offsets of %r belong to nobody and are left out", key)
        self._pulled: dict[tuple[str, str], dict[int, int]] = {}
        self._resets: dict[tuple[str, str, int], QueueOffset] = {}
        self.version = (saved.data_version if saved else None) or DataVersion()
        self.is_dirty = False
        self.backward_count = 0
        """Commits that went back."""

    def commit(self, group: str, topic: str, queue_id: int, offset: int, who: str) -> None:
        """Store an offset; ``who`` is the client, for the log."""
        queues = self._table.setdefault((topic, group), {})
        before = queues.get(queue_id)
        if before == offset:
            return
        if before is None and len(queues) >= QUEUES_MAX:
            raise Overloaded(f"offsets of {group} in {topic}", QUEUES_MAX, "QUEUES_MAX")
        if before is not None and offset < before:
            self.backward_count += 1
            log.warning(
                "%s: offset of %s in %s queue %d goes back from %d to %d",
                who, group, topic, queue_id, before, offset,
            )  # fmt: skip
        queues[queue_id] = offset
        self.is_dirty = True

    def query(self, group: str, topic: str, queue_id: int) -> QueueOffset | None:
        """The stored or pending offset, or nothing when there is none or it is negative."""
        if self._resets and (topic, group, queue_id) in self._resets:
            return self._resets[topic, group, queue_id]
        offset = self._table.get((topic, group), {}).get(queue_id, -1)
        return QueueOffset(offset) if offset >= 0 else None

    def queues(self, group: str, topic: str) -> dict[int, int]:
        """Offsets by queue id as they were stored."""
        return dict(self._table.get((topic, group), {}))

    def places(self) -> list[tuple[str, str]]:
        """Every topic and group that have offsets."""
        return list(self._table)

    def topics_of(self, group: str) -> list[str]:
        """Topics in which the group has offsets."""
        return [topic for topic, name in self._table if name == group]

    def groups_of(self, topic: str) -> list[str]:
        """Groups that have offsets in the topic."""
        return [group for name, group in self._table if name == topic]

    # Pulls

    def note_pull(self, group: str, topic: str, queue_id: int, next_offset: int) -> None:
        """Where the last pull of the group will go on."""
        self._pulled.setdefault((topic, group), {})[queue_id] = next_offset

    def pulled(self, group: str, topic: str, queue_id: int) -> int | None:
        return self._pulled.get((topic, group), {}).get(queue_id)

    # Resets

    def reset(self, group: str, topic: str, queue_id: int, offset: QueueOffset) -> None:
        """Store an offset that the next pull is told."""
        self._resets[topic, group, queue_id] = offset
        self._table.setdefault((topic, group), {})[queue_id] = offset
        self.is_dirty = True

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        return bool(self._resets) and (topic, group, queue_id) in self._resets

    def take_reset(self, group: str, topic: str, queue_id: int) -> QueueOffset | None:
        """The pending reset of a queue, once."""
        return self._resets.pop((topic, group, queue_id), None) if self._resets else None

    # Removing and copying

    def clone(self, source: str, target: str, topics: Iterable[str]) -> None:
        """Let a group stand where another one stands."""
        for topic in topics:
            queues = self._table.get((topic, source))
            if queues is not None:
                self._remove({(topic, target)}.__contains__)
                self._table[topic, target] = dict(queues)
                self.is_dirty = True

    def remove_topic(self, topic: str) -> None:
        self._remove(lambda key: key[0] == topic)

    def remove_group(self, group: str) -> None:
        self._remove(lambda key: key[1] == group)

    def _remove(self, goes: Callable[[tuple[str, str]], bool]) -> None:
        for table in (self._table, self._pulled):
            for key in [key for key in table if goes(key)]:
                del table[key]
                self.is_dirty = True
        for place in [place for place in self._resets if goes(place[:2])]:
            del self._resets[place]

    def table(self, now_ms: int) -> ConsumerOffsets:
        """All of it, to be saved or sent."""
        if self.is_dirty:
            self.version = self.version.next(now_ms)
        return ConsumerOffsets(
            data_version=self.version,
            offset_table={
                f"{topic}{SEPARATOR}{group}": dict(queues)
                for (topic, group), queues in self._table.items()
            },
        )
