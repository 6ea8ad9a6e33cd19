"""Reading a part of one queue, ``[start, stop)``, with as few pulls as the broker allows.

A `SpanReader` is asked for the next `Call`, makes a `Page` of its answer, and so on until there
is no next call.  It knows where to go on as soon as an answer is there and before its records
are decoded, so a driver may have the next pull under way meanwhile.

                 found ──► page with records ──┐
    pull ──┬─ none match ──► empty page ───────┼──► next pull from where the answer says,
           ├─ moved on ────► page with a gap ──┘    until `stop`
           ├─ nothing there, or the queue is shorter ──► ended
           └─ anything else is `BrokerRefused`

Nothing is committed, no group is made known, nothing is waited for.

Invariant: offsets only grow.  A message comes at most once, and every offset of the span was
given, filtered out, or is in a gap, or lies behind ``ended_at``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeAlias

from flintmq.core.ask import refusal
from flintmq.core.bad_record_rule import broken_frame
from flintmq.core.conversation import Call, Conversation
from flintmq.core.reading.pull_request import PULL_MS, Pull, pull_request
from flintmq.errors import InvalidExpression, MalformedRecord, RemoteProtocolError
from flintmq.filter.sql_eval import compile_sql
from flintmq.filter.tags import ALL, TagSubscription, parse_tags
from flintmq.model.bad_record import BadRecord
from flintmq.model.group import TOOLS_GROUP
from flintmq.model.message import ReceivedMessage
from flintmq.model.queue import QueueOffset, QueueRef, Span
from flintmq.protocol.bodies.client import SQL92, TAG
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.command import Command
from flintmq.protocol.headers.pull import PullAnswer
from flintmq.protocol.records.received import Received, decode_messages
from flintmq.protocol.records.sift import as_stored

SUSPEND_MARGIN_MS = 10_000
"""A pull that waits is given so much longer than it asks the broker to wait."""

COUNT_MAX = 1_024
"""Messages asked for at once.  RocketMQ gives 32 unless it is set otherwise."""

BYTES_MAX = 1024 * 1024
"""Bytes asked for at once; a broker that sees this may give more than 32 messages.

Much more leaves the caches of a processor before it is worked on, which takes twice the time."""

STANDSTILLS_MAX = 3
"""Answers in a row that lead nowhere, before the broker is not believed any more."""

_offset_of = attrgetter("queue_offset")

_FOUND = int(ResponseCode.SUCCESS)
_NOT_FOUND = int(ResponseCode.PULL_NOT_FOUND)
_NONE_MATCHED = int(ResponseCode.PULL_RETRY_IMMEDIATELY)
_MOVED = int(ResponseCode.PULL_OFFSET_MOVED)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which messages: by tags, by SQL, or all.  The broker filters, tags are compared again."""

    expression_type: str = TAG
    text: str = ALL

    @classmethod
    def by(cls, *, tags: str | None = None, sql: str | None = None) -> Wanted:
        """Check an expression; `InvalidExpression` when no broker would take it."""
        if sql is not None:
            if tags is not None:
                raise InvalidExpression(sql, 1, "give tags or SQL, not both")
            compile_sql(sql)
            return cls(SQL92, sql)
        parse_tags(tags)
        return cls(TAG, tags or ALL)

    @property
    def takes_all(self) -> bool:
        return self.expression_type == TAG and self.text == ALL

    def tag_test(self) -> TagSubscription | None:
        return None if self.expression_type != TAG or self.takes_all else parse_tags(self.text)


EVERYTHING = Wanted()


OnBad: TypeAlias = Callable[[BadRecord], object]
"""Is called with every record that cannot be decoded."""


def ignore(_bad: BadRecord) -> None:
    """For those whom the record itself tells enough: its flag still says that it is packed."""


@dataclass(frozen=True, slots=True)
class Page:
    """The answer to one pull of a span.

    ``records`` are as the broker sent them and may reach beyond ``stop``.  ``gap`` is what
    the broker no longer has, as ``(start, stop)``.
    """

    queue: QueueRef
    start: QueueOffset
    stop: QueueOffset
    records: bytes
    min_offset: QueueOffset
    max_offset: QueueOffset
    offset_delta: int = 0
    gap: tuple[QueueOffset, QueueOffset] | None = None

    def received(self, wanted: Wanted = EVERYTHING) -> Received:
        """What lies in the page: messages that fit, bad records, and a broken frame, if any."""
        whole = self._decoded()
        bad = [one for one in whole.bad if self.start <= one.queue_offset < self.stop]
        return Received(self._inside(whole.messages, wanted), whole.fault, bad)

    def shown(self, wanted: Wanted = EVERYTHING, on_bad: OnBad = ignore) -> list[ReceivedMessage]:
        """For people: also what cannot be decoded, as it is stored, and ``on_bad`` is called.

        Behind a broken frame nothing of the page can be shown; ``on_bad`` is told where that is.
        """
        received = self.received(wanted)
        messages = received.messages
        if received.bad:
            stored = self._inside(list(map(as_stored, received.bad)), wanted)
            messages = sorted((*messages, *stored), key=attrgetter("queue_offset"))
            for one in received.bad:
                on_bad(one)
        if received.fault is not None:
            last = messages[-1].queue_offset + 1 if messages else self.start
            on_bad(broken_frame(self.queue, QueueOffset(last), received.fault.reason))
        return messages

    def messages(self, wanted: Wanted = EVERYTHING) -> list[ReceivedMessage]:
        """The messages of the page that lie in it, in order.

        Raises `MalformedRecord` where a record cannot be decoded.
        """
        whole = self._decoded()
        if whole.bad:
            first = whole.bad[0]
            raise MalformedRecord(self.records.find(first.raw), first.reason)
        if whole.fault is not None:
            raise whole.fault
        return self._inside(whole.messages, wanted)

    def _decoded(self) -> Received:
        if not self.records:
            return Received([])
        return decode_messages(
            self.records,
            broker=self.queue.broker,
            queue_id=self.queue.queue_id,
            min_offset=self.min_offset,
            max_offset=self.max_offset,
            offset_delta=self.offset_delta,
        )

    def _inside(self, messages: list[ReceivedMessage], wanted: Wanted) -> list[ReceivedMessage]:
        tags = wanted.tag_test()
        if tags is None and messages:
            offsets = list(map(_offset_of, messages))
            if self.start <= min(offsets) and max(offsets) < self.stop:
                return messages  # as nearly always
        return [
            message
            for message in messages
            if self.start <= message.queue_offset < self.stop
            and (tags is None or tags.matches_tag(message.tags))
        ]


class SpanReader:
    """The state of one reading: where it stands, and what it has to do next."""

    def __init__(
        self,
        span: Span,
        address: str,
        *,
        wanted: Wanted = EVERYTHING,
        group: str = TOOLS_GROUP,
        count_max: int = COUNT_MAX,
        timeout_ms: int = PULL_MS,
    ) -> None:
        if count_max < 1:
            raise ValueError(f"count_max must be 1 or more, not {count_max}")
        self._span = span
        self._address = address
        self._wanted = wanted
        self._group = group
        self._count_max = count_max
        self._timeout_ms = timeout_ms
        self._at = span.start
        self._standstills = 0
        self.ended_at: QueueOffset | None = None
        """Where the queue turned out to end, when that is before the span does."""

    @property
    def next_offset(self) -> QueueOffset:
        return self._at

    @property
    def is_done(self) -> bool:
        return self._at >= self._span.stop or self.ended_at is not None

    def call(self) -> Call | None:
        """The next pull, or None when the span is read."""
        if self.is_done:
            return None
        count = self._span.stop - self._at if self._wanted.takes_all else self._count_max
        count = min(count, self._count_max)
        pull = Pull(self._span.queue, self._at, self._wanted, count, BYTES_MAX)
        return Call(self._address, pull_request(pull, self._group), self._timeout_ms)

    def answered(self, reply: Command) -> Page:
        """Take an answer in: the page it brings.  `call` then gives what comes next."""
        if reply.code not in (_FOUND, _NOT_FOUND, _NONE_MATCHED, _MOVED):
            raise refusal(reply, self._address)
        header = reply.header(PullAnswer)
        start, leads_to = self._at, QueueOffset(header.next_begin_offset)
        stop, gap = leads_to, None
        if reply.code in (_NOT_FOUND, _MOVED) and leads_to <= start:
            self.ended_at = QueueOffset(min(start, header.max_offset))
            stop = start
        elif reply.code in (_NOT_FOUND, _MOVED):
            gap = (start, min(leads_to, self._span.stop))
        elif leads_to <= start:
            self._stand_still(leads_to)
            stop = start
        if stop > start:
            self._standstills = 0
            stop = min(stop, self._span.stop)
            self._at = stop
        return Page(
            self._span.queue,
            start,
            stop,
            reply.body if reply.code == _FOUND and stop > start else b"",
            QueueOffset(header.min_offset),
            QueueOffset(header.max_offset),
            header.offset_delta or 0,
            gap,
        )

    def _stand_still(self, leads_to: QueueOffset) -> None:
        self._standstills += 1
        if self._standstills >= STANDSTILLS_MAX:
            raise RemoteProtocolError(
                f"{self._address} leads from offset {self._at} of {self._span.queue} "
                f"to {leads_to}, again and again"
            )


def read_messages(
    reader: SpanReader, wanted: Wanted = EVERYTHING, *, count_max: int, on_bad: OnBad = ignore
) -> Conversation[list[ReceivedMessage]]:
    """The first messages of a span, at most ``count_max``, for people: see `Page.shown`."""
    found: list[ReceivedMessage] = []
    while len(found) < count_max and (call := reader.call()) is not None:
        reply = yield call
        found += reader.answered(reply).shown(wanted, on_bad)
    return found[:count_max]
