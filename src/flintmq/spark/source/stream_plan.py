"""Sharing the room of one batch among the queues that want it.

The next batch of a stream: what is new, how much of it, and whether it is time yet.

`StreamPlan` is a machine: it is told what the queues hold and what time it is, and says where the
batch ends.  It asks nobody and writes nothing down; what was read is in the offset that Spark
keeps.  All it remembers is about the run at hand: when the last batch was, whose turn it is, and
how far queues were seen to reach.

    queue of the stream ──► goes on where the last batch ended
      deleted past that ──► loss; goes on with the oldest message
      ends before that  ──► loss; it was made anew, so it starts with its oldest message
      away              ──► keeps its place: its broker does not answer, or others have it
      gone              ──► loss if it was not read to its end; it is forgotten
    queue new to it     ──► starts where it is told, else with its oldest message

Loss is `MessagesLost`, or a warning in the log with failOnDataLoss=false.

Invariant: apart from losses that were reported, the batches of a queue follow each other without
a gap, and none is larger than the limits allow.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from flintmq.core.reading.broker_offsets import Extent
from flintmq.model.queue import QueueOffset, QueueRef
from flintmq.spark.options.source_options import Limits
from flintmq.spark.source.offset_ranges import DataLoss
from flintmq.spark.source.stream_offset import StreamOffset


def share(wants: Sequence[int], costs: Sequence[int], budget: int) -> list[int]:
    """How many messages each may give, when ``budget`` is not enough for all that are wanted.

    A message of queue ``n`` costs ``costs[n]``.  First each queue that wants some gets one, in the
    order given, so that a short queue does not wait for a long one to be empty; the rest is shared
    in proportion to what is wanted.  Who gets nothing has to come earlier in the order next time.

    Invariant: the cost is within the budget, except that the first one is given always; and
    no room is left in which another message would fit.
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
"""How large messages are taken to be while none was seen."""


class StreamPlan:
    """Where the batches of one run of a stream end."""

    def __init__(self, limits: Limits, *, fail_on_data_loss: bool = True) -> None:
        self._limits = limits
        self._loss = DataLoss(fails=fail_on_data_loss)
        self._last_batch_ms: int | None = None
        self._served_last: QueueRef | None = None
        self._seen: dict[QueueRef, QueueOffset] = {}
        self._until: dict[QueueRef, QueueOffset] | None = None

    def stop_at(self, extents: Mapping[QueueRef, Extent]) -> None:
        """Read what there is now and nothing more, at once: Trigger.AvailableNow."""
        self._until = {queue: extent.stop for queue, extent in extents.items()}

    def next(
        self,
        previous: StreamOffset,
        extents: Mapping[QueueRef, Extent],
        *,
        now_ms: int,
        starts: Mapping[QueueRef, QueueOffset] | None = None,
        gone: Collection[QueueRef] = (),
        bytes_each: Mapping[QueueRef, int] | None = None,
    ) -> StreamOffset:
        """The end of the next batch; ``previous`` itself when there is none to be run now.

        ``extents`` has the queues that may be read.  ``starts`` says where some of them start that
        came to the stream only now; it is needed until they are in a batch.  ``gone`` are those
        that do not exist any more, and all others are away.  ``bytes_each`` is how large messages
        are, as far as known.
        """
        here = self._starts(previous, extents, starts or {})
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
        away = previous.stops.keys() - extents.keys() - set(gone)
        stops = {queue: previous.stops[queue] for queue in away}
        for queue, start in here.items():
            if queue in granted or queue in previous.stops:
                stops[queue] = QueueOffset(start + granted.get(queue, 0))
        self._last_batch_ms = now_ms
        return previous.advance(stops, here)

    def _starts(
        self,
        previous: StreamOffset,
        extents: Mapping[QueueRef, Extent],
        told: Mapping[QueueRef, QueueOffset],
    ) -> dict[QueueRef, QueueOffset]:
        """Where each queue goes on."""
        here = {**previous.stops, **told}
        found: dict[QueueRef, QueueOffset] = {}
        for queue, extent in sorted(extents.items()):
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
        """How many messages of each queue fit into the batch; at least one of one queue."""
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
        """Sorted, and beginning behind the queue that was served last."""
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
    """Queues of the stream that do not exist any more, as opposed to those that are away.

    Gone is what its broker does not know, and what its topic no longer has on a broker that still
    serves it.  A broker that does not answer, or that the name servers do not name, is away.
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
