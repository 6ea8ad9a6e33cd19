"""What a record adds to its queue and to the key index.

A unit for every record that is not half of a transaction: only types *none* and *commit*
count in a queue.  Its third field is the hash of the tag; in the schedule topic it is the
time of delivery; in extended queues it is the address of an extension unit.  Keys of all
but rolled back records go to the index.

The same rules serve an append, where the queue gives the next offset, and a rebuild, where
the record has one.  As everywhere in the store: `add`, then `write`, then `commit` or
`undo`, and after an `undo` the files must be brought back by `mend`.

Units are held by their queues until `QueueSet.flush`: one write for many turns.  Two kinds are
written with their turn: those of extended queues, and those of the schedule topic, since 4.9.7
makes them again with wrong times when it opens a directory after a crash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, compress, repeat

import msgspec

from flintmq.kernel.python.send_forms import Keyed
from flintmq.model.light_queue import is_light
from flintmq.model.message import KEY_SEPARATOR
from flintmq.model.properties import KEYS, UNIQ_KEY
from flintmq.model.queue import LogOffset, QueueOffset
from flintmq.model.sys_flag import TransactionType
from flintmq.model.topic import SCHEDULE_TOPIC
from flintmq.store.files.layout import UNIT_STRUCT
from flintmq.store.files.store_config import StoreConfig
from flintmq.store.index.key_index import KeyIndex
from flintmq.store.queues.batch_queue import BatchQueue, BatchUnit
from flintmq.store.queues.consume_queue import ConsumeQueue
from flintmq.store.queues.queue_extension import QueueExtension
from flintmq.store.queues.queue_set import QueueSet

DELAY_DIGITS_MAX = 10
"""A Java int has no more; a longer text is no level."""

_pack_unit = UNIT_STRUCT.pack

QUEUED_TYPES = frozenset({int(TransactionType.NONE), int(TransactionType.COMMIT)})


def keys_of(properties: Mapping[str, str]) -> list[str]:
    """What a record is found by: the id its sender gave it, then its keys."""
    keys = list(filter(None, properties.get(KEYS, "").split(KEY_SEPARATOR)))
    unique_id = properties.get(UNIQ_KEY)
    return [unique_id, *keys] if unique_id else keys


def delivery_code(config: StoreConfig, level: str, store_ms: int) -> int | None:
    """When a message of the schedule topic is due, or nothing when it names no delay level."""
    if level.isascii() and level.isdigit() and len(level) <= DELAY_DIGITS_MAX and int(level) > 0:
        return config.deliver_ms(min(int(level), len(config.delay_levels_ms)), store_ms)
    return None


class Grown(msgspec.Struct, frozen=True, gc=False):
    """What a turn added to one queue: offsets [start, stop), one tags code for each record.

    ``is_batched``: a record may have several offsets.
    """

    topic: str
    queue_id: int
    start: QueueOffset
    stop: QueueOffset
    tags_codes: list[int]
    is_batched: bool = False


class QueueGrowth:
    """What the turn under way adds to one queue."""

    __slots__ = (
        "extension",
        "is_batched",
        "is_held",
        "log_stop",
        "queue",
        "start",
        "stop",
        "tags_codes",
        "units",
    )

    def __init__(self, queue: ConsumeQueue | BatchQueue, extension: QueueExtension | None) -> None:
        self.queue = queue
        self.extension = extension
        self.is_batched = isinstance(queue, BatchQueue)  # its units are added by `add_batch`
        self.is_held = extension is None and queue.topic != SCHEDULE_TOPIC
        self.start: QueueOffset = queue.max_offset
        self.stop: int = queue.max_offset  # plain numbers: they are counted up for every record
        self.log_stop: int = queue.log_stop
        self.units = bytearray()
        self.tags_codes: list[int] = []


class Dispatch:
    """One turn after the other."""

    def __init__(self, queues: QueueSet, index: KeyIndex, *, extended: bool) -> None:
        self._queues = queues
        self._index = index
        self.is_extended = extended
        self._growths: dict[tuple[str, int], QueueGrowth] = {}
        self._keyed: list[Keyed] = []
        self._keys: list[str] = []
        self._shared = 0
        self._torn: list[ConsumeQueue | QueueExtension] = []

    def next_offset(self, topic: str, queue_id: int) -> QueueOffset:
        """The queue offset the next record of a queue gets."""
        growth = self._growths.get((topic, queue_id))
        if growth is not None:
            return QueueOffset(growth.stop)
        queue = self._queues.find_any(topic, queue_id)
        return QueueOffset(0) if queue is None else queue.max_offset

    def growth_of(self, key: tuple[str, int]) -> QueueGrowth:
        """What this turn adds to a queue (topic, queue id); its ``stop`` is the next offset."""
        growth = self._growths.get(key)
        if growth is None:
            topic, queue_id = key
            if topic in self._queues.batch_topics:
                growth = self._growths[key] = QueueGrowth(self._queues.open_batch(*key), None)
                return growth
            is_extended = self.is_extended and not is_light(topic)
            extension = self._queues.open_extension(topic, queue_id) if is_extended else None
            growth = QueueGrowth(self._queues.open(topic, queue_id), extension)
            self._growths[key] = growth
        return growth

    def add(
        self,
        growth: QueueGrowth,
        log_offset: int,
        size_bytes: int,
        code: int,
        store_ms: int,
        bit_map: bytes = b"",
    ) -> None:
        """The record at ``log_offset`` is the next of its queue."""
        field = code
        if growth.extension is not None:
            field = growth.extension.stage(code, store_ms, bit_map)
        growth.units += _pack_unit(log_offset, size_bytes, field)
        growth.tags_codes.append(code)
        growth.stop += 1
        growth.log_stop = log_offset + size_bytes

    def add_batch(
        self,
        growth: QueueGrowth,
        log_offset: int,
        size_bytes: int,
        code: int,
        store_ms: int,
        count: int,
    ) -> None:
        """The record at ``log_offset`` is the next ``count`` messages of a queue with batches."""
        assert growth.is_batched, growth.queue
        unit = BatchUnit(log_offset, size_bytes, code, store_ms, growth.stop, count)
        growth.units += unit.octets()
        growth.tags_codes.append(code)
        growth.stop += count
        growth.log_stop = log_offset + size_bytes

    def add_all(
        self,
        growth: QueueGrowth,
        log_offsets: Sequence[int],
        sizes: Sequence[int],
        codes: Sequence[int],
        store_ms: int,
    ) -> None:
        """The records at these places are the next of their queue."""
        if growth.is_batched:
            for log_offset, size_bytes, code in zip(log_offsets, sizes, codes, strict=True):
                self.add_batch(growth, log_offset, size_bytes, code, store_ms, 1)
            return
        if growth.extension is not None:
            for log_offset, size_bytes, code in zip(log_offsets, sizes, codes, strict=True):
                self.add(growth, log_offset, size_bytes, code, store_ms)
            return
        growth.units += b"".join(map(_pack_unit, log_offsets, sizes, codes))
        growth.tags_codes += codes
        growth.stop += len(log_offsets)
        growth.log_stop = log_offsets[-1] + sizes[-1]

    def add_units(self, growth: QueueGrowth, units: bytes, codes: Sequence[int]) -> None:
        """These units, one for each of the codes, are the next of their queue."""
        growth.units += units
        growth.tags_codes += codes
        growth.stop += len(codes)
        log_offset, size_bytes, _ = UNIT_STRUCT.unpack_from(units, len(units) - UNIT_STRUCT.size)
        growth.log_stop = log_offset + size_bytes

    def add_keyed(self, keys: Sequence[str], keyed: Sequence[Keyed], shared: int) -> None:
        """Many records, as `KeyIndex.add_all` takes them."""
        self._keys += keys
        self._keyed += keyed
        self._shared += shared

    def add_keys(self, topic: str, keys: Sequence[str], log_offset: int, store_ms: int) -> None:
        """The record at ``log_offset``, which has at least one key, can be found by its keys."""
        self._keys += keys
        self._keyed.append((topic, len(keys), log_offset, store_ms))

    def add_all_keys(
        self,
        topic: str,
        keys: Sequence[Sequence[str]],
        log_offsets: Sequence[int],
        store_ms: int,
    ) -> None:
        """Many records can be found by their keys; some may have none."""
        self._keys += chain.from_iterable(keys)
        counts = list(map(len, keys))
        keyed = zip(repeat(topic), counts, log_offsets, repeat(store_ms))
        self._keyed += keyed if all(counts) else compress(keyed, counts)

    # A turn

    def write(self) -> None:
        """Write the units of the turn.  After a `DiskFailed` call `undo`."""
        for growth in self._growths.values():
            if not growth.is_held:
                if growth.extension is not None:
                    growth.extension.write()
                _plain(growth).write(growth.start, growth.units)

    def commit(self) -> list[Grown]:
        """The records are in the log: show readers their units; tell which queues grew."""
        grown = []
        queues = self._queues
        for (topic, queue_id), growth in self._growths.items():
            stop, log_stop = QueueOffset(growth.stop), LogOffset(growth.log_stop)
            if growth.is_held:
                queues.hold(growth.queue, growth.units, stop, log_stop)
            else:
                _plain(growth).advance(stop, log_stop)
                queues.note_changed(growth.queue.dirty)
            if growth.extension is not None:
                growth.extension.advance()
                queues.note_changed(growth.extension.dirty)
            codes, is_batched = growth.tags_codes, growth.is_batched
            grown.append(Grown(topic, queue_id, growth.start, stop, codes, is_batched))
        if self._keyed:
            self._index.add_all(self._keyed, self._keys, self._shared)
        self._begin_turn()
        return grown

    def undo(self) -> None:
        """Forget the turn.  `mend` has to bring the files back before the next one."""
        for growth in self._growths.values():
            if not growth.is_held:
                self._torn.append(_plain(growth))
            if growth.extension is not None:
                self._torn.append(growth.extension)
        self._begin_turn()

    def mend(self) -> None:
        """Wipe what failed turns left behind.  A `DiskFailed` leaves it to be tried again."""
        while self._torn:
            self._torn[-1].undo()
            self._torn.pop()

    def _begin_turn(self) -> None:
        self._growths = {}
        self._keyed = []
        self._keys = []
        self._shared = 0


def _plain(growth: QueueGrowth) -> ConsumeQueue:
    """The queue of units that are written with their turn; batches never are."""
    assert isinstance(growth.queue, ConsumeQueue), growth.queue
    return growth.queue
