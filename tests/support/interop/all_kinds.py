"""Messages of every kind that a log can have, sent as fast as a pair of brokers takes them.

Plain ones, with keys and tags, with properties beyond ASCII, compressed bodies, batches, delay
levels, timers, large ones that roll files, transactions that end either way, messages sent back for
a retry and dead letters.  Every send must be answered OK: a slave has it.  Brokers of 4.9 have no
timers: pairs with one get delayed messages in their place.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from flintmq import (
    Message,
    Producer,
    PullConsumer,
    SendReceipt,
    SendStatus,
    TransactionProducer,
    TransactionState,
)
from flintmq.errors import FlintError

PATIENCE_S = 120.0
SEND_MS = 60_000
ROUND = 1_000
BATCH = 460
SINGLES = ROUND - 2 * BATCH
LATE, TIMED = 8, 4
TOPICS = 3
LARGE_BYTES = 400_000
WORKERS = 4
SENT_BACK = 20


def send_patiently(producer: Producer, message: Message) -> SendStatus:
    """Send until a broker takes it: routes and slaves may take a moment to be there."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return producer.send(message, timeout_ms=SEND_MS).status
        except FlintError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def send_rounds(producer: Producer, count: int, seed: str, *, timers: bool) -> None:
    """So many messages, by the thousand: two batches and single ones of all kinds."""
    with ThreadPoolExecutor(WORKERS) as pool:
        for _ in pool.map(
            lambda number: _send_round(producer, seed, number, timers=timers), range(count // ROUND)
        ):
            pass


def _send_round(producer: Producer, seed: str, number: int, *, timers: bool) -> None:
    topic = f"orders{number % TOPICS}"
    futures: list[Future[SendReceipt]] = [
        producer.send_async(message, timeout_ms=SEND_MS)
        for message in _singles(topic, f"{seed}-{number}", timers=timers)
    ]
    for part in range(2):
        batch = [
            Message(
                topic, b"%d in a batch" % each, tags="b", keys=[f"{seed}-{number}-{part}-{each}"]
            )
            for each in range(BATCH)
        ]
        _require_ok(producer.send_batch(batch, timeout_ms=SEND_MS))
    _require_ok([future.result(SEND_MS / 1000) for future in futures])


def _singles(topic: str, name: str, *, timers: bool) -> Iterator[Message]:
    for each in range(SINGLES - LATE - TIMED):
        match each % 4:
            case 0 | 1:
                yield Message(
                    topic, b"%06d" % each, tags=f"t{each % 5}", keys=[f"{name}-{each}", "k"]
                )
            case 2:
                yield Message(
                    topic, os.urandom(1 + each * 7), properties={"a": "ü" * (1 + each % 9)}
                )
            case _:
                yield Message(topic, b"compressed " * 500, tags="c")
    for each in range(LATE):
        yield Message("late", b"delayed", delay_level=1 + each % 2)
    for _ in range(TIMED):
        if timers:
            yield Message("timed", b"by timer", delay_ms=1_000)
        else:
            yield Message("timed", b"by level", delay_level=1)


def send_rare_kinds(producer: Producer, namesrv: str) -> None:
    """What is slow or rare: large messages, transactions, retries and dead letters."""
    for number in range(4):
        message = Message("large", os.urandom(LARGE_BYTES + number))
        assert send_patiently(producer, message) is SendStatus.OK
    with TransactionProducer(
        "buyers", lambda _message: TransactionState.UNKNOWN, namesrv=namesrv
    ) as buyers:
        for number in range(SENT_BACK):
            buyers.send_in_transaction(Message("bought", b"%d" % number), _done, timeout_ms=SEND_MS)
    with PullConsumer("returners", namesrv=namesrv) as consumer:
        for queue in consumer.queues("large"):
            for number, received in enumerate(consumer.pull(queue, 0).messages):
                consumer.send_back(received, delay_level=-1 if number % 2 else 1)


def _done(_message: Message, transaction_id: str) -> TransactionState:
    is_kept = int(transaction_id[-1], 16) % 2
    return TransactionState.COMMIT if is_kept else TransactionState.ROLLBACK


def _require_ok(receipts: list[SendReceipt]) -> None:
    statuses = {receipt.status for receipt in receipts}
    assert statuses == {SendStatus.OK}, statuses


def read_all(namesrv: str, group: str, topic: str, *, commits: bool) -> dict[int, int]:
    """Read a topic from its beginning; by queue, how many messages there were.

    Offsets are kept by masters only: without one there is no commit.
    """
    found: dict[int, int] = {}
    with PullConsumer(group, namesrv=namesrv) as consumer:
        for queue in consumer.queues(topic):
            offset, stop = consumer.min_offset(queue), consumer.max_offset(queue)
            found[queue.queue_id] = 0
            while offset < stop:
                result = consumer.pull(queue, offset, count_max=1_024, timeout_ms=SEND_MS)
                found[queue.queue_id] += len(result.messages)
                offset = result.next_offset
            if commits:
                consumer.commit(queue, offset)
    return found
