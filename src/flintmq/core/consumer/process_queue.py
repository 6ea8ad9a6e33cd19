"""The messages of one queue that were pulled and are not settled yet.

Offsets arrive in order and leave in any order.  The lowest one that is left is how far the
queue is done: nothing at or above it may be committed.

    put ──► cached ──remove──► settled                  concurrent: any message, any time
              │ take                                     ordered: the first ones, together
              ▼
            taken ──commit──► settled
              └────roll_back──► cached, in front

An offset without a message may be held too, until its record is stored elsewhere: it counts as
cached for limits and commits, and no listener gets it.

A dict by offset and a deque in order stand in for a sorted tree: a settled offset stays in the
deque until it comes to the front.

Invariant: ``_order`` ascends, and holds every cached offset that is not taken; ``count`` and
``size_bytes`` are those of cached and taken messages together, held offsets counted as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice, repeat
from operator import itemgetter, lt

from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset

_offset_of = itemgetter(ReceivedMessage._fields.index("queue_offset"))
_body_of = itemgetter(ReceivedMessage._fields.index("body"))


class ProcessQueue:
    """The cached messages of one queue."""

    __slots__ = ("_cached", "_held", "_order", "_taken", "highest", "size_bytes")

    def __init__(self) -> None:
        self._cached: dict[QueueOffset, ReceivedMessage] = {}
        self._order: deque[QueueOffset] = deque()
        self._taken: list[ReceivedMessage] = []
        self._held: set[QueueOffset] = set()
        self.highest: QueueOffset | None = None
        """The last offset that was ever put, settled or not."""
        self.size_bytes = 0
        """Of all bodies, as RocketMQ counts."""

    def __repr__(self) -> str:
        return f"<ProcessQueue of {self.count} messages, {self.size_bytes} bytes>"

    def __contains__(self, offset: QueueOffset) -> bool:
        return offset in self._cached

    @property
    def count(self) -> int:
        return len(self._cached) + len(self._held)

    @property
    def taken(self) -> Sequence[ReceivedMessage]:
        """The messages that an ordered listener has."""
        return self._taken

    @property
    def has_untaken(self) -> bool:
        return len(self._cached) > len(self._taken)

    @property
    def lowest(self) -> QueueOffset | None:
        """The first offset that is not settled."""
        lowest = self._lowest_cached()
        if not self._held:
            return lowest
        held = min(self._held)
        return held if lowest is None else min(lowest, held)

    def _lowest_cached(self) -> QueueOffset | None:
        order, cached = self._order, self._cached
        if self._taken:
            first = self._taken[0].queue_offset
            return min(first, order[0]) if order else first
        if not cached:
            order.clear()
            return None
        while order[0] not in cached:
            order.popleft()
        return order[0]

    @property
    def span(self) -> int:
        """How far apart the first and the last cached offsets are."""
        lowest = self.lowest
        return 0 if lowest is None or self.highest is None else self.highest - lowest

    @property
    def settled_to(self) -> QueueOffset | None:
        """The offset to commit: everything before it is settled.  None if nothing was ever put."""
        if self._cached or self._held:
            return self.lowest
        return None if self.highest is None else QueueOffset(self.highest + 1)

    def put_messages(self, messages: Sequence[ReceivedMessage]) -> Sequence[ReceivedMessage]:
        """Cache what is not cached yet; give it back in order."""
        if not messages:
            return messages
        offsets: list[QueueOffset] = list(map(_offset_of, messages))
        if self.highest is not None and offsets[0] <= self.highest:
            return self._put_late(messages)
        if not all(map(lt, offsets, islice(offsets, 1, None))):
            return self._put_late(messages)
        self._cached.update(zip(offsets, messages, strict=True))
        self._order.extend(offsets)
        self.highest = offsets[-1]
        self.size_bytes += sum(map(len, map(_body_of, messages)))
        return messages

    def _put_late(self, messages: Sequence[ReceivedMessage]) -> list[ReceivedMessage]:
        """Messages out of order, twice, or before others: the order is made anew."""
        cached = self._cached
        new = {m.queue_offset: m for m in messages if m.queue_offset not in cached}
        cached.update(new)
        taken = {message.queue_offset for message in self._taken}
        self._order = deque(sorted(cached.keys() - taken))
        self.size_bytes += sum(len(message.body) for message in new.values())
        if new:
            last = max(new)
            self.highest = last if self.highest is None else max(self.highest, last)
        return [new[offset] for offset in sorted(new)]

    def remove(self, messages: Iterable[ReceivedMessage]) -> None:
        """These are settled.  Those that are not cached any more are passed over."""
        found = map(self._cached.pop, map(_offset_of, messages), repeat(None))
        self.size_bytes -= sum(map(len, map(_body_of, filter(None, found))))

    # Offsets without a message

    def pass_over(self, offset: QueueOffset) -> None:
        """There is nothing to do for this offset: it is settled."""
        if self.highest is None or offset > self.highest:
            self.highest = offset

    def hold(self, offset: QueueOffset) -> None:
        """Commit nothing from this offset on until it is released."""
        self.pass_over(offset)
        self._held.add(offset)

    def release(self, offset: QueueOffset) -> None:
        self._held.discard(offset)

    # Ordered consumption

    def take_messages(self, count_max: int) -> tuple[ReceivedMessage, ...]:
        """The first messages, for a listener that has none."""
        assert not self._taken, "taken twice"
        order, cached = self._order, self._cached
        taken: list[ReceivedMessage] = []
        while order and len(taken) < count_max:
            message = cached.get(order.popleft())
            if message is not None:
                taken.append(message)
        self._taken = taken
        return tuple(taken)

    def commit(self, count: int | None = None) -> None:
        """The first ``count`` of those taken are settled; all of them without a number."""
        done = self._taken if count is None else self._taken[:count]
        self._taken = [] if count is None else self._taken[count:]
        self.remove(done)

    def roll_back(self, changed: Sequence[ReceivedMessage] = ()) -> None:
        """Put the taken messages back to the front; ``changed`` has newer forms of some."""
        self._order.extendleft(message.queue_offset for message in reversed(self._taken))
        self._taken = []
        for message in changed:
            assert message.queue_offset in self._cached
            self._cached[message.queue_offset] = message

    def clear(self) -> None:
        """Forget everything; ``highest`` too."""
        self._cached.clear()
        self._order.clear()
        self._taken = []
        self._held.clear()
        self.highest = None
        self.size_bytes = 0
