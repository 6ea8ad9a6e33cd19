"""Reads the parts of queues that a task has from their brokers, page by page.

The next pull is in flight while a page is worked on.  A broker that returns few messages a pull
makes many small pages; they are joined, because a page costs its reader as much as some hundred
messages do.

    pull ──► response ──► next pull is sent ──► page is yielded ──► response …
      ▲                         │ connection lost
      └── waits, looks up the broker's address, and continues at the next offset, for as long as
          the connection settings say

Invariant: the pages cover the part without a hole.  Messages that the broker has deleted are in a
page with a gap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Final

from flintmq.arrow.reading.access import Access, Line, Started
from flintmq.arrow.reading.patience import Outage
from flintmq.arrow.reading.queue_source import ReadPart
from flintmq.core.admin.spans import queue_address
from flintmq.core.reading.read_span import Page, SpanReader, Wanted
from flintmq.errors import MessagesLost, NoRoute, Unreachable
from flintmq.logs import logger
from flintmq.model.queue import Span

PAGE_BYTES_MIN: Final = 256 * 1024
"""Smaller pages are joined while there is more to come."""

PARTS_AHEAD: Final = 4
"""Parts with a pull in flight, in a task that has several."""

_logger = logger(__name__)


class RemotePages:
    """Reads parts of queues from their brokers."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def pages(self, part: ReadPart, wanted: Wanted, count_max: int) -> Iterator[Page]:
        with self._access.open() as line:
            reading = _PartReading(line, part, wanted, count_max, self._access.retry_ms)
            try:
                yield from _joined(reading)
            finally:
                reading.abandon()

    def all_pages(
        self, parts: Sequence[ReadPart], wanted: Wanted, count_max: int
    ) -> Iterator[Page]:
        """The pages of all parts, one part after the other, as brokers return them."""
        left = iter(parts)
        readings: deque[_PartReading] = deque()
        with self._access.open() as line:
            try:
                while True:
                    for part in islice(left, PARTS_AHEAD - len(readings)):
                        readings.append(
                            _PartReading(line, part, wanted, count_max, self._access.retry_ms)
                        )
                    if not readings:
                        return
                    while (page := readings[0].next()) is not None:
                        yield page
                    readings.popleft()
            finally:
                for reading in readings:
                    reading.abandon()


def check_gap(
    page: Page, *, fail_on_data_loss: bool, setting: str = "failOnDataLoss=false"
) -> None:
    """Raise `MessagesLost` for a page with a gap, or log it if ``setting`` says so."""
    if page.gap is None:
        return
    lost = MessagesLost(
        str(page.queue),
        *page.gap,
        f"deleted, or never there; with {setting} they are skipped",
    )
    if fail_on_data_loss:
        raise lost
    _logger.warning("%s", lost)


class _PartReading:
    """One part, with a pull in flight."""

    def __init__(
        self, line: Line, part: ReadPart, wanted: Wanted, count_max: int, retry_ms: int
    ) -> None:
        self._line = line
        self._span = part.span
        self._wanted = wanted
        self._count_max = count_max
        self._address = part.origin
        self._reader = self._reader_from(part.span)
        self._in_flight: Started | None = None
        self._outage = Outage(f"{part.span.queue} is not read", retry_ms)
        self._failure: Unreachable | None = None
        self._start()

    def next(self) -> Page | None:
        """The page of the next response, or None at the end; the pull after it is sent then."""
        while not self._reader.is_done:
            if self._in_flight is not None:
                try:
                    reply = self._in_flight.finish()
                except Unreachable as error:
                    self._failed(error)
                else:
                    self._outage.over()
                    page = self._reader.answered(reply)
                    self._in_flight = None
                    self._start()
                    return self._with_end(page)
            self._try_again()
        return None

    def abandon(self) -> None:
        if self._in_flight is not None:
            self._in_flight.abandon()

    def _start(self) -> None:
        call = self._reader.call()
        if call is None:
            return
        try:
            self._in_flight = self._line.start(call)
        except Unreachable as error:
            self._failed(error)

    def _failed(self, error: Unreachable) -> None:
        self._in_flight = None
        self._failure = error

    def _try_again(self) -> None:
        """Wait, look up the broker again, and continue at the next offset."""
        assert self._failure is not None
        self._outage.wait(self._failure)
        with suppress(NoRoute, Unreachable):  # it may only be on its way back to where it was
            self._address = self._line.hold(queue_address(self._line.namesrv, self._span.queue))
        self._reader = self._reader_from(replace(self._span, start=self._reader.next_offset))
        self._start()

    def _reader_from(self, span: Span) -> SpanReader:
        return SpanReader(span, self._address, wanted=self._wanted, count_max=self._count_max)

    def _with_end(self, page: Page) -> Page:
        """A page with a gap where the queue ends before the part: messages were lost since."""
        if self._reader.ended_at is None:
            return page
        return replace(page, stop=self._span.stop, gap=(page.start, self._span.stop))


def _joined(reading: _PartReading) -> Iterator[Page]:
    """The pages of a part, small ones joined.  A gap stays a page of its own."""
    small: list[Page] = []
    size_bytes = 0
    while (page := reading.next()) is not None:
        if page.gap is not None or (small and page.offset_delta != small[0].offset_delta):
            yield from _join(small)
            small, size_bytes = [], 0
        if page.gap is not None:
            yield page
            continue
        small.append(page)
        size_bytes += len(page.records)
        if size_bytes >= PAGE_BYTES_MIN:
            yield from _join(small)
            small, size_bytes = [], 0
    yield from _join(small)


def _join(pages: list[Page]) -> Iterator[Page]:
    if len(pages) == 1:
        yield pages[0]
    elif pages:
        yield replace(pages[-1], start=pages[0].start, records=b"".join(p.records for p in pages))
