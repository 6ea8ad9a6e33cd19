"""Pull on a schedule: your function runs for each queue that is yours, and says when again.

    python examples/scheduled_pull.py

You will see how many messages each queue gave.  Two of them at one cluster share its queues.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from contextlib import ExitStack

from flintmq import (
    EmbeddedBroker,
    Message,
    Producer,
    PullConsumer,
    PullContext,
    QueueRef,
    ScheduledPull,
)

MESSAGES = 100

lock = threading.Lock()
counts: Counter[int] = Counter()
all_there = threading.Event()


def pull(queue: QueueRef, context: PullContext[PullConsumer]) -> None:
    """Never runs twice at once for one queue.  What it raises is logged, and it runs again."""
    consumer = context.consumer
    offset = consumer.committed(queue)
    if offset is None:
        offset = consumer.min_offset(queue)
    result = consumer.pull(queue, offset)
    with lock:
        counts[queue.queue_id] += len(result.messages)
        if counts.total() >= MESSAGES:
            all_there.set()
    consumer.update_offset(queue, result.next_offset)  # stored within five seconds, and at the end
    context.next_delay_ms = 0 if result.messages else 200


if __name__ == "__main__":
    with ExitStack() as stack:
        address = os.environ.get("NAMESRV_ADDR") or stack.enter_context(EmbeddedBroker()).namesrv
        with Producer("meter", namesrv=address) as producer:
            for number in range(MESSAGES):
                producer.send(Message("scheduled-readings", str(number).encode()))
        schedule = ScheduledPull("hourly-report", namesrv=address, threads=4)
        schedule.register("scheduled-readings", pull)
        with schedule:
            all_there.wait(60)
    for queue_id, count in sorted(counts.items()):
        print(f"queue {queue_id}: {count} messages")
    print(f"together: {counts.total()}")
