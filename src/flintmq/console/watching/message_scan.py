"""Messages for a table: a bounded reading of a topic, newest first or from a place on.

    newest          the last messages of every queue
    from a place    the first messages from an offset or a time on

A filter may fit few messages, so a scan ends after `SCANNED_MAX` messages and says how many there
were in all.  Bodies are cut as they come: a table never holds whole ones.

Invariant: a scan reads at most `SCANNED_MAX` messages, of at most `QUEUES_MAX` queues.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from flintmq.client.admin_aio import Admin
from flintmq.console.watching.cluster_view import side_by_side
from flintmq.core.admin.spans import END, START, LocatedSpan, Target, ToOffset
from flintmq.core.reading.read_span import EVERYTHING, SpanReader, Wanted
from flintmq.errors import FlintError, NoRoute
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset, Span

ROWS_MAX: Final = 50
"""Messages of one table."""

SCANNED_MAX: Final = 10_000
"""Messages that one scan reads: some seconds of work for a broker."""

QUEUES_MAX: Final = 256
"""Queues of one scan; with more of them one is chosen first."""

START_CHARS: Final = 120
"""Of a body, in a table."""


class MessageRow(NamedTuple):
    """A message in a table; ``fault`` says why its body cannot be decoded."""

    topic: str
    broker: str
    queue_id: int
    offset: int
    store_ms: int
    message_id: str
    tags: str | None
    keys: str
    size_bytes: int
    start: str
    fault: str = ""

    @classmethod
    def of(cls, message: ReceivedMessage, fault: str = "") -> MessageRow:
        start = message.body[: 4 * START_CHARS].decode(errors="backslashreplace")[:START_CHARS]
        return cls(
            message.topic,
            message.broker,
            message.queue_id,
            message.queue_offset,
            message.store_ms,
            message.message_id,
            message.tags,
            " ".join(message.keys),
            len(message.body),
            start,
            fault,
        )


@dataclass(frozen=True, slots=True)
class MessageScan:
    """What to look for.  ``place`` is None for the newest; ``text`` is a part of the body."""

    topic: str
    place: Target | None = None
    wanted: Wanted = EVERYTHING
    text: str = ""
    broker: str | None = None
    queue_id: int | None = None

    @property
    def is_filtered(self) -> bool:
        return bool(self.text) or not self.wanted.takes_all


@dataclass(frozen=True, slots=True)
class Scanned:
    """Rows, how many messages were read for them, and how many the queues have from there on."""

    rows: list[MessageRow]
    read: int
    total: int
    is_cut: bool
    """Whether messages were left unread that might fit."""


async def scan(admin: Admin, wish: MessageScan) -> Scanned:
    """Read what a table needs, the queues side by side; newest first, or oldest first."""
    spans = await admin.locate_spans(
        wish.topic, wish.place or START, END, broker=wish.broker, queue_id=wish.queue_id
    )
    if len(spans) > QUEUES_MAX:
        raise NoRoute(wish.topic, f"it has {len(spans)} queues: choose a broker or a queue")
    total = sum(each.span.stop - each.span.start for each in spans)
    budget = max(ROWS_MAX, SCANNED_MAX // max(1, len(spans)))
    if wish.place is None:
        spans = tuple(_last(each, budget if wish.is_filtered else ROWS_MAX) for each in spans)
    found = await side_by_side(_read(admin, each, wish, budget) for each in spans)
    rows: list[MessageRow] = []
    read = 0
    for part in found:
        if isinstance(part, FlintError):
            raise part
        rows += part[0]
        read += part[1]
    newest_first = wish.place is None
    rows.sort(key=lambda row: (row.store_ms, row.offset), reverse=newest_first)
    is_cut = len(rows) > ROWS_MAX or read < total
    return Scanned(rows[:ROWS_MAX], read, total, is_cut)


async def _read(
    admin: Admin, located: LocatedSpan, wish: MessageScan, budget: int
) -> tuple[list[MessageRow], int]:
    """The first rows of a span that fit, or the last ones for the newest."""
    reader = SpanReader(located.span, located.address, wanted=wish.wanted)
    start, needle = located.span.start, wish.text.encode()
    rows: list[MessageRow] = []
    faults: dict[int, str] = {}
    while reader.next_offset - start < budget and (call := reader.call()) is not None:
        page = reader.answered(await admin.make(call))
        faults.clear()
        shown = page.shown(wish.wanted, lambda bad: faults.update({bad.queue_offset: bad.reason}))
        rows += [
            MessageRow.of(each, faults.get(each.queue_offset, ""))
            for each in shown
            if needle in each.body
        ]
        if wish.place is None:
            rows = rows[-ROWS_MAX:]
        elif len(rows) >= ROWS_MAX:
            break
    return rows[:ROWS_MAX], reader.next_offset - start


def _last(located: LocatedSpan, count: int) -> LocatedSpan:
    span = located.span
    start = QueueOffset(max(span.start, span.stop - count))
    return LocatedSpan(Span(span.queue, start, span.stop), located.address)


async def message_in(
    admin: Admin, topic: str, broker: str, queue_id: int, offset: int
) -> tuple[ReceivedMessage, str]:
    """One message by its place, and why its body cannot be decoded, if it cannot."""
    place = ToOffset(QueueOffset(offset))
    faults: list[str] = []
    spans = await admin.locate_spans(topic, place, END, broker=broker, queue_id=queue_id)
    for each in spans:
        if each.span.start != offset or each.span.stop == offset:
            break
        span = Span(each.span.queue, QueueOffset(offset), QueueOffset(offset + 1))
        located = LocatedSpan(span, each.address)
        async for message in admin.read(located, on_bad=lambda bad: faults.append(bad.reason)):
            return message, faults[0] if faults else ""
    raise NoRoute(topic, f"no message is at offset {offset} of queue {queue_id} on {broker}")
