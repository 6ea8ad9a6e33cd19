"""Plans the next micro-batch of a stream: its end offset in each queue, within the limits.

`StreamPlan` is a machine: the extents of the queues and the time go in, the end offset comes out.
It does no I/O and keeps no record of what was read: that is in the offset that Spark stores in
the checkpoint.  Its own state lasts for one run of the query: the time of the last micro-batch,
the queue that was served last, and the highest end offset seen in each queue.

    queue of the stream         ──► continues at the end of the last micro-batch
      messages there deleted    ──► data loss; continues with the oldest message
      queue ends before it      ──► data loss; the queue was recreated: starts with its oldest
      broker does not answer    ──► keeps its offset
      queue was deleted         ──► data loss if it was not read to its end; it is dropped
    queue new to the stream     ──► starts with its oldest message

Data loss is `MessagesLost`, or a warning in the log with failOnDataLoss=false.

`share` divides a limit among the queues that have new messages.

Invariant: apart from reported data loss, the micro-batches of a queue follow each other without a
gap, and none is larger than the limits allow.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from flintmq.model.queue import Extent, QueueOffset, QueueRef
from flintmq.spark.options.source_options import Limits
from flintmq.spark.source.offset_ranges import DataLoss
from flintmq.spark.source.stream_offset import StreamOffset


def share(wants: Sequence[int], costs: Sequence[int], budget: int) -> list[int]:
    """Divide ``budget`` among queues: the number of messages that each may contribute.

    Queue ``n`` has ``wants[n]`` new messages, each of which costs ``costs[n]``.  First each queue
    with new messages gets one, in the order given, so that a short queue does not wait for a long
    one; the rest is divided in proportion to ``wants``.  A queue that gets none has to come
    earlier in the order next time.

    Invariant: the cost is within the budget, except that the first message is always granted; and
    the rest of the budget is smaller than the cost of any further message.
    """
    assert len(wants) == len(costs)
    if sum(want * cost for want, cost in zip(wants, costs, strict=True)) <= budget:
        return list(wants)
    given = [0] * len(wants)
    left, nobody_yet = budget, True
    for place, (want, cost) in enumerate(zip(wants, costs, strict=True)):
        if want and (nobody_yet or cost <= left):
            given[place], nobody_yet = 1, False
            left -= cost
    rest = [want - got for want, got in zip(wants, given, strict=True)]
    total = sum(want * cost for want, cost in zip(rest, costs, strict=True))
    if left <= 0:
        return given
    room, remainders = left, []
    for place, (want, cost) in enumerate(zip(rest, costs, strict=True)):
        more, remainder = divmod(room * want, total)
        given[place] += more
        left -= more * cost
        remainders.append((-remainder, place))
    nearest = [place for _, place in sorted(remainders)]
    for at_most in (1, left):  # one each for those who were nearest to one more, then whoever fits
        for place in nearest:
            more = min(at_most, left // costs[place], wants[place] - given[place])
            given[place] += more
            left -= more * costs[place]
    return given


MESSAGE_BYTES: Final = 1_024
"""The assumed size of a message before any was sampled."""


class StreamPlan:
    """The end offsets of the micro-batches of one run of a stream."""

    def __init__(self, limits: Limits, *, fail_on_data_loss: bool = True) -> None:
        self._limits = limits
        self._loss = DataLoss(fails=fail_on_data_loss)
        self._last_batch_ms: int | None = None
        self._served_last: QueueRef | None = None
        self._seen: dict[QueueRef, QueueOffset] = {}
        self._until: dict[QueueRef, QueueOffset] | None = None

    def stop_at(self, extents: Mapping[QueueRef, Extent]) -> None:
        """Read up to these end offsets and no further, without delay: Trigger.AvailableNow."""
        self._until = {queue: extent.stop for queue, extent in extents.items()}

    def next(
        self,
        previous: StreamOffset,
        extents: Mapping[QueueRef, Extent],
        *,
        now_ms: int,
        gone: Collection[QueueRef] = (),
        bytes_each: Mapping[QueueRef, int] | None = None,
    ) -> StreamOffset:
        """The end of the next micro-batch; ``previous`` itself when none is due.

        ``extents`` has the queues whose brokers answered, ``gone`` the queues that were deleted;
        the brokers of all others do not answer.  ``bytes_each`` is the size of a message in each
        queue, as far as it is known.
        """
        here = self._starts(previous, extents)
        for queue in gone:
            self._give_up(queue, previous)
        self._seen.update((queue, extent.stop) for queue, extent in extents.items())
        wants = {
            queue: max(0, self._end(queue, extent) - here[queue])
            for queue, extent in extents.items()
        }
        total = sum(wants.values())
        if total == 0 or not self._is_due(total, now_ms):
            return previous
        granted = self._granted({q: n for q, n in wants.items() if n}, bytes_each or {})
        before = previous.stops
        away = before.keys() - extents.keys() - set(gone)
        stops = {queue: before[queue] for queue in away}
        for queue, start in here.items():
            if queue in granted or queue in before:
                stops[queue] = QueueOffset(start + granted.get(queue, 0))
        self._last_batch_ms = now_ms
        return previous.advance(stops, here)

    def _starts(
        self, previous: StreamOffset, extents: Mapping[QueueRef, Extent]
    ) -> dict[QueueRef, QueueOffset]:
        """The offset at which each queue continues."""
        here = previous.stops
        found: dict[QueueRef, QueueOffset] = {}
        for queue in sorted(extents):
            extent = extents[queue]
            start = here.get(queue, extent.start)
            within = self._loss.within(queue, start, extent)
            found[queue] = extent.start if start > extent.stop else within
        return found

    def _give_up(self, queue: QueueRef, previous: StreamOffset) -> None:
        start = previous.stops.get(queue)
        if start is None:
            return
        stop = self._seen.get(queue)
        if stop is None or stop > start:
            held = "it is not known how many" if stop is None else f"it held messages up to {stop}"
            self._loss.report(queue, start, max(start, stop or 0), f"the queue is gone, {held}")

    def _end(self, queue: QueueRef, extent: Extent) -> QueueOffset:
        if self._until is None:
            return extent.stop
        return min(extent.stop, self._until.get(queue, QueueOffset(0)))

    def _is_due(self, count: int, now_ms: int) -> bool:
        least = self._limits.offsets_min
        if least is None or count >= least or self._until is not None:
            return True
        last_ms = self._last_batch_ms
        return last_ms is None or now_ms - last_ms >= self._limits.delay_max_ms

    def _granted(
        self, wants: Mapping[QueueRef, int], bytes_each: Mapping[QueueRef, int]
    ) -> dict[QueueRef, int]:
        """The number of messages of each queue that fit into the limits; at least one in all."""
        limits = self._limits
        order = self._by_turn(wants)
        counts = [wants[queue] for queue in order]
        if limits.offsets_max is not None:
            counts = share(counts, [1] * len(order), limits.offsets_max)
        if limits.bytes_max is not None:
            counts = share(counts, _costs(order, bytes_each), limits.bytes_max)
        served = [queue for queue, count in zip(order, counts, strict=True) if count]
        self._served_last = served[-1]
        return dict(zip(order, counts, strict=True))

    def _by_turn(self, wants: Mapping[QueueRef, int]) -> list[QueueRef]:
        """The queues in order, starting after the one that was served last."""
        order = sorted(wants)
        last = self._served_last
        if last is None:
            return order
        return [q for q in order if q > last] + [q for q in order if q <= last]


def _costs(order: list[QueueRef], bytes_each: Mapping[QueueRef, int]) -> list[int]:
    known = [size for queue in order if (size := bytes_each.get(queue, 0)) > 0]
    typical = -(-sum(known) // len(known)) if known else MESSAGE_BYTES
    return [bytes_each.get(queue, 0) or typical for queue in order]


def gone_queues(
    previous: StreamOffset,
    chosen: Collection[QueueRef],
    extents: Mapping[QueueRef, Extent],
    silent: Collection[str] = (),
) -> frozenset[QueueRef]:
    """Queues of the stream that were deleted, as opposed to those that cannot be reached.

    A queue is deleted if its broker does not know it, or if its topic no longer has it on a broker
    that still serves the topic.  A queue whose broker does not answer, or is in no route, cannot
    be reached.
    """
    there = set(chosen)
    serving = {(queue.topic, queue.broker) for queue in there}
    return frozenset(
        queue
        for queue in previous.stops
        if queue not in extents
        and queue.broker not in silent
        and (queue in there or (queue.topic, queue.broker) in serving)
    )
