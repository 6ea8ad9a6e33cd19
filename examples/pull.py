"""Pull by yourself: from any offset, as far as you like, as often as you like.

    python examples/pull.py

You will see one queue read with a pull consumer, and then the topic handed out by a lite pull
consumer, to its end and again from a time.  With NAMESRV_ADDR set it works on your cluster.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack

from flintmq import EmbeddedBroker, LitePullConsumer, Message, Producer, PullConsumer, PullStatus

TOPIC = f"readings-{time.time_ns()}"


def read_one_queue(address: str) -> None:
    """Where to start, where to stop and what to remember are yours to say."""
    with PullConsumer("audit", namesrv=address) as consumer:
        queue = consumer.queues(TOPIC)[0]
        offset, count = consumer.min_offset(queue), 0
        while (result := consumer.pull(queue, offset)).status is not PullStatus.NO_NEW_MESSAGE:
            count, offset = count + len(result.messages), result.next_offset
        consumer.commit(queue, offset)
        print(f"{count} messages of queue {queue.queue_id}, committed {offset}")


def poll_the_topic(address: str, since_ms: int) -> None:
    """Queues are shared out and pulled ahead; a batch is done when the next one is asked for."""
    with LitePullConsumer("report", namesrv=address, start_from="first") as consumer:
        consumer.subscribe(TOPIC)
        print(f"{count_until(consumer, 100)} messages polled")
        for queue in consumer.assignment:
            consumer.seek_to_time(queue, since_ms)
        print(f"{count_until(consumer, 100)} messages polled again")


def count_until(consumer: LitePullConsumer, wanted: int) -> int:
    count = 0
    while count < wanted and (messages := consumer.poll(timeout_ms=30_000)):
        count += len(messages)
    return count


if __name__ == "__main__":
    with ExitStack() as stack:
        address = os.environ.get("NAMESRV_ADDR")
        address = address or stack.enter_context(EmbeddedBroker()).namesrv
        started_ms = time.time_ns() // 1_000_000 - 1_000
        with Producer("meter", namesrv=address) as producer:
            for number in range(100):
                producer.send(Message(TOPIC, str(number).encode()))
        read_one_queue(address)
        poll_the_topic(address, started_ms)
