"""Messages that leave together: which may, how many, and when.

    put ─► waits with others of its topic ─► one request for all that wait
                          ▲                          │
                          └── two are under way ◄────┘

Nothing waits for a clock.  A message leaves at once while its topic has room under way, and what
comes meanwhile leaves together with the next room: the busier a topic, the larger its requests.
A batch is stored whole or not at all, in one queue, and brokers take no delays in it.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Generic, TypeVar

from flintmq.core.producer.send_draft import DraftRules
from flintmq.model.group import is_retry_topic
from flintmq.model.message import Message

UNDER_WAY_MAX: Final = 2
"""Requests of a topic: one that the broker works on, and one that is on its way there."""

GATHERED_MAX: Final = 256
GATHERED_BYTES_MAX: Final = 128 * 1024
"""In one request.  It fails as a whole, so it should not be too much."""

_ENTRY_BYTES = 160  # sizes, flag, checksum, and the properties that every message has
_UTF8_BYTES_MAX = 4

Item = TypeVar("Item")
Lane = tuple[str, bool]
"""Topic, and whether the broker is to wait until its messages are safe."""


def gathered_bytes(message: Message, rules: DraftRules) -> int | None:
    """At most how much a message takes of a shared request; None when it has to go alone.

    Large ones do: they are packed then, and there is little to gain.
    """
    body_bytes, tags = len(message.body), message.tags
    if (
        not 0 < body_bytes < rules.compress_from_bytes
        or message.delay_level
        or message.delay_ms is not None
        or message.deliver_at_ms is not None
        or is_retry_topic(message.topic)
    ):
        return None
    letters = len(rules.instance_id)
    if tags is not None:
        letters += len(tags)
    if message.keys or message.properties:
        letters += sum(map(len, message.keys)) + len(message.keys)
        letters += sum(map(len, message.properties)) + 2 * len(message.properties)
        letters += sum(map(len, message.properties.values()))
    size_bytes = _ENTRY_BYTES + body_bytes + _UTF8_BYTES_MAX * letters
    if size_bytes > GATHERED_BYTES_MAX or size_bytes > rules.batch_bytes_max:
        return None
    return size_bytes


class Gathering(Generic[Item]):
    """What waits and what is under way, topic by topic."""

    def __init__(self, rules: DraftRules) -> None:
        self._bytes_max = min(GATHERED_BYTES_MAX, rules.batch_bytes_max)
        self._waiting: dict[Lane, tuple[deque[int], deque[Item]]] = {}
        self._under_way: dict[Lane, int] = {}

    def add(self, message: Message, size_bytes: int, item: Item) -> None:
        """Let a message wait; ``size_bytes`` is what `gathered_bytes` said of it."""
        lane = (message.topic, message.wait_stored)
        waiting = self._waiting.get(lane)
        if waiting is None:
            waiting = self._waiting[lane] = deque(), deque()
        sizes, items = waiting
        sizes.append(size_bytes)
        items.append(item)

    def next_groups(self) -> list[tuple[Lane, list[Item]]]:
        """What may leave now, in the order it came; each group is one request, to be `ended`."""
        groups: list[tuple[Lane, list[Item]]] = []
        for lane in list(self._waiting):
            sizes, items = self._waiting[lane]
            while items and self._under_way.get(lane, 0) < UNDER_WAY_MAX:
                self._under_way[lane] = self._under_way.get(lane, 0) + 1
                groups.append((lane, self._group(sizes, items)))
            if not items:
                del self._waiting[lane]
        return groups

    def ended(self, lane: Lane) -> None:
        """A request came to its end, whichever."""
        left = self._under_way[lane] - 1
        if left:
            self._under_way[lane] = left
        else:
            del self._under_way[lane]

    def _group(self, sizes: deque[int], items: deque[Item]) -> list[Item]:
        count, room_bytes = 0, self._bytes_max
        while sizes and count < GATHERED_MAX and sizes[0] <= room_bytes:
            room_bytes -= sizes.popleft()
            count += 1
        return [items.popleft() for _ in range(count)]
