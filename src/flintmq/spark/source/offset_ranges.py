"""Resolves the options of a source to queues and offsets: where each queue starts and stops.

An offset option that names deleted messages, or a committed offset of a group that lies outside
its queue, is `MessagesLost`; with failOnDataLoss=false it is logged and the messages that exist
are read.  ``earliest``, ``latest`` and timestamps never name deleted messages.

Invariant: the resulting offsets lie within the extents of the queues.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import assert_never

from flintmq.arrow.reading.place_offsets import place_offsets
from flintmq.arrow.reading.queue_source import QueueSource
from flintmq.core.admin.spans import ToEnd, ToOffset, ToStart, ToTime
from flintmq.errors import InvalidSetting, MessagesLost
from flintmq.logs import logger
from flintmq.model.group import without_namespace
from flintmq.model.queue import Extent, QueueOffset, QueueRef, Span
from flintmq.spark.options.offset_specs import (
    Choice,
    OfEach,
    OfGroup,
    Place,
    TheseQueues,
    Topics,
    TopicsLike,
)
from flintmq.spark.options.source_options import SourceOptions
from flintmq.spark.options.source_table import ASSIGN, ENDING_OFFSETS, STARTING_OFFSETS
from flintmq.spark.source.stream_offset import StreamOffset

NAMED_MAX = 5
"""The number of queues that an error names; it counts the others."""

_logger = logger(__name__)


class DataLoss:
    """Reports deleted messages: as an error, or as a warning, once for each place."""

    def __init__(self, *, fails: bool) -> None:
        self._fails = fails
        self._warned: dict[QueueRef, int] = {}

    def report(self, queue: QueueRef, start: int, stop: int, reason: str) -> None:
        """Raise `MessagesLost`, or log it."""
        if self._fails:
            advice = "set failOnDataLoss=false to go on without them"
            raise MessagesLost(str(queue), start, stop, f"{reason}; {advice}")
        if self._warned.get(queue) != start:
            self._warned[queue] = start
            _logger.warning("%s", MessagesLost(str(queue), start, stop, reason))

    def within(self, queue: QueueRef, asked: QueueOffset, extent: Extent) -> QueueOffset:
        """``asked`` if it lies within the extent, else the nearest offset that does."""
        if extent.start <= asked <= extent.stop:
            return asked
        holds = f"the queue holds {extent.start} to {extent.stop}"
        if asked < extent.start:
            self.report(queue, asked, extent.start, f"deleted before they were read, {holds}")
            return extent.start
        self.report(queue, extent.stop, asked, f"{holds}, as if the topic was made anew")
        return extent.stop


def chosen_queues(
    queues: QueueSource, choice: Choice, *, while_running: bool = False
) -> tuple[QueueRef, ...]:
    """The queues that a source reads now, sorted.

    A subscribed topic that does not exist is `NoRoute`.  An assigned queue that does not exist is
    `InvalidSetting`, but not ``while_running``: then it was deleted, and the plan reports that.
    """
    match choice:
        case Topics(topics):
            return queues.queues(topics)
        case TopicsLike():
            matching = [topic for topic in queues.topics() if _is_like(topic, choice)]
            return queues.queues(matching) if matching else ()
        case TheseQueues():
            return _assigned(queues.queues(choice.topics), choice, while_running=while_running)
        case _:
            assert_never(choice)


def _assigned(
    there: tuple[QueueRef, ...], choice: TheseQueues, *, while_running: bool
) -> tuple[QueueRef, ...]:
    known = set(there)
    brokers: dict[str, set[str]] = defaultdict(set)
    for queue in there:
        brokers[queue.topic].add(queue.broker)
    found: set[QueueRef] = set()
    for topic, broker, queue_id in choice.queues:
        serving = (name for name in brokers[topic] if broker in (None, name))
        named = {QueueRef(topic, name, queue_id) for name in serving}
        matches = named if while_running and broker is not None else named & known
        if not matches and not while_running:
            where = f"on {broker}" if broker is not None else "on any broker"
            reason = f"topic {topic} has no queue {queue_id} {where}"
            raise InvalidSetting(ASSIGN.name, f"{topic}/{broker or '*'}/{queue_id}", reason)
        found |= matches
    return tuple(sorted(found))


def _is_like(topic: str, choice: TopicsLike) -> bool:
    name = without_namespace(choice.namespace, topic)
    if choice.namespace and name == topic:
        return False  # it is in another namespace, or in none
    return re.fullmatch(choice.pattern, name) is not None


def batch_spans(queues: QueueSource, options: SourceOptions) -> tuple[Span, ...]:
    """The spans of a batch query, sorted by queue; the span of an empty queue is empty."""
    refs = chosen_queues(queues, options.choice)
    loss = DataLoss(fails=options.fail_on_data_loss)
    extents = _extents(queues, refs, loss)
    _check_order(options.start, options.end)
    starts = resolve(queues, options.start, extents, loss, option=STARTING_OFFSETS.name)
    stops = resolve(queues, options.end, extents, loss, option=ENDING_OFFSETS.name)
    return tuple(
        Span(queue, starts[queue], max(starts[queue], stops[queue])) for queue in sorted(extents)
    )


def initial_offset(queues: QueueSource, options: SourceOptions) -> StreamOffset:
    """The start offset of a stream that has no checkpoint yet."""
    refs = chosen_queues(queues, options.choice)
    loss = DataLoss(fails=options.fail_on_data_loss)
    extents = _extents(queues, refs, loss)
    return StreamOffset.at(
        resolve(queues, options.start, extents, loss, option=STARTING_OFFSETS.name)
    )


def resolve(
    queues: QueueSource,
    place: Place,
    extents: Mapping[QueueRef, Extent],
    loss: DataLoss,
    *,
    option: str,
) -> dict[QueueRef, QueueOffset]:
    """The offset of ``place`` in each queue.  Errors name ``option``."""
    match place:
        case ToStart() | ToEnd() | ToTime():
            return place_offsets(queues, place, extents)
        case ToOffset(offset):
            return {
                queue: loss.within(queue, QueueOffset(min(offset, extent.stop)), extent)
                for queue, extent in extents.items()
            }
        case OfGroup():
            return _of_group(queues, place, extents, loss)
        case OfEach():
            return _of_each(place, extents, loss, option)
        case _:
            assert_never(place)


def _of_group(
    queues: QueueSource, place: OfGroup, extents: Mapping[QueueRef, Extent], loss: DataLoss
) -> dict[QueueRef, QueueOffset]:
    known = queues.group_offsets(extents.keys(), place.group)
    topics_known = {queue.topic for queue in known}
    found: dict[QueueRef, QueueOffset] = {}
    for queue, extent in extents.items():
        if queue in known:
            found[queue] = loss.within(queue, known[queue], extent)
        elif queue.topic in topics_known or isinstance(place.otherwise, ToStart):
            found[queue] = extent.start
        else:
            found[queue] = extent.stop
    return found


def _of_each(
    place: OfEach, extents: Mapping[QueueRef, Extent], loss: DataLoss, option: str
) -> dict[QueueRef, QueueOffset]:
    asked = place.by_queue()
    _require_none(option, asked.keys() - extents.keys(), "there is no such queue to read")
    _require_none(option, extents.keys() - asked.keys(), "each queue needs one; -2 is earliest")
    found: dict[QueueRef, QueueOffset] = {}
    for queue, extent in extents.items():
        match asked[queue]:
            case ToStart():
                found[queue] = extent.start
            case ToEnd():
                found[queue] = extent.stop
            case ToOffset(offset):
                found[queue] = loss.within(queue, offset, extent)
    return found


def _require_none(option: str, wrong: Collection[QueueRef], reason: str) -> None:
    if wrong:
        named = ", ".join(map(str, sorted(wrong)[:NAMED_MAX]))
        more = f" and {len(wrong) - NAMED_MAX} more" if len(wrong) > NAMED_MAX else ""
        raise InvalidSetting(option, named + more, reason)


def _check_order(start: Place, end: Place) -> None:
    """Refuse a start after the end where both are numbers; with words or times it reads nothing."""
    if isinstance(start, ToOffset) and isinstance(end, ToOffset) and start.offset > end.offset:
        reason = f"the read starts at {start.offset}"
        raise InvalidSetting(ENDING_OFFSETS.name, str(end.offset), reason)
    if isinstance(start, OfEach) and isinstance(end, OfEach):
        ends = end.by_queue()
        for queue, first in start.places:
            last = ends.get(queue)
            if not isinstance(first, ToOffset) or not isinstance(last, ToOffset):
                continue
            if first.offset > last.offset:
                reason = f"{queue} ends at {last.offset}, before it starts at {first.offset}"
                raise InvalidSetting(ENDING_OFFSETS.name, str(last.offset), reason)


def _extents(
    queues: QueueSource, refs: Collection[QueueRef], loss: DataLoss
) -> Mapping[QueueRef, Extent]:
    extents = queues.extents(refs)
    for queue in sorted(set(refs) - extents.keys()):
        loss.report(queue, 0, 0, "the queue is gone")
    return extents
