"""Messages of one task on their way: packed into batches, several under way, all accounted for.

    put ─► lane of its topic, or of its queue ─► full ─► request ─► stored
                                                           │ failed: again, in the same queue
                                                           │ or, if it may, in another, until the
                                                           │ time of retryTimeout is up
    put ─► delayed, or too large for a batch ─► alone ──────────┘
    plain rows, laid out already ─► the same, without a message for each

A row that may go anywhere goes with its neighbours, and requests take turns over the queues, one
broker after the other.  The first turn of a task depends on the names of its rows alone
(`first_turn`): small writes do not all go to one queue, and a task that is tried again sends each
row to the same queue, where the consumer is that has seen it, unless a broker is down or queues
were added.
The rows of one given queue go one request after the other, so their order stays.

Invariant: when `finish` has returned, every message that was put is stored, at least once.
"""

from __future__ import annotations

import time
import zlib
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import groupby, zip_longest
from types import TracebackType
from typing import Final, NamedTuple, Self

from flintmq.arrow.reading.patience import Outage, patiently
from flintmq.client.producer.packing_producer import PackingProducer
from flintmq.core.producer.publisher import may_try_again
from flintmq.core.producer.queue_choice import queue_of_key
from flintmq.core.producer.receipt import SendReceipt
from flintmq.core.producer.send_patience import BUSY_FIRST_MS, BUSY_MAX_MS
from flintmq.errors import FlintError, InvalidSetting, NoRoute, PartlySent, Unreachable
from flintmq.model.group import is_retry_topic
from flintmq.model.message import Message
from flintmq.model.queue import QueueRef
from flintmq.protocol.records.batch import BATCH_ENTRIES_MAX
from flintmq.spark.options.sink_options import SINGLES_IN_FLIGHT, SinkOptions
from flintmq.spark.sink.plain_rows import PackedRows
from flintmq.spark.sink.sink_rows import ANYWHERE, OutRow, Target

PENDING_BYTES_MAX: Final = 64 * 1024 * 1024
"""What lanes may hold that are not full yet, when rows go to very many topics or queues."""

_ENTRY_BYTES: Final = 96
"""What a message in a batch takes beside body, tags, keys and properties, and a little more."""


class Lane:
    """Rows that share requests: those of one queue, or those of one topic that may go anywhere."""

    __slots__ = ("is_single", "last", "messages", "queue", "size_bytes", "topic", "turn")

    def __init__(self, topic: str, queue: QueueRef | None, turn: int) -> None:
        self.topic = topic
        self.queue = queue
        self.turn = turn
        self.is_single = is_retry_topic(topic)  # brokers take no batches there
        self.messages: list[Message] = []
        self.size_bytes = 0
        self.last: Future[None] | None = None


class Entries(NamedTuple):
    """The body of a batch that is laid out already."""

    topic: str
    body: bytes
    number: int


class PackedLane:
    """Rows of one topic that are laid out already and may go anywhere."""

    __slots__ = ("count", "pieces", "size_bytes", "topic", "turn")

    def __init__(self, topic: str, turn: int) -> None:
        self.topic = topic
        self.turn = turn
        self.pieces: list[memoryview] = []
        self.size_bytes = 0
        self.count = 0

    def add(self, piece: memoryview, count: int) -> None:
        self.pieces.append(piece)
        self.size_bytes += len(piece)
        self.count += count

    def take(self) -> Entries:
        """All of them, as one batch."""
        entries = Entries(self.topic, b"".join(self.pieces), self.count)
        self.pieces, self.size_bytes, self.count = [], 0, 0
        return entries


class Sending:
    """The sending side of one task.  Used by one thread."""

    def __init__(self, producer: PackingProducer, options: SinkOptions, turn: int) -> None:
        self.requests = 0
        self.body_bytes = 0
        self._producer = producer
        self._options = options
        self._turn = turn
        self._queues: dict[str, Sequence[QueueRef]] = {}
        self._turns: dict[str, Sequence[QueueRef]] = {}
        self._sorted: dict[str, Sequence[QueueRef]] = {}
        self._lanes: dict[tuple[str, QueueRef | None], Lane] = {}
        self._lane: Lane | None = None  # of the last row
        self._packed: PackedLane | None = None
        self._batch_bytes = options.batch_bytes
        self._pending_bytes = 0
        self._pool = ThreadPoolExecutor(options.in_flight, "flintmq-sink")
        self._under_way: deque[Future[None]] = deque()
        self._alone: deque[tuple[Future[SendReceipt], Message, QueueRef | None]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def add(self, row: OutRow) -> None:
        """Add a message; wait while too many requests are in flight."""
        message, target = row
        topic, lane = message.topic, self._lane
        queue = None if target is ANYWHERE else self._queue(topic, target)
        if lane is None or lane.topic != topic or lane.queue != queue:
            lane = self._lane = self._lane_of(topic, queue)
        size_bytes = _size_bytes(message)
        self.body_bytes += len(message.body)
        if message.delay_level or lane.is_single or size_bytes > self._batch_bytes:
            self._put_alone(message, queue)
            return
        if lane.size_bytes + size_bytes > self._batch_bytes:
            self._ship(lane)
        lane.messages.append(message)
        lane.size_bytes += size_bytes
        self._pending_bytes += size_bytes
        if self._pending_bytes > PENDING_BYTES_MAX:
            self._ship_all()

    def add_packed(self, rows: PackedRows) -> None:
        """Add rows that may go anywhere, each of which fits a batch."""
        lane = self._packed
        if lane is None:
            lane = self._packed = PackedLane(rows.topic, self._turn)
        self.body_bytes += rows.body_bytes
        start, end = 0, len(rows.edges) - 1
        while start < end:
            stop = rows.stop_within(start, self._batch_bytes - lane.size_bytes)
            stop = min(stop, start + BATCH_ENTRIES_MAX - lane.count)
            if stop > start:
                lane.add(rows.piece(start, stop), stop - start)
                start = stop
            else:
                self._ship_packed(lane)

    def finish(self) -> None:
        """Send the rest and wait until all is stored; raises the error that retries did not end."""
        self._ship_all()
        while self._under_way:
            self._under_way.popleft().result()
        while self._alone:
            self._settle()

    # Where to

    def _queue(self, topic: str, target: Target) -> QueueRef:
        queues = self._queues_of(topic)
        if target.sharding_key is not None:
            return queue_of_key(queues, target.sharding_key)
        if target.place is not None:
            if not 0 <= target.place < len(queues):
                raise InvalidSetting(
                    "column partition", str(target.place), f"{topic} has {len(queues)} queues"
                )
            return self._sorted[topic][target.place]
        for queue in self._sorted[topic]:
            if queue.queue_id == target.queue_id and target.broker in (None, queue.broker):
                return queue
        where = "" if target.broker is None else f" on {target.broker}"
        raise InvalidSetting(
            "column queue_id", str(target.queue_id), f"{topic} has no such queue{where}"
        )

    def _queues_of(self, topic: str) -> Sequence[QueueRef]:
        """The queues of a topic; they stay the same for as long as the task runs."""
        queues = self._queues.get(topic)
        if queues is None:
            find = partial(self._producer.queues, topic)
            what, retry_ms = f"nothing is sent to {topic}", self._options.access.retry_ms
            queues = patiently(what, retry_ms, find, passing=(Unreachable, NoRoute))
            self._queues[topic] = queues
            self._sorted[topic] = sorted(queues)
            self._turns[topic] = _broker_by_broker(queues)
        return queues

    def _lane_of(self, topic: str, queue: QueueRef | None) -> Lane:
        lane = self._lanes.get((topic, queue))
        if lane is None:
            lane = self._lanes[topic, queue] = Lane(topic, queue, self._turn)
        return lane

    # Batches

    def _ship_all(self) -> None:
        for lane in self._lanes.values():
            if lane.messages:
                self._ship(lane)
        if self._packed is not None and self._packed.count:
            self._ship_packed(self._packed)

    def _ship_packed(self, lane: PackedLane) -> None:
        self._wait_for_room()
        queue = self._next_queue(lane)
        self._begin(self._pool.submit(self._store, lane.take(), queue, False))

    def _ship(self, lane: Lane) -> None:
        self._wait_for_room()
        messages, queue = lane.messages, lane.queue
        self._pending_bytes -= lane.size_bytes
        lane.messages, lane.size_bytes = [], 0
        if queue is None:
            job = self._pool.submit(self._store, messages, self._next_queue(lane), False)
        else:
            job = self._pool.submit(self._store, messages, queue, True, lane.last)
            lane.last = job
        self._begin(job)

    def _wait_for_room(self) -> None:
        while len(self._under_way) >= 2 * self._options.in_flight:
            self._under_way.popleft().result()

    def _next_queue(self, lane: Lane | PackedLane) -> QueueRef:
        """Whose turn it is."""
        count = len(self._queues_of(lane.topic))
        chosen = self._turns[lane.topic][lane.turn % count]
        lane.turn += 1
        return chosen

    def _begin(self, job: Future[None]) -> None:
        self.requests += 1
        self._under_way.append(job)

    def _store(
        self,
        messages: list[Message] | Entries,
        queue: QueueRef | None,
        is_fixed: bool,
        after: Future[None] | None = None,
    ) -> None:
        """Send one request of messages, on a thread of the pool, once the one before is stored."""
        if after is not None:
            after.result()
        tries_more = self._options.retries
        if not is_fixed:  # the producer then goes from broker to broker by itself
            tries_more = min(1, tries_more)
        topic = messages.topic if isinstance(messages, Entries) else messages[0].topic
        outage = Outage(f"nothing is sent to {topic}", self._options.access.retry_ms)
        tried = 0
        while True:
            if 0 < tried <= tries_more and is_fixed:
                time.sleep(min(BUSY_MAX_MS, BUSY_FIRST_MS << (tried - 1)) / 1000)
            try:
                self._send(messages, queue if is_fixed or not tried else None)
                return
            except FlintError as error:
                if not tries_more or not may_try_again(error):
                    raise
                if isinstance(error, PartlySent):
                    assert not isinstance(messages, Entries), "they are one request"
                    messages = messages[error.stored :]
                if tried >= tries_more:
                    outage.wait(error)
            tried += 1

    def _send(self, messages: list[Message] | Entries, queue: QueueRef | None) -> None:
        timeout_ms = self._options.timeout_ms
        if isinstance(messages, Entries):
            self._producer.send_entries(*messages, timeout_ms=timeout_ms, queue=queue)
        elif len(messages) == 1:
            self._producer.send(messages[0], timeout_ms=timeout_ms, queue=queue)
        else:
            self._producer.send_batch(messages, timeout_ms=timeout_ms, queue=queue)

    # One by one

    def _put_alone(self, message: Message, queue: QueueRef | None) -> None:
        while len(self._alone) >= SINGLES_IN_FLIGHT:
            self._settle()
        timeout_ms = self._options.timeout_ms
        future = self._producer.send_async(message, timeout_ms=timeout_ms, queue=queue)
        self._alone.append((future, message, queue))
        self.requests += 1

    def _settle(self) -> None:
        """Wait for the oldest request in flight, and retry it if it failed."""
        future, message, queue = self._alone.popleft()
        try:
            future.result()
        except FlintError as error:
            if not may_try_again(error):
                raise
            self._store([message], queue, queue is not None)


def first_turn(write: str, batch: int, partition: int) -> int:
    """The queue a task begins at: one further for each batch and each partition of a write.

    Writes begin at different queues by their names, because many are small: each would else have
    its only request at the same queue.
    """
    return zlib.crc32(write.encode()) + batch + partition


def _broker_by_broker(queues: Iterable[QueueRef]) -> list[QueueRef]:
    """The first queue of each broker, then the second of each, and so on."""
    brokers = groupby(sorted(queues), key=lambda queue: queue.broker)
    rounds = zip_longest(*(list(owned) for _, owned in brokers))
    return [queue for each in rounds for queue in each if queue is not None]


def _size_bytes(message: Message) -> int:
    """At least the bytes of a message in a batch, if its texts are ASCII."""
    size_bytes = _ENTRY_BYTES + len(message.body)
    if message.tags is not None:
        size_bytes += len(message.tags)
    for key in message.keys:
        size_bytes += len(key) + 1
    for name, value in message.properties.items():
        size_bytes += len(name) + len(value) + 2
    return size_bytes
