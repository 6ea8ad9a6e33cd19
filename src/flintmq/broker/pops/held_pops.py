"""Pops that wait for a message, by topic, group and queue.

    add ──► held ─┬─ a wanted message arrived in the topic or came back ─► one is woken
                  ├─ another pop left something, an ordered queue is free ─► one is woken
                  ├─ its deadline came ──────────────────────────────────► due
                  ├─ the connection is lost ─────────────────────────────► dropped
                  └─ the broker stops ───────────────────────────────────► drain

Who is woken runs again, and is held again until the same deadline when others were faster.  A pop
of any queue (-1) and a pop of one queue wait under different keys: an arrival wakes one of each,
the first deadline first.

Invariant: a pop is in ``_keys`` and in ``_peers``, or it is not held.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from flintmq.broker.requests.outcome import HoldPop
from flintmq.broker.requests.peer import Peer
from flintmq.protocol.pop.retry_topics import retry_topic_v1, retry_topic_v2
from flintmq.protocol.typed_request import TypedRequest
from flintmq.store.queues.dispatch import Grown

ANY_QUEUE: Final = -1

STALE_MAX: Final = 1_024
"""Entries of the heap beyond twice the number of pops before it is cleaned."""

HoldKey: TypeAlias = tuple[str, str, int]
"""Topic, group and queue as they were asked for."""


class HeldPop(msgspec.Struct, gc=False, eq=False):
    """A request that waits.  Compared by identity."""

    request: TypedRequest[Any]
    peer: Peer
    hold: HoldPop

    @property
    def key(self) -> HoldKey:
        return self.hold.topic, self.hold.group, self.hold.queue_id


class HeldPops:
    """All pops that are held."""

    def __init__(self) -> None:
        self._keys: dict[HoldKey, dict[HeldPop, None]] = {}
        self._groups: dict[str, dict[str, dict[int, None]]] = {}  # queues by topic and group
        self._behind: dict[str, tuple[str, str]] = {}  # topic and group by retry topic
        self._peers: dict[Peer, dict[HeldPop, None]] = {}
        self._deadlines: list[tuple[int, int, HeldPop]] = []
        self._serial = 0
        self._count = 0
        self._woken: dict[HeldPop, None] = {}

    def __len__(self) -> int:
        return self._count

    def count_of(self, key: HoldKey) -> int:
        return len(self._keys.get(key, ()))

    def add(self, pop: HeldPop) -> None:
        hold, key = pop.hold, pop.key
        if key not in self._keys:
            self._keys[key] = {}
            groups = self._groups.setdefault(hold.topic, {})
            if hold.group not in groups:
                for name in (retry_topic_v1, retry_topic_v2):
                    self._behind[name(hold.group, hold.topic)] = hold.topic, hold.group
            groups.setdefault(hold.group, {})[hold.queue_id] = None
        self._keys[key][pop] = None
        self._peers.setdefault(pop.peer, {})[pop] = None
        self._count += 1
        self._serial += 1
        wake_ms = hold.until_ms if hold.wake_ms is None else min(hold.until_ms, hold.wake_ms)
        heapq.heappush(self._deadlines, (wake_ms, self._serial, pop))
        if len(self._deadlines) > 2 * self._count + STALE_MAX:
            self._deadlines = [entry for entry in self._deadlines if self._holds(entry[2])]
            heapq.heapify(self._deadlines)

    # Waking

    def grown(self, grown: Sequence[Grown]) -> None:
        """Queues have new records: wake those who wait for them."""
        if not self._keys:
            return
        for each in grown:
            for group in self._groups.get(each.topic, ()):
                for queue_id in (ANY_QUEUE, each.queue_id):
                    self._wake_first((each.topic, group, queue_id), each.tags_codes)
            behind = self._behind.get(each.topic)
            if behind is not None:
                topic, group = behind
                for queue_id in list(self._groups[topic][group]):
                    self._wake_first((topic, group, queue_id), each.tags_codes)

    def wake(self, key: HoldKey) -> None:
        """There is something left for one more pop."""
        self._wake_first(key, None)

    def freed(self, topic: str, group: str, queue_id: int) -> None:
        """A queue may be read again: wake one who waits for it."""
        for each in (ANY_QUEUE, queue_id):
            self._wake_first((topic, group, each), None)

    @property
    def has_woken(self) -> bool:
        return bool(self._woken)

    def take_woken(self) -> Iterator[HeldPop]:
        """Those that were woken, one after the other; they are no longer held."""
        while self._woken:
            pop = next(iter(self._woken))
            if self._holds(pop):
                self._release(pop)
                yield pop
            else:
                del self._woken[pop]

    # Other ends

    def due(self, now_ms: int) -> list[HeldPop]:
        """Those whose deadline has come."""
        late = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            pop = heapq.heappop(self._deadlines)[2]
            if self._holds(pop):
                self._release(pop)
                late.append(pop)
        return late

    def next_due_ms(self) -> int | None:
        while self._deadlines:
            until_ms, _, pop = self._deadlines[0]
            if self._holds(pop):
                return until_ms
            heapq.heappop(self._deadlines)
        return None

    def drop(self, peer: Peer) -> None:
        """A connection was lost."""
        for pop in list(self._peers.get(peer, ())):
            self._release(pop)

    def drain(self) -> list[HeldPop]:
        """All of them, for a broker that stops."""
        pops = [pop for pops in self._keys.values() for pop in pops]
        for pop in pops:
            self._release(pop)
        self._deadlines.clear()
        return pops

    # Inside

    def _wake_first(self, key: HoldKey, tags_codes: Sequence[int] | None) -> None:
        """Wake the one of a key that ends first and wants one of these records."""
        first: HeldPop | None = None
        for pop in self._keys.get(key, ()):
            codes = pop.hold.wanted.tags_codes
            if tags_codes is not None and codes is not None and codes.isdisjoint(tags_codes):
                continue
            if pop in self._woken:
                if tags_codes is not None:
                    continue
                return
            if first is None or pop.hold.until_ms < first.hold.until_ms:
                first = pop
        if first is not None:
            self._woken[first] = None

    def _holds(self, pop: HeldPop) -> bool:
        return pop in self._peers.get(pop.peer, ())

    def _release(self, pop: HeldPop) -> None:
        key, hold = pop.key, pop.hold
        del self._peers[pop.peer][pop]
        if not self._peers[pop.peer]:
            del self._peers[pop.peer]
        self._woken.pop(pop, None)
        self._count -= 1
        del self._keys[key][pop]
        if not self._keys[key]:
            del self._keys[key]
            queues = self._groups[hold.topic][hold.group]
            del queues[hold.queue_id]
            if not queues:
                del self._groups[hold.topic][hold.group]
                for name in (retry_topic_v1, retry_topic_v2):
                    self._behind.pop(name(hold.group, hold.topic), None)
            if not self._groups[hold.topic]:
                del self._groups[hold.topic]
