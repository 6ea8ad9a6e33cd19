"""The three texts of an answer to POP_MESSAGE (200050) that list offsets.

Entries are joined by ``;``, the three parts of an entry by one space: the mark of the topic
(see `retry_topics`), the queue, and what is told of it.

    startOffsetInfo   ``0 1 0;0 0 4``            where the read of a queue began
    msgOffsetInfo     ``0 1 0,1;0 0 4,5,6``      the offsets that were found there
    orderCountInfo    ``0 qo0%2 1;0 0 0``        how often an offset was delivered before; then,
                                                 for the queue, the smallest of these

Invariant: what is written here is read here, to the same values.  Text that cannot be meant
is a `MalformedHeader`: a second entry for one queue, too few parts, no numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from flintmq.errors import MalformedHeader
from flintmq.model.queue import QueueOffset

ENTRY_SEPARATOR: Final = ";"
PART_SEPARATOR: Final = " "
OFFSET_SEPARATOR: Final = ","

_NUMBER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_OFFSET_KEY = re.compile(r"qo([0-9]{1,10})%([0-9]{1,19})", re.ASCII)

T = TypeVar("T")


class MarkedQueue(NamedTuple):
    """A queue of the popped topic or of one of its retry topics, which ``mark`` tells."""

    mark: str
    queue_id: int


class OrderCounts(NamedTuple):
    """How often messages of an ordered pop were delivered before."""

    of_offset: Mapping[tuple[MarkedQueue, int], int]
    of_queue: Mapping[MarkedQueue, int]

    def times(self, queue: MarkedQueue, offset: int) -> int:
        """Of one message; what is told of its queue counts where nothing is told of itself."""
        count = self.of_offset.get((queue, offset))
        return self.of_queue.get(queue, 0) if count is None else count


def parse_start_offsets(text: str | None) -> dict[MarkedQueue, QueueOffset]:
    """Read ``startOffsetInfo``."""
    field = "startOffsetInfo"
    return _by_queue(text, field, lambda part: QueueOffset(_number(part, field)))


def parse_message_offsets(text: str | None) -> dict[MarkedQueue, tuple[QueueOffset, ...]]:
    """Read ``msgOffsetInfo``."""
    field = "msgOffsetInfo"
    return _by_queue(
        text,
        field,
        lambda part: tuple(
            QueueOffset(_number(each, field)) for each in part.split(OFFSET_SEPARATOR)
        ),
    )


def parse_order_counts(text: str | None) -> OrderCounts:
    """Read ``orderCountInfo``."""
    field = "orderCountInfo"
    of_offset: dict[tuple[MarkedQueue, int], int] = {}
    of_queue: dict[MarkedQueue, int] = {}
    for mark, place, count in _entries(text, field):
        match = _OFFSET_KEY.fullmatch(place)
        if match is None:
            of_queue[MarkedQueue(mark, _number(place, field))] = _number(count, field)
        else:
            key = MarkedQueue(mark, int(match[1])), int(match[2])
            of_offset[key] = _number(count, field)
    return OrderCounts(of_offset, of_queue)


def start_offset_entry(queue: MarkedQueue, offset: int) -> str:
    return f"{queue.mark} {queue.queue_id} {offset}"


def message_offsets_entry(queue: MarkedQueue, offsets: Iterable[int]) -> str:
    return f"{queue.mark} {queue.queue_id} {OFFSET_SEPARATOR.join(map(str, offsets))}"


def order_count_entries(
    queue: MarkedQueue, offsets: Iterable[int], counts: Mapping[int, int]
) -> str:
    """The entries of one queue; ``counts`` has the offsets that were delivered before."""
    offsets = list(offsets)
    entries = [
        f"{queue.mark} qo{queue.queue_id}%{offset} {counts[offset]}"
        for offset in offsets
        if offset in counts
    ]
    least = min((counts.get(offset, 0) for offset in offsets), default=0)
    return ENTRY_SEPARATOR.join([*entries, f"{queue.mark} {queue.queue_id} {least}"])


def _by_queue(text: str | None, field: str, read: Callable[[str], T]) -> dict[MarkedQueue, T]:
    table: dict[MarkedQueue, T] = {}
    for mark, queue_id, rest in _entries(text, field):
        queue = MarkedQueue(mark, _number(queue_id, field))
        if queue in table:
            raise MalformedHeader(field, f"two entries for queue {queue_id} with the mark {mark}")
        table[queue] = read(rest)
    return table


def _entries(text: str | None, field: str) -> Iterable[tuple[str, str, str]]:
    if not text:
        return
    for entry in text.split(ENTRY_SEPARATOR):
        parts = entry.split(PART_SEPARATOR)
        if len(parts) != 3:
            raise MalformedHeader(field, f"{entry!r:.80} has {len(parts)} parts, not 3")
        yield parts[0], parts[1], parts[2]


def _number(text: str, field: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise MalformedHeader(field, f"{text!r:.40} is no number")
    return int(text)
