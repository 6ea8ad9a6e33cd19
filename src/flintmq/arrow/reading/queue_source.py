"""The interfaces of what a source reads: a cluster, or a store directory.

Both implement the same methods, so that the code that plans micro-batches does not depend on
which of them it reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from flintmq.core.reading.read_span import Page, Wanted
from flintmq.errors import FlintError
from flintmq.model.queue import Extent, QueueOffset, QueueRef, Span


@dataclass(frozen=True, slots=True)
class QueueSurvey:
    """Where queues begin and end, and the brokers that did not answer, with their errors."""

    extents: Mapping[QueueRef, Extent]
    silent: Mapping[str, FlintError]


class QueueSource(Protocol):
    """The queues of a cluster or of a store directory, as the driver sees them."""

    def topics(self) -> tuple[str, ...]:
        """All topics of users, sorted, without retry, dead-letter and system topics."""
        ...

    def queues(self, topics: Collection[str]) -> tuple[QueueRef, ...]:
        """The readable queues of these topics, sorted.  An unknown topic is `NoRoute`."""
        ...

    def extents(self, queues: Collection[QueueRef]) -> Mapping[QueueRef, Extent]:
        """The extent of each queue.  A deleted queue is left out."""
        ...

    def survey(self, queues: Collection[QueueRef]) -> QueueSurvey:
        """The extents of all queues whose brokers answer, and the errors of the other brokers."""
        ...

    def offsets_at(
        self, queues: Collection[QueueRef], time_ms: int
    ) -> Mapping[QueueRef, QueueOffset]:
        """The offset of the first message in each that was stored at this time or later."""
        ...

    def group_offsets(
        self, queues: Collection[QueueRef], group: str
    ) -> Mapping[QueueRef, QueueOffset]:
        """The committed offsets of the group; queues without one are left out."""
        ...

    def origin(self, queue: QueueRef) -> str:
        """Where a task reads the queue: the address of a broker, or a directory."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ReadPart:
    """A span of a queue that one task reads.  ``origin`` is from `QueueSource.origin`."""

    span: Span
    origin: str
    partition: int = 0
    """The index of the queue in the order of broker and id: Kafka's partition."""


class PageReader(Protocol):
    """Reads one part."""

    def pages(self, part: ReadPart, wanted: Wanted, count_max: int) -> Iterator[Page]:
        """The pages of the span in order; the next is fetched while one is worked on."""
        ...


class PartsReader(PageReader, Protocol):
    """Reads the parts of a task."""

    def all_pages(
        self, parts: Sequence[ReadPart], wanted: Wanted, count_max: int
    ) -> Iterator[Page]:
        """The pages of all parts, one part after the other."""
        ...
