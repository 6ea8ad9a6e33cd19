"""Reading one queue as it grows, by pulls that wait at the broker.

                 found ──► page with records ─┐
    pull ──┬─ none match, or moved ───────────┼──► next pull from where the answer says
           └─ nothing came in time ───────────┘    (the same place)

Unlike a `SpanReader` it has no end, and it goes back when the broker says so: a topic that was
made anew begins at 0.  Nothing is committed.
"""

from __future__ import annotations

from flintmq.core.ask import refusal
from flintmq.core.conversation import Call
from flintmq.core.reading.pull_request import Pull, pull_request
from flintmq.core.reading.read_span import (
    BYTES_MAX,
    COUNT_MAX,
    EVERYTHING,
    SUSPEND_MARGIN_MS,
    Page,
    Wanted,
)
from flintmq.model.group import TOOLS_GROUP
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.protocol.codes import ResponseCode
from flintmq.protocol.command import Command
from flintmq.protocol.headers.pull import PullAnswer

SUSPEND_MS = 15_000
"""How long the broker waits for a message; what push consumers ask for."""

_FOUND = int(ResponseCode.SUCCESS)
_NOT_FOUND = int(ResponseCode.PULL_NOT_FOUND)
_MOVED = int(ResponseCode.PULL_OFFSET_MOVED)
_PULLED = (_FOUND, _NOT_FOUND, int(ResponseCode.PULL_RETRY_IMMEDIATELY), _MOVED)


class Follower:
    """Where the following of one queue stands."""

    def __init__(
        self,
        queue: QueueRef,
        address: str,
        start: QueueOffset,
        *,
        wanted: Wanted = EVERYTHING,
        group: str = TOOLS_GROUP,
        suspend_ms: int = SUSPEND_MS,
    ) -> None:
        self._queue = queue
        self._address = address
        self._at = start
        self._wanted = wanted
        self._group = group
        self._suspend_ms = suspend_ms

    @property
    def next_offset(self) -> QueueOffset:
        return self._at

    def call(self) -> Call:
        """The next pull of the queue."""
        pull = Pull(
            self._queue,
            self._at,
            self._wanted,
            COUNT_MAX,
            BYTES_MAX,
            suspend_ms=self._suspend_ms,
        )
        asked = pull_request(pull, self._group)
        return Call(self._address, asked, self._suspend_ms + SUSPEND_MARGIN_MS)

    def answered(self, reply: Command) -> Page:
        """Take an answer in: the page it brings, often an empty one."""
        if reply.code not in _PULLED:
            raise refusal(reply, self._address)
        header = reply.header(PullAnswer)
        start, leads_to = self._at, QueueOffset(max(0, header.next_begin_offset))
        if reply.code == _MOVED or leads_to > start:
            self._at = leads_to
        return Page(
            self._queue,
            start,
            max(start, self._at),
            reply.body if reply.code == _FOUND else b"",
            QueueOffset(header.min_offset),
            QueueOffset(header.max_offset),
            header.offset_delta or 0,
            (start, leads_to) if reply.code == _MOVED and leads_to > start else None,
        )
