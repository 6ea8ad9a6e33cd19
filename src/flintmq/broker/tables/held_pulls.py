"""Pulls that wait for a message: long polling.

    add ──► held ─┬─ a wanted message arrived ──────────────────► grown
                  ├─ only unwanted ones did, and the sweep came ─► sweep
                  ├─ the deadline came, or its group was moved ──► due
                  ├─ the connection is lost ────────────────────► drop, without an answer
                  └─ the broker stops ──────────────────────────► drain

Whoever takes a pull out runs it once more and answers whatever comes out.  A pull that waits
costs nothing: arrivals find it by its queue, the sweep looks only at those that an arrival
passed by, and the next deadline is on top of a heap.

Invariant: a pull is in ``_queues`` and in ``_peers``, or it is not held.  ``_passed`` holds
none that is not.  The heap may have more entries than that, but not many more.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from flintmq.broker.requests.outcome import Hold
from flintmq.broker.requests.peer import Peer
from flintmq.model.queue import QueueOffset
from flintmq.protocol.typed_request import TypedRequest
from flintmq.store.message_log import MessageLog
from flintmq.store.queues.dispatch import Grown
from flintmq.store.queues.queue_reader import GetStatus
from flintmq.store.queues.selection import Selection

K = TypeVar("K")

AT_ONCE = 0
"""A deadline that has come whatever the time is."""

STALE_MAX = 1_024
"""Entries of the heap beyond twice the number of pulls before it is cleaned."""


class HeldPull(msgspec.Struct, gc=False, eq=False):
    """A request that waits.  Compared by identity."""

    request: TypedRequest[Any]
    peer: Peer
    hold: Hold

    @property
    def queue(self) -> tuple[str, int]:
        return self.hold.topic, self.hold.queue_id

    @property
    def characters(self) -> int:
        """Characters of the subscription that the pull brought."""
        return len(getattr(self.request.header, "subscription", None) or "")


_Pulls: TypeAlias = dict[HeldPull, None]
"""A set that keeps the order in which they came."""


class HeldPulls:
    """All pulls that are held."""

    def __init__(self, log: MessageLog) -> None:
        self._log = log
        self._queues: dict[tuple[str, int], _Pulls] = {}
        self._peers: dict[Peer, _Pulls] = {}
        self._passed: _Pulls = {}
        self._deadlines: list[tuple[int, int, HeldPull]] = []
        self._serial = 0
        self._count = 0
        self.characters = 0
        """Characters of all subscriptions that pulls brought."""

    def __len__(self) -> int:
        return self._count

    def count_of(self, peer: Peer) -> int:
        """How many of them one connection has."""
        return len(self._peers.get(peer, ()))

    def add(self, pull: HeldPull) -> None:
        """Hold a pull until something takes it out."""
        hold = pull.hold
        self._queues.setdefault(pull.queue, {})[pull] = None
        self._peers.setdefault(pull.peer, {})[pull] = None
        self._count += 1
        self.characters += pull.characters
        self._serial += 1
        heapq.heappush(self._deadlines, (hold.until_ms, self._serial, pull))
        if len(self._deadlines) > 2 * self._count + STALE_MAX:
            self._deadlines = [entry for entry in self._deadlines if self._holds(entry[2])]
            heapq.heapify(self._deadlines)
        if self._log.max_offset(hold.topic, hold.queue_id) > hold.offset:
            self._passed[pull] = None

    # What takes a pull out

    def grown(self, grown: Sequence[Grown]) -> list[HeldPull]:
        """Those that a turn's records wake; they are no longer held."""
        woken: list[HeldPull] = []
        queues = self._queues
        for each in grown:
            pulls = queues.get((each.topic, each.queue_id))
            if pulls:
                woken += self._wake(pulls, each)
        return woken

    def due(self, now_ms: int) -> list[HeldPull]:
        """Those whose deadline has come."""
        late = []
        deadlines = self._deadlines
        while deadlines and deadlines[0][0] <= now_ms:
            pull = heapq.heappop(deadlines)[2]
            if self._holds(pull):
                self._release(pull)
                late.append(pull)
        return late

    def hurry(self, group: str, topic: str, queue_id: int) -> None:
        """A group was moved in a queue: its pulls there have waited long enough."""
        for pull in self._queues.get((topic, queue_id), ()):
            if pull.request.header.consumer_group == group:
                self._serial += 1
                heapq.heappush(self._deadlines, (AT_ONCE, self._serial, pull))

    def sweep(self) -> list[HeldPull]:
        """Those whose queue has grown past them, matched or not."""
        passed = list(self._passed)
        for pull in passed:
            self._release(pull)
        return passed

    def drop(self, peer: Peer) -> None:
        """A connection was lost: nobody waits any more."""
        for pull in list(self._peers.get(peer, ())):
            self._release(pull)

    def drain(self) -> list[HeldPull]:
        """All of them, for a broker that stops."""
        pulls = [pull for pulls in self._queues.values() for pull in pulls]
        for pull in pulls:
            self._release(pull)
        self._deadlines.clear()
        return pulls

    # The clock

    def next_due_ms(self) -> int | None:
        """The next deadline."""
        deadlines = self._deadlines
        while deadlines:
            until_ms, _, pull = deadlines[0]
            if self._holds(pull):
                return until_ms
            heapq.heappop(deadlines)
        return None

    # Inside

    def _wake(self, pulls: _Pulls, grown: Grown) -> list[HeldPull]:
        woken = []
        read: dict[int, bool] = {}  # what the records said, by selection
        for pull in list(pulls):
            hold = pull.hold
            if hold.offset >= grown.stop:
                continue
            codes = hold.wanted.tags_codes
            start = max(grown.start, hold.offset)
            skipped = 0 if grown.is_batched else start - grown.start
            if codes is not None and codes.isdisjoint(grown.tags_codes[skipped:]):
                wakes = False
            elif hold.wanted.record is None:
                wakes = True
            elif start > grown.start:
                wakes = self._has_wanted(grown, start, hold.wanted)
            else:
                key = id(hold.wanted)  # its pull keeps it alive
                if key not in read:
                    read[key] = self._has_wanted(grown, start, hold.wanted)
                wakes = read[key]
            if wakes:
                self._release(pull)
                woken.append(pull)
            else:
                self._passed[pull] = None
        return woken

    def _has_wanted(self, grown: Grown, start: QueueOffset, wanted: Selection) -> bool:
        """Whether one of the new records is wanted; they have to be read for that."""
        while start < grown.stop:
            result = self._log.read(grown.topic, grown.queue_id, start, 1, wanted=wanted)
            if result.status is GetStatus.FOUND:
                return True
            if result.next_offset <= start:
                return False
            start = result.next_offset
        return False

    def _holds(self, pull: HeldPull) -> bool:
        return pull in self._peers.get(pull.peer, ())

    def _release(self, pull: HeldPull) -> None:
        _remove(self._queues, pull.queue, pull)
        _remove(self._peers, pull.peer, pull)
        self._passed.pop(pull, None)
        self._count -= 1
        self.characters -= pull.characters


def _remove(table: dict[K, _Pulls], key: K, pull: HeldPull) -> None:
    pulls = table[key]
    del pulls[pull]
    if not pulls:
        del table[key]
