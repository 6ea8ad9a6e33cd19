"""Plans the micro-batches of a query that runs listeners, as a member of its group.

    commit the finished one ──► owned queues ──► their end offsets ──► the next micro-batch

While nothing is new it waits for a pull that a broker holds, and does not ask for end offsets.

Invariant: a micro-batch has only queues that the query owned when it was planned, and whose
locks, where they need one, were valid when its tasks were made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from flintmq.arrow.reading.cluster_queues import ClusterQueues
from flintmq.arrow.reading.patience import patiently
from flintmq.arrow.reading.queue_source import ReadPart
from flintmq.core.group.subscriptions import Subscriptions
from flintmq.errors import NoRoute, WrongState
from flintmq.model.queue import Extent, QueueOffset, QueueRef, Span
from flintmq.spark.listeners.batch_pace import PaceFile
from flintmq.spark.listeners.listener_parts import share_out
from flintmq.spark.listeners.membership import Membership
from flintmq.spark.source import control_files as names
from flintmq.spark.source.control_files import ControlFiles
from flintmq.spark.source.stream_offset import StreamOffset
from flintmq.spark.source.stream_plan import share
from flintmq.spark.tasks.packed_app import Program

T = TypeVar("T")

WAIT_S: Final = 0.5
"""How long to wait for a message before Spark is told that there is none."""

SURVEY_EVERY: Final = 10
"""After so many waits without a message the end offsets are asked for all the same."""


class ListenerDriver:
    """Plans the micro-batches of one query, as a member of its group."""

    def __init__(
        self,
        program: Program,
        files: ControlFiles,
        partitions: int,
        target_ms: int | None = None,
    ) -> None:
        """``target_ms`` is how long a micro-batch is to take, if that is given."""
        self._files = files
        self._pace = PaceFile(files, target_ms)
        self._partitions = partitions
        self._subscriptions = Subscriptions(program.config, program.subscriptions, 0)
        self._queues = ClusterQueues(program.access)
        self._program = program
        self._member: Membership | None = None
        self._until: Mapping[QueueRef, QueueOffset] | None = None
        self._planned: StreamOffset | None = None
        self._extents: dict[QueueRef, Extent] = {}
        self._positions: Mapping[QueueRef, QueueOffset] = {}
        self._idle_waits = 0

    # Micro-batches

    def stop_at_now(self) -> None:
        """Read only messages that are stored now: Trigger.AvailableNow."""
        topics = [each.topic for each in self._subscriptions]

        def ends() -> Mapping[QueueRef, Extent]:
            there = [topic for topic in topics if self._exists(topic)]
            return self._queues.extents(self._queues.queues(there))

        extents = self._patiently(ends)
        self._until = {queue: extent.stop for queue, extent in extents.items()}

    def next_offset(
        self, start: StreamOffset, count_max: int | None, number: int = 0
    ) -> StreamOffset | None:
        """The end of the next micro-batch; None where there is nothing to read.

        ``number`` is that of the last one.
        """
        member = self._joined(start)
        if self._until is not None:
            member.settle()
        self._positions = member.positions(start.stops)
        if self._files.has(names.FINISH):
            self._files.write(names.RESTING)
            member.wait({}, WAIT_S)
            return None
        spans = self._new_spans(member, self._pace.limit(count_max, number))
        if not any(map(len, spans)):
            return None
        self._planned = StreamOffset.of(spans)
        member.plan(self._planned.spans)
        return self._planned

    def _new_spans(self, member: Membership, count_max: int | None) -> list[Span]:
        """The new messages of the owned queues.  While there are none, held pulls wait for one.

        A queue whose broker does not answer has no new messages.
        """
        positions = self._positions
        if self._until is None and not self._has_known_messages(positions):
            came = member.wait(positions, WAIT_S)
            self._idle_waits = 0 if came else self._idle_waits + 1
            if not came and self._idle_waits % SURVEY_EVERY:
                return []
            positions = self._positions = member.positions({})
        nothing = {queue: Extent(at, at) for queue, at in positions.items()}
        self._extents = {**nothing, **self._queues.survey(positions).extents}
        queues = sorted(positions)
        wants = [self._want(queue, positions[queue]) for queue in queues]
        if count_max is not None:
            wants = share(wants, [1] * len(wants), count_max)
        return [
            Span(queue, positions[queue], QueueOffset(positions[queue] + want))
            for queue, want in zip(queues, wants, strict=True)
        ]

    def _has_known_messages(self, positions: Mapping[QueueRef, QueueOffset]) -> bool:
        """Whether a queue has known messages after its position, or was never surveyed."""
        return any(
            queue not in self._extents or self._extents[queue].stop > at
            for queue, at in positions.items()
        )

    def _want(self, queue: QueueRef, position: QueueOffset) -> int:
        stop = self._extents[queue].stop
        if self._until is not None:
            stop = min(stop, self._until.get(queue, position))
        return max(0, stop - position)

    def parts(self, start: StreamOffset, end: StreamOffset) -> list[tuple[ReadPart, ...]]:
        """The tasks of a micro-batch, each with its parts of queues."""
        member = self._joined(start)
        spans = list(end.spans)
        if end != self._planned:  # it runs again, after a crash
            member.settle()
            spans = member.ahead_of(spans)
            member.plan(spans)
        broken = member.broken()
        if broken:
            raise lock_lost(broken)
        self._pace.started(sum(map(len, spans)))
        return share_out(
            spans,
            self._subscriptions,
            self._program.tasks_by_topic,
            origin=self._queues.origin,
            tasks_usual=self._partitions,
        )

    def finish(self, end: StreamOffset) -> None:
        if self._member is not None:
            self._member.finish(end.stops)

    def ends(self) -> StreamOffset:
        """The last known end offsets of the owned queues."""
        spans = []
        for queue, at in self._positions.items():
            extent = self._extents.get(queue)
            stop = at if extent is None else max(at, extent.stop)
            spans.append(Span(queue, at, stop))
        return StreamOffset.of(spans)

    def close(self) -> None:
        try:
            if self._member is not None:
                self._member.leave()
        finally:
            self._queues.close()

    # Inside

    def _joined(self, start: StreamOffset) -> Membership:
        """The membership; joins the group first, from the offset of the checkpoint."""
        if self._member is None:

            def join() -> Membership:
                member = Membership(self._program, self._files)
                member.join(start.stops)
                return member

            self._member = self._patiently(join)
        return self._member

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Ask again while servers do not answer: a run may start before them."""
        group, access = self._program.config.group, self._program.access
        return patiently(f"group {group!r} is not joined yet", access.retry_ms, ask)

    def _exists(self, topic: str) -> bool:
        try:
            self._queues.queues([topic])
        except NoRoute:
            return False
        return True


def lock_lost(queues: list[QueueRef]) -> WrongState:
    """The error of a micro-batch that may not be committed."""
    named = ", ".join(map(str, queues))
    reason = "others may consume it now; the batch is not committed, and runs again"
    return WrongState(f"the lock of {named}", "lost", reason)
