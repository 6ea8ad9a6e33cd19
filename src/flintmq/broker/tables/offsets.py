"""The offset of every group in every queue.

A commit is stored as given, also when it is smaller than the last one; that is logged with
both numbers and counted.  -1 counts as unknown.  A pending reset, the 5.x way of resetting,
is handed out once to the next pull and keeps commits out until then.

A slave that may act as the master notes what is committed to it.  Its master gets that when it is
back: at its start by `merge`, later by the copies of the slave (`take_noted`).

Invariant: the version is that of the master until something is stored here that it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from flintmq.errors import Overloaded
from flintmq.logs import logger
from flintmq.model.queue import QueueOffset
from flintmq.protocol.bodies.common_bodies import DataVersion
from flintmq.protocol.bodies.offset import ConsumerOffsets

log = logger(__name__)

SEPARATOR = "@"
"""Between topic and group in the saved table; neither name may hold it."""

QUEUES_MAX = 65_536
"""Queues of one topic a group may have offsets in: nobody checks the ids clients commit for."""

OFFSETS_MAX = 1_000_000
"""Offsets of all groups: about 150 MB, and 20 MB whenever they are saved."""

Place: TypeAlias = tuple[str, str]
"""A topic and a group."""

NO_QUEUES: Mapping[int, int] = MappingProxyType({})


class Offsets:
    """Offsets by topic and group, then queue id."""

    def __init__(self, saved: ConsumerOffsets | None, *, notes_commits: bool = False) -> None:
        self._table: dict[Place, dict[int, int]] = {}
        self._pulled: dict[Place, dict[int, int]] = {}
        self._resets: dict[Place, dict[int, QueueOffset]] = {}
        self._topics_of: dict[str, dict[str, None]] = {}  # of every place in any of the three
        self._groups_of: dict[str, dict[str, None]] = {}
        self._count = 0
        self._written: dict[str, dict[int, int]] = {}  # as `table` gave it last
        self._changed: set[Place] = set()  # since then
        for key, queues in (saved.offset_table if saved else {}).items():
            topic, separator, group = key.partition(SEPARATOR)
            if separator:
                self._index(topic, group)
                self._table[topic, group] = dict(queues)
                self._count += len(queues)
                self._changed.add((topic, group))
            else:
                log.warning("offsets of %r belong to nobody and are left out", key)
        self.version = (saved.data_version if saved else None) or DataVersion()
        self.is_dirty = False
        self._is_newer = False  # than the version says
        self._notes_commits = notes_commits
        self._noted: dict[tuple[str, str, int], int] = {}
        self.backward_count = 0
        """Commits that went back."""

    def __len__(self) -> int:
        """How many offsets are stored."""
        return self._count

    def commit(self, group: str, topic: str, queue_id: int, offset: int, who: str) -> None:
        """Store an offset; ``who`` is the client, for the log."""
        queues = self._table.get((topic, group), NO_QUEUES)
        before = queues.get(queue_id)
        if before == offset:
            return
        if before is None:
            self._require_room(group, topic, queues)
        elif offset < before:
            self.backward_count += 1
            log.warning(
                "%s: offset of %s in %s queue %d goes back from %d to %d",
                who, group, topic, queue_id, before, offset,
            )  # fmt: skip
        self._store(group, topic, queue_id, offset)
        if self._notes_commits:
            self._noted[group, topic, queue_id] = offset

    def query(self, group: str, topic: str, queue_id: int) -> QueueOffset | None:
        """The stored or pending offset, or nothing when there is none or it is negative."""
        if self._resets and (reset := self._reset(group, topic, queue_id)) is not None:
            return reset
        offset = self._table.get((topic, group), NO_QUEUES).get(queue_id, -1)
        return QueueOffset(offset) if offset >= 0 else None

    def queues(self, group: str, topic: str) -> dict[int, int]:
        """Offsets by queue id as they were stored."""
        return dict(self._table.get((topic, group), NO_QUEUES))

    def places(self) -> list[Place]:
        """Every topic and group that have offsets."""
        return list(self._table)

    def topics_of(self, group: str) -> list[str]:
        """Topics in which the group has offsets."""
        topics = self._topics_of.get(group, ())
        return [topic for topic in topics if (topic, group) in self._table]

    def groups_of(self, topic: str) -> list[str]:
        """Groups that have offsets in the topic."""
        groups = self._groups_of.get(topic, ())
        return [group for group in groups if (topic, group) in self._table]

    # Pulls

    def note_pull(self, group: str, topic: str, queue_id: int, next_offset: int) -> None:
        """Where the last pull of the group will go on."""
        pulled = self._pulled.get((topic, group))
        if pulled is None:
            self._index(topic, group)
            pulled = self._pulled[topic, group] = {}
        pulled[queue_id] = next_offset

    def pulled(self, group: str, topic: str, queue_id: int) -> int | None:
        return self._pulled.get((topic, group), NO_QUEUES).get(queue_id)

    # Resets

    def reset(self, group: str, topic: str, queue_id: int, offset: QueueOffset) -> None:
        """Store an offset that the next pull gets."""
        if queue_id not in (queues := self._table.get((topic, group), NO_QUEUES)):
            self._require_room(group, topic, queues)
        self._store(group, topic, queue_id, offset)
        self._resets.setdefault((topic, group), {})[queue_id] = offset

    def has_reset(self, group: str, topic: str, queue_id: int) -> bool:
        return bool(self._resets) and self._reset(group, topic, queue_id) is not None

    @property
    def has_resets(self) -> bool:
        """Whether any queue has a pending reset."""
        return bool(self._resets)

    def take_reset(self, group: str, topic: str, queue_id: int) -> QueueOffset | None:
        """The pending reset of a queue, once."""
        resets = self._resets.get((topic, group)) if self._resets else None
        if resets is None:
            return None
        reset = resets.pop(queue_id, None)
        if not resets:
            del self._resets[topic, group]
        return reset

    # Removing and copying

    def copy_from(self, table: ConsumerOffsets, max_offset: Callable[[str, int], int]) -> None:
        """Store the offsets of the master over these, none beyond the end of its queue here.

        A slave may be behind in the log: were it to become the master, messages that come next
        would get offsets that the group is said to have consumed.
        """
        for key, queues in table.offset_table.items():
            topic, separator, group = key.partition(SEPARATOR)
            if not separator:
                continue
            stored = self._table.get((topic, group), NO_QUEUES)
            for queue_id, offset in queues.items():
                within = min(offset, max_offset(topic, queue_id))
                if within < self._noted.get((group, topic, queue_id), -1):
                    continue  # committed here since: the next copy hands it over
                if stored.get(queue_id) != within:
                    if queue_id not in stored:
                        self._require_room(group, topic, stored)
                    self._store(group, topic, queue_id, within)
                    stored = self._table[topic, group]
        if table.data_version is not None:
            self.is_dirty |= not self.version.matches(table.data_version)
            self.version = table.data_version
            self._is_newer = bool(self._noted)

    def merge(self, table: ConsumerOffsets, max_offset: Callable[[str, int], int]) -> int:
        """Store those offsets of a slave that are further; how many.  None beyond its queue's end.

        Nothing is stored of a table that is older than this one: offsets were reset since.
        """
        if table.data_version is None or table.data_version.is_older_than(self.version):
            return 0
        count = 0
        for key, queues in table.offset_table.items():
            topic, separator, group = key.partition(SEPARATOR)
            stored = self._table.get((topic, group), NO_QUEUES)
            for queue_id, offset in queues.items() if separator else ():
                within = min(offset, max_offset(topic, queue_id))
                if within > stored.get(queue_id, -1):
                    if queue_id not in stored:
                        self._require_room(group, topic, stored)
                    self._store(group, topic, queue_id, within)
                    stored = self._table[topic, group]
                    count += 1
        return count

    def take_noted(self) -> dict[tuple[str, str, int], int]:
        """What was committed here since this was asked last: by group, topic and queue id."""
        noted, self._noted = self._noted, {}
        return noted

    def note_again(self, noted: Mapping[tuple[str, str, int], int]) -> None:
        """Keep offsets that did not reach the master for the next attempt; later commits win."""
        self._noted = {**noted, **self._noted}

    def clone(self, source: str, target: str, topics: Iterable[str]) -> None:
        """Copy the offsets of one group to another."""
        for topic in topics:
            queues = self._table.get((topic, source))
            if queues is not None:
                copy = dict(queues)
                self._remove(topic, target)
                if self._count + len(copy) > OFFSETS_MAX:
                    raise Overloaded("offsets of all groups", OFFSETS_MAX, "OFFSETS_MAX")
                self._index(topic, target)
                self._table[topic, target] = copy
                self._count += len(copy)
                self._changed.add((topic, target))
                self.is_dirty = self._is_newer = True

    def remove_topic(self, topic: str) -> None:
        for group in list(self._groups_of.get(topic, ())):
            self._remove(topic, group)

    def remove_group(self, group: str) -> None:
        for topic in list(self._topics_of.get(group, ())):
            self._remove(topic, group)

    def table(self, now_ms: int) -> ConsumerOffsets:
        """The whole table, to be saved or sent.  Only what changed since the last one is copied."""
        if self._is_newer:
            self.version = self.version.next(now_ms)
            self._is_newer = False
        for topic, group in self._changed:
            key = f"{topic}{SEPARATOR}{group}"
            queues = self._table.get((topic, group))
            if queues is None:
                self._written.pop(key, None)
            else:
                self._written[key] = dict(queues)
        self._changed.clear()
        return ConsumerOffsets(data_version=self.version, offset_table=dict(self._written))

    # Inside

    def _store(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        place = (topic, group)
        queues = self._table.get(place)
        if queues is None:
            self._index(topic, group)
            queues = self._table[place] = {}
        self._count += queue_id not in queues
        queues[queue_id] = offset
        self._changed.add(place)
        self.is_dirty = self._is_newer = True

    def _index(self, topic: str, group: str) -> None:
        self._topics_of.setdefault(group, {})[topic] = None
        self._groups_of.setdefault(topic, {})[group] = None

    def _reset(self, group: str, topic: str, queue_id: int) -> QueueOffset | None:
        resets = self._resets.get((topic, group))
        return None if resets is None else resets.get(queue_id)

    def _require_room(self, group: str, topic: str, queues: Mapping[int, int]) -> None:
        if len(queues) >= QUEUES_MAX:
            raise Overloaded(f"offsets of {group} in {topic}", QUEUES_MAX, "QUEUES_MAX")
        if self._count >= OFFSETS_MAX:
            raise Overloaded("offsets of all groups", OFFSETS_MAX, "OFFSETS_MAX")

    def _remove(self, topic: str, group: str) -> None:
        """Delete every offset of a group in a topic."""
        place = (topic, group)
        queues = self._table.pop(place, None)
        pulled = self._pulled.pop(place, None)
        self._resets.pop(place, None)
        if queues is not None:
            self._count -= len(queues)
            self._changed.add(place)
        if queues is not None or pulled is not None:
            self.is_dirty = self._is_newer = True
        for index, one, other in (
            (self._topics_of, group, topic),
            (self._groups_of, topic, group),
        ):
            names = index.get(one, {})
            names.pop(other, None)
            if not names:
                index.pop(one, None)
