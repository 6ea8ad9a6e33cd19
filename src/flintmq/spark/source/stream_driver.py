"""The state and the decisions of the source process of one streaming query.

Spark asks for the latest offset at every trigger and, while nothing is new, every few
milliseconds.  An idle source therefore waits before it asks the brokers again, and returns early
when a message arrives.  It waits before and not after asking, so that its answer is current.

    latest(previous) ─┬─ new messages ─────► the end offset of the next micro-batch
                      ├─ nothing new ──────► previous, once the group's offset is committed
                      └─ no broker answers ► previous, for a while; then the error

``previous`` is the end offset of the last finished micro-batch, so it is committed for the group.
When the next trigger is far away, `FinishedBatches` reports the micro-batch earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from flintmq.arrow.reading.open_queues import open_queues, page_reader
from flintmq.arrow.reading.patience import patiently
from flintmq.arrow.reading.queue_source import QueueSurvey, ReadPart
from flintmq.arrow.reading.route_cache import RouteCache
from flintmq.errors import FlintError, NoRoute, Unreachable
from flintmq.logs import logger
from flintmq.model.queue import Extent, QueueOffset, QueueRef
from flintmq.net.clock import monotonic_ms
from flintmq.spark.options.offset_specs import TopicsLike
from flintmq.spark.options.source_options import Limits, SourceOptions
from flintmq.spark.source.control_files import FinishedBatches
from flintmq.spark.source.idle_wait import IdlePulls, IdleSleep, IdleWait
from flintmq.spark.source.message_sizes import MessageSizes
from flintmq.spark.source.offset_commits import OffsetCommits
from flintmq.spark.source.offset_ranges import chosen_queues, initial_offset
from flintmq.spark.source.partitions import cut, partition_numbers
from flintmq.spark.source.stream_offset import StreamOffset
from flintmq.spark.source.stream_plan import StreamPlan, gone_queues

T = TypeVar("T")

IDLE_MS: Final = 250
"""How long an idle source waits before it asks the brokers again, unless a message arrives."""

IDLE_EACH_MS: Final = 10
"""Added for every topic and broker, so that a source of thousands of them asks seldom."""

CHOOSE_MS: Final = 2_000
"""How often all topics are listed to find those of a pattern."""

WARN_EVERY_MS: Final = 60_000
"""How often a pattern that matches no topic is reported."""

SETTLE_S: Final = 2.0
"""How long an idle source waits for the commits of its group."""

FINISHED_S: Final = 5.0
"""How long a source that ends waits for the report that its last micro-batch is finished."""

_logger = logger(__name__)


@dataclass(frozen=True, slots=True)
class _Idle:
    """A source that found nothing new: Spark asks it again every few milliseconds."""

    at: StreamOffset
    ends: Mapping[QueueRef, QueueOffset]
    """Where a new message would be."""
    pause_ms: int
    """How long it waits before it asks the brokers again."""


class StreamDriver:
    """The queues of one query, and its progress in them."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        routes = RouteCache()
        self._queues = open_queues(options.access, options.store, routes)
        self._plan = StreamPlan(options.limits, fail_on_data_loss=options.fail_on_data_loss)
        self._sizes = MessageSizes(page_reader(options.access, options.store), options.wanted)
        self._waiting: IdleWait | None = None
        self._group = _group_offset(options, routes)
        self._finished: FinishedBatches | None = None
        self._planned: StreamOffset | None = None
        self._chosen: tuple[QueueRef, ...] = ()
        self._chosen_ms: int | None = None
        self._warn_ms = 0
        self._extents: Mapping[QueueRef, Extent] = {}
        self._asked_ms = 0
        self._silent_since_ms: int | None = None
        self._idle: _Idle | None = None
        self._reported: StreamOffset | None = None
        self._is_frozen = False

    def initial(self) -> StreamOffset:
        """The start offset of a query that has no checkpoint."""
        return self._patiently(lambda: initial_offset(self._queues, self._options))

    def freeze(self) -> None:
        """Read only messages that are stored now: Trigger.AvailableNow."""
        self._choose()
        self._extents = self._patiently(lambda: self._queues.extents(self._chosen))
        self._plan.stop_at(self._extents)
        self._is_frozen = True

    def latest(self, previous: StreamOffset, *, is_limited: bool = True) -> StreamOffset:
        """The end of the next micro-batch; ``previous`` when there is none."""
        self.finished(previous)
        if self._idle is not None and self._idle.at == previous and not self._wait(self._idle):
            return previous
        self._choose()
        survey = self._queues.survey(self._chosen)
        self._asked_ms = monotonic_ms()
        if not self._has_answers(survey):
            self._idle = self._idle_at(previous)
            return previous
        self._extents = survey.extents
        plan = self._plan if is_limited else self._unlimited()
        found = plan.next(
            previous,
            survey.extents,
            now_ms=self._asked_ms,
            gone=gone_queues(previous, self._chosen, survey.extents, survey.silent),
            bytes_each=self._bytes_each(previous),
        )
        if found == previous:
            self._idle = self._idle_at(previous)
            self.settled(SETTLE_S)
        return found

    def reported(self) -> StreamOffset | None:
        """The last known end offsets of the queues: for the lag in Spark's progress."""
        if not self._extents:
            return None
        return StreamOffset.at({queue: extent.stop for queue, extent in self._extents.items()})

    def finished(self, offset: StreamOffset) -> None:
        """The micro-batch that ends at ``offset`` is finished: commit it for the group."""
        if self._group is None or offset is self._reported:
            return
        self._reported = offset
        if offset.message_count:
            self._group.follow(offset.stops)

    def settled(self, timeout_s: float) -> bool:
        """Wait until the group's offset is committed; False where it failed or time is up."""
        return self._group is None or self._group.settle(timeout_s)

    def control_directory(self) -> str | None:
        """Where the program writes finished micro-batches; None for a stream without a group."""
        if self._group is None:
            return None
        if self._finished is None:
            self._finished = FinishedBatches(
                lambda tree: self.finished(StreamOffset.from_json(tree))
            )
        return self._finished.directory

    def parts(self, end: StreamOffset) -> list[ReadPart]:
        """The parts of a micro-batch.  After a crash Spark asks for the same one again."""
        if not self._chosen:
            self._choose()
        self._planned = end
        return cut(
            end.spans,
            origin=self._origin,
            partitions=partition_numbers((*self._chosen, *end.stops)),
            partitions_min=self._options.partitions_min,
            records_max=self._options.records_max,
        )

    def close(self) -> None:
        """Commit the group's offset once more, and close all connections.

        The report that the last micro-batch is finished may still be on its way.
        """
        if self._group is not None and self._finished is not None:
            if self._planned is not None:
                self._group.wait_for(self._planned.stops, FINISHED_S)
            self._finished.close()
        for one in (self._group, self._waiting, self._queues):
            if one is not None:
                one.close()

    # Inside

    def _idle_at(self, previous: StreamOffset) -> _Idle:
        ends = {queue: extent.stop for queue, extent in self._extents.items()}
        places = {(queue.topic, queue.broker) for queue in ends}
        if any(ends.get(queue, stop) > stop for queue, stop in previous.stops.items()):
            ends = {}  # a limit leaves messages for later: more of them change nothing
        return _Idle(previous, ends, max(IDLE_MS, IDLE_EACH_MS * len(places)))

    def _wait(self, idle: _Idle) -> bool:
        """Wait as an idle source does; whether the brokers are to be asked afterwards."""
        if self._is_frozen:
            return True
        if self._waiting is None:
            in_store = self._options.store is not None
            self._waiting = IdleSleep() if in_store else IdlePulls(self._options.access)
        if self._waiting.wait(idle.ends, IDLE_MS / 1000):
            return True
        return monotonic_ms() - self._asked_ms >= idle.pause_ms

    def _choose(self) -> None:
        """Find the queues to read.  Once some are known, name servers may be unreachable."""
        now_ms = monotonic_ms()
        is_listed = isinstance(self._options.choice, TopicsLike)
        if is_listed and self._chosen_ms is not None and now_ms - self._chosen_ms < CHOOSE_MS:
            return
        choice, is_running = self._options.choice, self._chosen_ms is not None

        def find() -> tuple[QueueRef, ...]:
            return chosen_queues(self._queues, choice, while_running=is_running)

        try:
            self._chosen = find() if is_running else self._patiently(find)
        except (NoRoute, Unreachable) as error:
            if self._chosen_ms is None:
                raise
            _logger.warning("going on with the queues known so far: %s", error)
        self._chosen_ms = now_ms
        if isinstance(choice, TopicsLike) and not self._chosen and now_ms >= self._warn_ms:
            self._warn_ms = now_ms + WARN_EVERY_MS
            _logger.warning("no topic matches subscribePattern %r yet", choice.pattern)

    def _has_answers(self, survey: QueueSurvey) -> bool:
        """Whether a broker answered.  Raises its error when none did for too long."""
        if survey.extents or not survey.silent:
            self._silent_since_ms = None
            return True
        error: FlintError = next(iter(survey.silent.values()))
        now_ms = monotonic_ms()
        if self._silent_since_ms is None:
            self._silent_since_ms = now_ms
            _logger.warning("no broker answers: %s", error)
        if now_ms - self._silent_since_ms > self._options.access.retry_ms:
            raise error
        return False

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Ask again while servers do not answer, as long as the options allow."""
        return patiently("the stream waits", self._options.access.retry_ms, ask)

    def _unlimited(self) -> StreamPlan:
        """A plan for Trigger.Once, which reads all messages whatever the limits."""
        return StreamPlan(Limits(), fail_on_data_loss=self._options.fail_on_data_loss)

    def _bytes_each(self, previous: StreamOffset) -> Mapping[QueueRef, int] | None:
        if self._options.limits.bytes_max is None:
            return None
        stops = {queue: extent.stop for queue, extent in self._extents.items()}
        return self._sizes.measure(previous, stops, self._origin)

    def _origin(self, queue: QueueRef) -> str:
        """The address of its broker; empty when not known: the task looks it up itself."""
        try:
            return self._queues.origin(queue)
        except (NoRoute, Unreachable) as error:
            _logger.warning("%s: %s", queue, error)
            return ""


def _group_offset(options: SourceOptions, routes: RouteCache) -> OffsetCommits | None:
    """The commits of the group of a stream; a store directory takes none."""
    if options.group is None or options.store is not None:
        return None
    return OffsetCommits(options.access, options.group, routes)
